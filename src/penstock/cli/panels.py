# SPDX-License-Identifier: Apache-2.0
"""The live view of one operator: its newest figures, a short history, the last decision and its reason."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from rich.table import Table
from rich.text import Text

from penstock.account import OperatorAccount
from penstock.cli.sparkline import BLOCKS, sparkline
from penstock.loop.cycle import CycleReport
from penstock.money import Cost, CostBasis
from penstock.records import Decision, Objective, Observation, Outcome, OutcomeStatus, Prediction, Quality, RunLatency
from penstock.units import clock, format_count, format_seconds

HISTORY = 600
"""Cycles kept: memory stays bounded however long the run."""
_LABEL_WIDTH, _VALUE_WIDTH = 9, 32


def _history() -> deque[float | None]:
    return deque(maxlen=HISTORY)


@dataclass(slots=True)
class OperatorView:
    """The live picture of one operator."""

    name: str
    objective: Objective
    basis: CostBasis | None = None
    """What its time is priced by; None: no cost is shown."""
    seen: Observation | None = None
    decision: Decision | None = None
    """The last decision of any kind."""
    change: Decision | None = None
    """The last decision that changed something."""
    predicted: Prediction | None = None
    """What was last predicted."""
    outcome: Outcome | None = None
    run: RunLatency | None = None
    """Latency since the start."""
    inexact: str = ""
    """Why the latency is not exact now; empty: it is."""
    _account: OperatorAccount = field(default_factory=OperatorAccount)
    _drain_since: float | None = None
    _change_request: str | None = None
    rates: deque[float | None] = field(default_factory=_history)
    latencies: deque[float | None] = field(default_factory=_history)
    backlogs: deque[float | None] = field(default_factory=_history)
    utilisations: deque[float | None] = field(default_factory=_history)
    capacities: deque[float | None] = field(default_factory=_history)

    @property
    def statistic(self) -> str:
        """The latency statistic that is watched."""
        return self.objective.statistic or "p95"

    def take(self, report: CycleReport) -> None:
        """Add one cycle."""
        self._account.add(report)
        seen = self.seen = report.observation
        observed = seen.cluster.observed
        self.rates.append(seen.arrival_rate_rows_per_second)
        self.backlogs.append(seen.backlog_records)
        self.latencies.append(None if seen.latency is None else seen.latency.statistic(self.statistic))
        self.utilisations.append(seen.utilisation)
        self.capacities.append(None if observed is None else observed.capacity)
        if report.decision is not None:
            self.decision = report.decision
            self.predicted = report.decision.prediction or self.predicted
            if report.decision.is_change:
                self.change, self.outcome, self._drain_since = report.decision, None, None
                self._change_request = None if report.action is None else report.action.request_id
        for outcome in report.outcomes:
            if outcome.request_id == self._change_request:
                self.outcome = outcome
                if outcome.status is OutcomeStatus.DRAINING:
                    self._drain_since = outcome.at
        self.run = report.run_latency or self.run
        if report.exactness is not None:
            self.inexact = report.exactness.why

    @property
    def cost(self) -> Cost | None:
        """What the operator has cost since the view began; None: it has no price, or was not observed."""
        return self._account.cost(self.basis)

    def render(self, width: int, now: float, *, blocks: str = BLOCKS, is_short: bool = False) -> Table:
        """Return the view as a table `width` columns wide. Short: without what needs no attention."""
        table = Table.grid(padding=(0, 1))
        table.add_column(style="dim", width=_LABEL_WIDTH, no_wrap=True)
        table.add_column(width=_VALUE_WIDTH)
        table.add_column(no_wrap=True)
        room = max(0, width - _LABEL_WIDTH - _VALUE_WIDTH - 4)
        seen = self.seen
        if seen is None:
            table.add_row("data", Text("waiting for the first observation", style="dim"), "")
            return table
        bound = self.objective.seconds

        def line(values: deque[float | None], **look: object) -> Text:
            return sparkline(list(values), room, blocks=blocks, **look)  # type: ignore[arg-type]

        table.add_row("arriving", _per_second(seen.arrival_rate_rows_per_second), line(self.rates))
        table.add_row("backlog", _records(seen.backlog_records), line(self.backlogs, style="magenta"))
        table.add_row("latency", self._latency_text(seen), line(self.latencies, style="green", above=bound))
        if (run := self._run_text()) is not None:
            table.add_row("overall", run, "")
        table.add_row("CPU used", _utilisation(seen), line(self.utilisations, style="blue", top=1.0))
        table.add_row("capacity", _size(seen), line(self.capacities, style="yellow"))
        wide = Table.grid(padding=(0, 1))
        wide.add_column(style="dim", width=_LABEL_WIDTH, no_wrap=True)
        wide.add_column(width=max(20, width - _LABEL_WIDTH - 2))
        if not is_short or seen.quality is not Quality.GOOD or seen.missing:
            wide.add_row("data", _data(seen))
        if self.inexact:
            wide.add_row("", Text(f"latency is not exact: {self.inexact}", style="yellow"))
        if self.predicted is not None:
            wide.add_row("predicted", Text(str(self.predicted)))
        if self.decision is not None and self.decision.judged_text:
            wide.add_row("", Text(self.decision.judged_text, style="dim"))
        if self.cost is not None:
            wide.add_row("cost", Text(str(self.cost)))
        for label, text in self._decision_rows(now):
            wide.add_row(label, text)
        both = Table.grid()
        both.add_row(table)
        both.add_row(wide)
        return both

    def _latency_text(self, seen: Observation) -> Text:
        if seen.latency is None:
            return Text("not measured", style="dim")
        text = Text()
        if self.statistic != "p50":
            text.append(f"p50 {format_seconds(seen.latency.p50_seconds)}  ")
        value, is_met = seen.latency.statistic(self.statistic), self.objective.is_met_by(seen.latency)
        style = "" if is_met is None else "green" if is_met else "bold red"
        text.append(f"{self.statistic} {format_seconds(value)}", style=style)
        if is_met is not None:
            text.append(f" {'<=' if is_met else '>'} {format_seconds(self.objective.seconds)}", style=style)
        return text

    def _run_text(self) -> Text | None:
        """The latency since the start: without the start-up, and beside it with it."""
        if self.run is None or self.run.whole is None:
            return None
        whole = format_seconds(self.run.whole.statistic(self.statistic))
        if self.run.steady is None:
            return Text(f"{self.statistic} {whole}, start-up", style="dim")
        steady = format_seconds(self.run.steady.statistic(self.statistic))
        return Text(f"{self.statistic} {steady}; {whole} with start-up", style="dim")

    def _decision_rows(self, now: float) -> list[tuple[str, Text]]:
        if self.decision is None:
            return [("decision", Text("none yet", style="dim"))]
        rows: list[tuple[str, Text]] = []
        if self.change is not None:
            what = Text(f"{self.change.verb}: {self.change.change_text}", style="bold")
            rows.append(("change", what))
            rows.append(("", Text(f"because {_reason(self.change)}")))
            rows.append(("", self._outcome_text(now).append(f"  ({clock(max(0.0, now - self.change.at))} ago)", "dim")))
        if self.decision is not self.change:
            hold = Text(f"hold: {_reason(self.decision)}")
            rows.append(("now", hold))
        return rows

    def _outcome_text(self, now: float) -> Text:
        if self.change is not None and self.change.mode == "recommend":
            return Text("recommended only, not carried out", style="dim")
        outcome = self.outcome
        if outcome is None or outcome.status is OutcomeStatus.PENDING:
            return Text("under way", style="yellow")
        if outcome.status is OutcomeStatus.DRAINING:
            return Text(f"draining, {max(0.0, now - outcome.at):.0f} s: {outcome.detail}", style="yellow")
        after = format_seconds(outcome.after_seconds)
        if outcome.status is OutcomeStatus.DONE:
            drained = "" if self._drain_since is None else f", of which draining {outcome.at - self._drain_since:.0f} s"
            return Text(f"done after {after}{drained}", style="green")
        return Text(f"{outcome.status} after {after}{': ' if outcome.detail else ''}{outcome.detail}", style="red")

    def plain(self) -> str:
        """Return the view as one line of text."""
        seen = self.seen
        if seen is None:
            return f"{self.name}: not observed yet"
        rate, used = seen.arrival_rate_rows_per_second, seen.utilisation
        parts = [
            "arrivals not measured" if rate is None else f"{_per_second(rate).plain} arriving",
            f"backlog {'not measured' if seen.backlog_records is None else format_count(seen.backlog_records)}",
            "latency not measured" if seen.latency is None else self._latency_text(seen).plain.replace("  ", " "),
            *([] if (run := self._run_text()) is None else [f"overall {run.plain}"]),
            "CPU not measured" if used is None else f"CPU {used:.0%}",
            _size(seen).plain.replace("\n", " "),
            *([] if self.cost is None else [f"cost {self.cost}"]),
        ]
        if seen.quality is not Quality.GOOD:
            parts.append(f"data {seen.quality}")
        return f"{self.name}: " + ", ".join(parts)


def _reason(decision: Decision) -> str:
    guards = "".join(f"; {a.guard}: {a.reason}" for a in decision.amended_by)
    return f"{decision.reason} ({decision.policy}){guards}"


def _per_second(rate: float | None) -> Text:
    return Text("not measured", style="dim") if rate is None else Text(f"{format_count(rate)}/s")


def _records(count: int | None) -> Text:
    return Text("not measured", style="dim") if count is None else Text(f"{format_count(count)} records")


def _utilisation(seen: Observation) -> Text:
    if seen.utilisation is None:
        return Text("not measured", style="dim")
    return Text(f"{seen.utilisation:.0%} of what is allowed")


def _size(seen: Observation) -> Text:
    observed, planned = seen.cluster.observed, seen.cluster.planned
    text = Text("not seen yet", style="dim") if observed is None else Text(str(observed))
    if planned is not None and planned != observed:
        text.append(f"\nplanned {planned}", style="yellow")
    return text


def _data(seen: Observation) -> Text:
    good = seen.quality is Quality.GOOD
    text = Text(str(seen.quality), style="green" if good else "yellow")
    if seen.missing:
        text.append("; missing: " + "; ".join(seen.missing[:3]), style="yellow")
        if len(seen.missing) > 3:
            text.append(f"; and {len(seen.missing) - 3} more", style="yellow")
    if not good:
        text.append("(no decision is based on this)", style="dim")
    return text
