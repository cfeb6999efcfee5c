# SPDX-License-Identifier: Apache-2.0
"""The live view and the plain lines, rendered from made-up reports."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from penstock.cli.panels import HISTORY, OperatorView
from penstock.cli.sparkline import ASCII, sparkline
from penstock.cli.view import LiveView, PlainView, make_view
from penstock.loop.cycle import CycleReport
from penstock.monitor.exactness import ExactnessChange
from penstock.records import (
    Action,
    Allocation,
    LatencySummary,
    Objective,
    Outcome,
    OutcomeStatus,
    Prediction,
    Quality,
    RunLatency,
)
from penstock.settings import RunSettings, parse_settings
from penstock.testing import a_decision
from penstock.testing.synthetic_run import START, synthetic_reports, synthetic_settings
from penstock.units import moment


class _Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def _settings(*operators: str) -> RunSettings:
    return parse_settings(synthetic_settings(*operators or ("log-analysis",)))


def _screen(view: LiveView, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    view._console = console
    console.print(view.render())
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert all(len(line) <= width for line in text.splitlines())
    return str(text)


def _played(seconds: int, *operators: str) -> tuple[LiveView, _Time]:
    time = _Time()
    view = LiveView(
        _settings(*operators), Console(file=io.StringIO()), 240.0, clock_now=lambda: START + time(), monotonic=time
    )
    for operator in operators or ("log-analysis",):
        for second, report in enumerate(synthetic_reports(seconds, operator=operator)):
            time.now = float(second)
            view.phase("running", second / 240)
            view.report(report)
    return view, time


@pytest.mark.parametrize("width", [80, 120, 200])
def test_all_figures_fit_the_screen(width: int) -> None:
    """At 80 columns and up every figure is there, and no line is longer than the screen."""
    text = _screen(_played(131)[0], width)
    for words in (
        "objective p95 <= 3.00 s", "running", "2:10 elapsed, 1:50 left", "600/s", "360 records", "p50",
        "<= 3.00 s", "% of what is allowed", "2 executors x 100% CPU", "good",
        "scale up: 2 executors x 85% CPU -> 2 executors x",
        "because utilisation 0.97 is above 0.7", "done after 1.00 s", "hold: utilisation", "█", "mode act",
    ):  # fmt: skip
        assert words in text, words


def test_missing_data_are_told_in_words() -> None:
    """What is not measured is named with its cause, and never shown as zero."""
    text = _screen(_played(156)[0])
    assert "CPU used  not measured" in text
    assert "incomplete; missing: utilisation: the CPU counters could not be" in text
    assert "no decision is based on this" in text
    assert "0%" not in text.replace("100%", "").replace("70%", "").replace("40%", "")


def test_start_up_shows_the_phase() -> None:
    """Before the first report the phase and its progress are all there is."""
    time = _Time()
    view = LiveView(_settings(), Console(file=io.StringIO()), 240.0, monotonic=time)
    time.now = 12.0
    view.phase("starting operator log-analysis", None)
    text = _screen(view)
    assert "starting operator log-analysis" in text
    assert "0:12 elapsed" in text
    assert "left" not in text
    assert "arriving" not in text


def test_several_operators_have_sections() -> None:
    """Each operator of a pipeline has its own figures under its name."""
    text = _screen(_played(60, "parser", "matcher")[0])
    assert text.count("arriving") == 2
    assert text.index("parser") < text.index("matcher")


def test_notes_and_stopping_are_shown() -> None:
    """Faults are shown with their count, and a second Ctrl-C is answered."""
    view, _ = _played(20)
    view.fault("log-analysis", "did not answer")
    view.fault("log-analysis", "did not answer again")
    view.stopping(again=False)
    text = _screen(view)
    assert "log-analysis: did not answer again (and 1 before)" in text
    assert "stopping in order" in text
    view.stopping(again=True)
    assert "already stopping" in _screen(view)


def test_a_breach_of_the_objective_is_marked() -> None:
    """Latency above the objective is written with its bound, not only coloured."""
    assert "> 3.00 s" in _screen(_played(80)[0])


def test_planned_and_observed_are_kept_apart() -> None:
    """Where the cluster is late, what is planned stands beside what is seen."""
    report = list(synthetic_reports(36))[-1]
    seen = report.observation
    assert report.decision is not None
    late = replace(seen, cluster=replace(seen.cluster, planned=report.decision.target))
    view = OperatorView("log-analysis", Objective())
    view.take(CycleReport(late))
    assert "1 executor x 40% CPU planned 1 executor x 55% CPU" in view.plain()


def test_memory_is_bounded() -> None:
    """However many cycles go by, the history keeps its length."""
    view = OperatorView("log-analysis", Objective("p95", 3.0))
    (report,) = synthetic_reports(1)
    for _ in range(3 * HISTORY):
        view.take(report)
    assert len(view.rates) == len(view.capacities) == HISTORY


def test_terminals_without_unicode_get_plain_signs() -> None:
    """A terminal that knows only ASCII gets ASCII."""
    assert sparkline([0.0, 4.0, 8.0], 10, blocks=ASCII).plain == "_+#"


@pytest.mark.parametrize(
    ("values", "width", "expected"),
    [
        ([], 10, ""),
        ([None, 4.0, None, 8.0], 10, " ▅ █"),
        ([0.0, 0.0], 10, "▁▁"),
        ([1.0, 8.0, None, None], 2, "█ "),
        ([1.0], 0, ""),
    ],
)
def test_sparklines_have_gaps(values: list[float | None], width: int, expected: str) -> None:
    """What is not known is a gap, and a column shows the highest of its share."""
    assert sparkline(values, width).plain == expected


def test_lines_where_there_is_no_terminal() -> None:
    """The plain view shows changes at once, the state every ten seconds, a repeated fault once."""
    out, time = io.StringIO(), _Time()
    time.now = START - 5.0
    view = PlainView(_settings(), Console(file=out, width=80), clock_now=time)
    view.phase("running", 0.0)
    view.phase("running", 0.1)
    for second, report in enumerate(synthetic_reports(40)):
        time.now = START + second
        view.report(report)
    view.fault("log-analysis", "gone")
    view.fault("log-analysis", "gone")
    lines = out.getvalue().splitlines()
    assert lines[0] == f"{moment(START - 5.0, None)}  running"
    assert f"{moment(START + 35.0, START)}  log-analysis: scale up" in out.getvalue()
    assert sum(" arriving, " in line for line in lines) == 4  # at 0, 10, 20 and 30 s
    assert sum("scale up: 1 executor x 40% CPU" in line for line in lines) == 1
    assert sum("gone" in line for line in lines) == 1
    assert "data warming up" in lines[1]
    assert "latency not measured" in lines[1]


def test_the_view_fits_the_console() -> None:
    """A terminal gets the live view unless it is not wanted; anything else gets lines."""
    terminal, pipe = Console(file=io.StringIO(), force_terminal=True), Console(file=io.StringIO())
    assert isinstance(make_view(_settings(), terminal), LiveView)
    assert isinstance(make_view(_settings(), terminal, is_live=False), PlainView)
    assert isinstance(make_view(_settings(), pipe), PlainView)


def test_stopped_queries_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """An observation of a stopped query says so in the plain line."""
    (report,) = synthetic_reports(1)
    view = OperatorView("log-analysis", Objective())
    view.take(CycleReport(replace(report.observation, quality=Quality.STOPPED)))
    assert view.plain().endswith("data stopped")


def _latency(seconds: float) -> LatencySummary:
    return LatencySummary(100, seconds, seconds, seconds, seconds, seconds)


def test_the_latency_now_stands_beside_that_since_the_start() -> None:
    """After a recovery the last seconds count; the run's own figure is without the start-up, and beside it with it."""
    (report,) = synthetic_reports(1)
    view = OperatorView("log-analysis", Objective("p95", 3.0))
    now = CycleReport(replace(report.observation, latency=_latency(0.5)), run_latency=RunLatency(_latency(33.0)))
    view.take(now)
    assert "p95 500 ms <= 3.00 s, overall p95 33 s, start-up" in view.plain()
    view.take(replace(now, run_latency=RunLatency(_latency(33.0), _latency(41.0), _latency(2.5), 48.0)))
    assert "p95 500 ms <= 3.00 s, overall p95 2.50 s; 33 s with start-up" in view.plain()
    out = io.StringIO()
    Console(file=out, width=100).print(view.render(96, START))
    assert "p95 2.50 s; 33 s with start-up" in out.getvalue()


