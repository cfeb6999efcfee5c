# SPDX-License-Identifier: Apache-2.0
"""What became of MEAD's plans: each path's latency while a plan was in force, held against what was predicted for it.

A plan predicts for its period and its allocation. A record counts for it if it arrived

* after every operator of the path was seen to have what the plan gives it and, where that was a change, after all that
  had arrived before the change was done: the backlog of one allocation is not the fault of the next;
* before the next plan came, the period was over, or an operator was seen to have something else.

Its latency counts whenever it is done. So a plan that a rescue had to correct is judged by the records that came
before: they were late under it, and would have been later still without. A plan that was never in force, because a
guard or a person kept it from being so, or because arrivals overtook it, is not judged. Neither is one during which
data were missing, a query was started anew or still warmed up, nor one of too few records.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.monitor.latency import HistogramPart, LatencyHistogram
from penstock.performance.adaptive_interval import AdaptiveInterval, Margin
from penstock.ports import DoneRecords, Look, Notebook
from penstock.records import Allocation, Objective, Prediction, Quality
from penstock.topology import Path

_LEAST_RECORDS = {"mean": 10, "p50": 10, "p95": 20, "p99": 100}
"""Records before a statistic says something: for a percentile, as many as have one above it."""
_MOST_WAITING = 4
"""Plans of a path whose last records are waited for, and periods for which they are."""


@dataclass(frozen=True, eq=False, slots=True)
class PlanInForce:
    """A plan as it is judged: when its analysis began, what it gives each operator, and what it predicts.

    `unjudged` are operators that it was made without knowing: their paths are not judged.
    """

    at: float
    targets: Mapping[str, Allocation]
    predictions: tuple[Prediction, ...]
    unjudged: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class JudgedPlan:
    """A prediction, its interval, and what was measured."""

    predicted_seconds: float
    low_seconds: float
    high_seconds: float
    measured_seconds: float


@dataclass(slots=True)
class _Period:
    """The time in which a prediction held."""

    prediction: Prediction
    given: Margin
    start: float
    end: float
    histogram: LatencyHistogram = field(default_factory=LatencyHistogram)

    def take(self, done: DoneRecords) -> None:
        mine = (done.arrived >= self.start) & (done.arrived < self.end)
        if mine.any():
            self.histogram.add(HistogramPart.of(done.seconds[mine]))


class _PathJudge:
    """Judges the predictions for one path."""

    def __init__(self, path: Path, objective: Objective, confidence: float, period_seconds: float) -> None:
        assert objective.statistic is not None
        assert objective.seconds is not None
        self.path, self.statistic = path, objective.statistic
        self.interval = AdaptiveInterval(confidence, objective.seconds)
        self.latest: JudgedPlan | None = None
        self._period_seconds = period_seconds
        self._is_due: tuple[Prediction, Margin] | None = None
        """A prediction that waits for its allocation to be in force, and the margin that it was given."""
        self._open: _Period | None = None
        self._waiting: deque[_Period] = deque(maxlen=_MOST_WAITING)
        """Periods that are over, of which some records are not done."""
        self._had: tuple[Allocation | None, ...] = ()
        self._had_since = -math.inf
        self._is_settled = True
        """Whether all that came before the last change is done."""

    def take(self, done: DoneRecords) -> None:
        """Count records that came to the path's end."""
        if done.arrived.size == 0:
            return
        newest = float(done.arrived.max())
        self._is_settled = self._is_settled or newest >= self._had_since
        for period in (*self._waiting, *((self._open,) if self._open is not None else ())):
            period.take(done)
        while self._waiting and newest >= self._waiting[0].end:
            self._judge(self._waiting.popleft())

    def predicted(self, at: float, prediction: Prediction, given: Margin) -> None:
        """Take a new plan's prediction: that of the one before ends."""
        self._close(at)
        is_known = math.isfinite(prediction.seconds) and prediction.unsolved is None
        self._is_due = (prediction, given) if is_known else None

    def look(self, at: float, has: tuple[Allocation | None, ...], is_planned: bool) -> None:
        """Take note of what the path's operators have, and whether that is what the plan gives them."""
        if has != self._had:
            self._had, self._had_since, self._is_settled = has, at, False
        if not is_planned or (self._open is not None and at >= self._open.end):
            self._close(at)
        while self._waiting and at > self._waiting[0].end + _MOST_WAITING * self._period_seconds:
            self._judge(self._waiting.popleft())
        if is_planned and self._is_due is not None and self._is_settled:
            (prediction, given), self._is_due = self._is_due, None
            self._open = _Period(prediction, given, at, at + self._period_seconds)

    def forget(self) -> None:
        """Let go of what is under way: what was measured cannot be trusted."""
        self._is_due = self._open = None
        self._waiting.clear()
        self._had, self._is_settled = (), False

    def _close(self, at: float) -> None:
        if self._open is not None:
            self._open.end = min(self._open.end, at)
            self._waiting.append(self._open)
            self._open = None

    def _judge(self, period: _Period) -> None:
        measured = period.histogram.summary()
        if measured is None or measured.records < _LEAST_RECORDS[self.statistic]:
            return
        predicted, seconds = period.prediction.seconds, measured.statistic(self.statistic)
        self.interval.update(predicted, seconds, period.given)
        self.latest = JudgedPlan(predicted, *period.given.around(predicted), seconds)


