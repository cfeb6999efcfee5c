# SPDX-License-Identifier: Apache-2.0
"""All runs as one table, and what was promised held against them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from statistics import mean, median
from typing import Any

from benchmarks.promise.rivals import LOADS, MACHINES, RIVALS

KEPT = 0.9
"""Of the runs where static keeps the bound, mead is to keep it in this part."""
WANTED = 10
"""So many runs are needed for a verdict: one good run says nothing about nine in ten."""
_DYNAMIC = tuple(rival.name for rival in RIVALS if rival.spark)


@dataclass(frozen=True)
class Run:
    """One run, after its start-up."""

    load: str
    neighbour: str
    rival: str
    number: int
    minutes: float
    """How long records arrived."""
    bound_seconds: float
    p95_seconds: float | None
    violation_share: float | None
    """Part of the time in which the bound was broken: by records that were done, or by those that wait."""
    executor_seconds: float | None
    cpu_seconds: float | None
    """Executors times CPU share, over time: what was paid for. None, as all costs: the run failed."""
    static_cpu_seconds: float | None
    changes: int
    records_due: int | None
    records_done: int | None
    version: str
    commit: str | None
    failure: str = ""

    @property
    def is_done(self) -> bool:
        """Whether it came to its end with every record done: a run that left some has neither latency nor cost."""
        return (
            not self.failure
            and self.records_due is not None
            and self.records_done is not None
            and self.records_done >= self.records_due
        )

    @property
    def is_kept(self) -> bool:
        """Whether the bound was kept; a run that failed or left records has not kept it."""
        return self.is_done and self.p95_seconds is not None and self.p95_seconds <= self.bound_seconds

    @property
    def violations(self) -> float:
        """Part of the time with a violation; a run that failed or left records violates all the time."""
        return self.violation_share if self.is_done and self.violation_share is not None else 1.0

    def to_json(self) -> dict[str, Any]:
        """One line of the file of runs."""
        return {name: round(value, 4) if isinstance(value, float) else value for name, value in asdict(self).items()}


def table(runs: Sequence[Run]) -> list[str]:
    """Markdown: a row for each load, neighbour and rival; no run is left out, but costs are of those that did all."""
    lines = [
        "| load | machine | sized by | kept | p95, median (worst) | violated | executor-s | CPU of static | changes |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for load, neighbour, rival, group in _groups(runs):
        p95 = [run.p95_seconds for run in group if run.p95_seconds is not None]
        done = [run for run in group if run.is_done]
        cells = [
            f"{median(p95):.1f} s ({max(p95):.1f} s)" if p95 else "unknown",
            f"{mean(run.violations for run in group):.1%}",
            f"{_mean(done, 'executor_seconds'):,.0f}" if done else "",
            f"{_mean(done, 'cpu_seconds') / _mean(done, 'static_cpu_seconds'):.0%}" if done else "",
            f"{mean(run.changes for run in done):.1f}" if done else "",
        ]
        kept = f"{sum(run.is_kept for run in group)} of {len(group)}"
        lines.append(f"| {load} | {neighbour} | {rival} | {kept} | {' | '.join(cells)} |")
    return lines


def short_table(runs: Sequence[Run]) -> list[str]:
    """Markdown: a row for each load and machine, with who keeps the bound, for how much, and the answer."""
    lines = [
        f"| load | machine | {' | '.join(rival.name for rival in RIVALS)} | as promised |",
        f"|---|---|{'---|' * len(RIVALS)}---|",
    ]
    by = {(load, neighbour, rival): group for load, neighbour, rival, group in _groups(runs)}
    answers = verdicts(runs)
    for load, neighbour in product(LOADS, MACHINES):
        groups = [by.get((load, neighbour, rival.name), []) for rival in RIVALS]
        if not any(groups):
            continue
        mine = [is_so for text, is_so in answers if text.startswith(f"{load}, {neighbour}: ")]
        answer = "NO" if False in mine else "not known" if None in mine else "yes"
        lines.append(f"| {load} | {neighbour} | {' | '.join(map(_short, groups))} | {answer} |")
    return lines


def _short(group: Sequence[Run]) -> str:
    """Bound kept, time violated, executor seconds and CPU, of one rival under one load."""
    if not group:
        return ""
    done = [run for run in group if run.is_done]
    cost = (
        f"; {_mean(done, 'executor_seconds'):,.0f} executor-s, "
        f"{_mean(done, 'cpu_seconds') / _mean(done, 'static_cpu_seconds'):.0%} CPU"
        if done
        else ""
    )
    kept = sum(run.is_kept for run in group)
    return f"kept {kept} of {len(group)}; violated {mean(run.violations for run in group):.1%}{cost}"


def verdicts(runs: Sequence[Run]) -> list[tuple[str, bool | None]]:
    """What was promised, and whether it was so; None: the runs that would say so are missing."""
    found: list[tuple[str, bool | None]] = []
    by = {(load, neighbour, rival): group for load, neighbour, rival, group in _groups(runs)}
    for load, neighbour in product(LOADS, MACHINES):
        where = f"{load}, {neighbour}"
        mead, static = by.get((load, neighbour, "mead"), []), by.get((load, neighbour, "static"), [])
        kept = {run.number for run in static if run.is_kept}
        beside = [run.is_kept for run in mead if run.number in kept]
        found.append((
            f"{where}: mead keeps the bound in {KEPT:.0%} of the runs in which static does "
            f"({sum(beside)} of {len(beside)})",
            _is_kept_often(beside),
        ))  # fmt: skip
        found.append((f"{where}: mead takes less CPU than static", _is_less_cpu(mead, static)))
        for dynamic in _DYNAMIC:
            other = by.get((load, neighbour, dynamic), [])
            found.append((f"{where}: mead is better than {dynamic}", _is_better(mead, other)))
    return found


def told(found: Sequence[tuple[str, bool | None]]) -> list[str]:
    """Verdicts as lines."""
    return [f"- {text}: {'not known' if is_so is None else 'yes' if is_so else 'NO'}" for text, is_so in found]


def versions(runs: Sequence[Run]) -> str:
    """What they were run with."""
    each = sorted({f"{run.version} ({run.commit})" for run in runs})
    return f"run with {', '.join(each) or 'nothing yet'}"


def _is_kept_often(kept: Sequence[bool]) -> bool | None:
    """Whether so many of the runs kept it; False as soon as the runs that are missing cannot mend it."""
    allowed = (1.0 - KEPT) * max(len(kept), WANTED)
    if sum(not one for one in kept) > allowed + 1e-9:
        return False
    return True if len(kept) >= WANTED else None


def _is_less_cpu(mead: Sequence[Run], static: Sequence[Run]) -> bool | None:
    """Over the rounds in which both did every record: what a run that failed would have cost is not known."""
    done = {run.number for run in mead if run.is_done} & {run.number for run in static if run.is_done}
    if len(done) < WANTED:
        return None
    ours, theirs = ([run for run in runs if run.number in done] for runs in (mead, static))
    return _mean(ours, "cpu_seconds") < _mean(theirs, "cpu_seconds")


def _is_better(mead: Sequence[Run], other: Sequence[Run]) -> bool | None:
    """At most its violation time for fewer executor seconds, or half of it for as many."""
    rounds = {run.number for run in mead} & {run.number for run in other}
    if len(rounds) < WANTED:
        return None
    ours, theirs = ([run for run in runs if run.number in rounds] for runs in (mead, other))
    violations, others = (mean(run.violations for run in runs) for runs in (ours, theirs))
    our_done, their_done = ([run for run in runs if run.is_done] for runs in (ours, theirs))
    if not our_done:
        return False
    if not their_done:
        return None  # nothing to compare the cost with
    executors, their_executors = (_mean(runs, "executor_seconds") for runs in (our_done, their_done))
    is_cheaper = violations <= others and executors < their_executors
    return is_cheaper or (violations <= 0.5 * others and executors <= their_executors)


def _mean(runs: Sequence[Run], name: str) -> float:
    """The mean cost of runs that did every record."""
    return mean(float(getattr(run, name)) for run in runs)


def _groups(runs: Sequence[Run]) -> list[tuple[str, str, str, list[Run]]]:
    """The runs of each load, neighbour and rival, in a fixed order."""
    keys = sorted(
        {(run.load, run.neighbour, run.rival) for run in runs},
        key=lambda key: (LOADS.index(key[0]), MACHINES.index(key[1]), [rival.name for rival in RIVALS].index(key[2])),
    )
    return [(*key, [run for run in runs if (run.load, run.neighbour, run.rival) == key]) for key in keys]