def test_lost_exactness_is_shown_until_it_is_back() -> None:
    """The line with its moment in the plain view, the reason in the live one while it lasts."""
    (report,) = synthetic_reports(1)
    out = io.StringIO()
    view = PlainView(_settings(), Console(file=out, width=80))
    live = OperatorView("log-analysis", Objective())
    for change in (
        ExactnessChange("log-analysis", START + 7.0, is_exact=False, why="the broker was away"),
        ExactnessChange("log-analysis", START + 9.0, is_exact=True),
    ):
        view.report(replace(report, exactness=change))
        live.take(replace(report, exactness=change))
        shown = io.StringIO()
        Console(file=shown, width=100).print(live.render(96, START))
        assert ("latency is not exact: the broker was away" in shown.getvalue()) is not change.is_exact
    text = out.getvalue()
    lost = f"{moment(START + 7.0, START)}  log-analysis: latency is not exact from here on: the broker was away"
    assert lost in text
    assert f"{moment(START + 9.0, START)}  log-analysis: latency is exact again" in text


def test_a_change_is_draining_until_its_executors_are_gone() -> None:
    """The live view counts the seconds, and says at the end how many of them it was."""
    (report,) = synthetic_reports(1)
    decision = a_decision(Allocation(2), Allocation(1), operator="log-analysis", at=START)
    action = Action("log-analysis", START, decision.target, decision.decision_id)
    view = OperatorView("log-analysis", Objective())
    view.take(replace(report, decision=decision, action=action))

    def take(at: float, status: OutcomeStatus, detail: str = "") -> str:
        outcome = Outcome(action.request_id, "log-analysis", at, status, decision.target, at - START, detail)
        view.take(replace(report, decision=None, action=None, outcomes=[outcome]))
        out = io.StringIO()
        Console(file=out, width=100).print(view.render(96, START + 40.0))
        return out.getvalue()

    assert "draining, 38 s: executor 1" in take(START + 2.0, OutcomeStatus.DRAINING, "executor 1")
    assert "done after 41 s, of which draining 39 s" in take(START + 41.0, OutcomeStatus.DONE)


def test_the_view_shows_what_is_predicted_and_what_became_of_predictions() -> None:
    """The newest prediction stays while later decisions make none; beside it the coverage so far."""
    view, _ = _played(131)
    report = list(synthetic_reports(1))[-1]
    told = Prediction(("log-analysis",), 1.25, 3.0, {}, {}, "x", low_seconds=1.0, high_seconds=1.5, confidence=0.9)
    evidence = {
        "predictions_judged": 2, "prediction_coverage": 0.5, "last_predicted_seconds": 1.25,
        "last_low_seconds": 1.0, "last_high_seconds": 1.5, "last_measured_seconds": 1.9,
    }  # fmt: skip
    later = START + 132.0
    for decision in (
        a_decision(operator="log-analysis", at=later, prediction=told),
        a_decision(operator="log-analysis", at=later + 1.0, evidence=evidence),
    ):
        view.report(replace(report, decision=decision))
    text = _screen(view, 160)
    assert "1.25 s (1 s to 1.5 s) of 3 s on log-analysis" in text
    assert "1 of 2 plans measured within their upper end (50%); the last predicted 1.25 s" in text