class PlanJudge:
    """Judges all paths of a pipeline, and gives the margins of the next plan.

    Parameters
    ----------
    objectives
        Of each path.
    confidence
        Of the intervals.
    period_seconds
        From one plan to the next.
    queries
        What each operator runs: what was learnt with other queries does not count.
    """

    def __init__(
        self,
        objectives: Mapping[Path, Objective],
        confidence: float,
        period_seconds: float,
        queries: Mapping[str, str],
    ) -> None:
        self._paths = {
            path: _PathJudge(path, wanted, confidence, period_seconds) for path, wanted in objectives.items()
        }
        ends = [path[-1] for path in objectives]
        self._by_end = {path[-1]: judge for path, judge in self._paths.items() if ends.count(path[-1]) == 1}
        """The paths whose latency can be told from that of others."""
        self._about = {
            path: f"{wanted} at {confidence:g} of {' > '.join(f'{name} {queries[name]}' for name in path)}"
            for path, wanted in objectives.items()
        }
        self._has: dict[str, Allocation | None] = {}
        self._runs: dict[str, str] = {}
        self._bad: set[str] = set()
        self._given: dict[float, Mapping[Path, Margin]] = {}
        """The margins that each analysis was given, by its start."""
        self._plan: PlanInForce | None = None
        self._looked_at = -math.inf

    def margins(self, at: float) -> Mapping[Path, Margin]:
        """By what predictions may be off, for an analysis that begins now."""
        given = {path: judge.interval.margin for path, judge in self._paths.items()}
        newest = None if self._plan is None else self._plan.at
        self._given = {begun: margins for begun, margins in self._given.items() if begun == newest}
        self._given[at] = given
        return given

    def watch(self, look: Look) -> None:
        """Take in one look at an operator."""
        name, seen = look.operator, look.observation
        self._has[name] = seen.cluster.observed
        run = seen.query_run or self._runs.get(name, "")
        is_anew = self._runs.setdefault(name, run) != run
        self._runs[name] = run
        if seen.quality is not Quality.GOOD or is_anew:
            self._bad.add(name)
        judge = self._by_end.get(name)
        done = look.path_done if judge is not None and len(judge.path) > 1 else look.done
        if judge is not None and done is not None:
            judge.take(done)

    def look(self, at: float, plan: PlanInForce | None) -> None:
        """All operators have been seen: see whether the newest plan is in force."""
        if at < self._looked_at:  # a clock was set back: instants before and after do not belong together
            self._bad.update(self._has)
        self._looked_at = at
        is_new = plan is not None and (self._plan is None or plan.at != self._plan.at)
        self._plan = plan
        for path, judge in self._paths.items():
            if not self._bad.isdisjoint(path):
                judge.forget()
                continue
            if is_new:
                assert plan is not None
                given = self._given.get(plan.at)
                predicted = next((p for p in plan.predictions if p.path == path), None)
                if given is not None and predicted is not None and plan.unjudged.isdisjoint(path):
                    judge.predicted(at, predicted, given[path])
            has = tuple(self._has.get(name) for name in path)
            is_planned = plan is not None and all(
                there is not None and there.satisfies(plan.targets[name]) for name, there in zip(path, has, strict=True)
            )
            judge.look(at, has, is_planned)
        self._bad.clear()

    def evidence(self, path: Path) -> dict[str, float | int | str | None]:
        """How far predictions for a path were off so far, for a decision."""
        judge = self._paths[path]
        latest, interval = judge.latest, judge.interval
        return {
            "judged_path": " > ".join(path),
            "predictions_judged": interval.judged,
            "prediction_coverage": interval.coverage,
            "prediction_error": interval.error,
            "last_predicted_seconds": None if latest is None else latest.predicted_seconds,
            "last_low_seconds": None if latest is None else latest.low_seconds,
            "last_high_seconds": None if latest is None else latest.high_seconds,
            "last_measured_seconds": None if latest is None else latest.measured_seconds,
        }

    def begin_with(self, notebook: Notebook) -> None:
        """Start with what earlier runs of the same queries have learnt."""
        for path, judge in self._paths.items():
            judge.interval.begin_with(self._about[path], notebook.read(_note_name(path)))

    def write_down(self, notebook: Notebook) -> None:
        """Keep what was learnt for a later run."""
        for path, judge in self._paths.items():
            if judge.interval.judged:
                notebook.write(_note_name(path), judge.interval.as_text(self._about[path]))


def _note_name(path: Path) -> str:
    return f"errors of predictions for {' > '.join(path)}"
