# SPDX-License-Identifier: Apache-2.0
"""The summary at the end of a run."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from typing import Any

from rich.console import Console
from tests.unit.cli.conftest import a_summary

from penstock.account import PathOutcome
from penstock.cli.summary import summary_panel
from penstock.records import LatencySummary, Objective, RunLatency


def shown(summary: dict[str, Any]) -> str:
    """The panel as text, its lines joined."""
    out = io.StringIO()
    Console(file=out, width=160).print(summary_panel(summary))
    return out.getvalue()


def of(seconds: float, **changes: Any) -> LatencySummary:
    """A summary of records that all took so long."""
    return replace(LatencySummary(900, seconds, seconds, seconds, seconds, seconds), **changes)


def test_the_steady_latency_comes_first_and_the_start_up_beside_it() -> None:
    """Both verdicts are given where they differ."""
    path = PathOutcome.of(("a",), Objective("p95", 3.0), RunLatency(of(33.0), of(41.0), of(2.5), 48.0))
    text = shown(replace(a_summary(), paths=(path,)).to_json())
    assert "latency    mean 2.50 s, p50 2.50 s, p95 2.50 s, p99 2.50 s" in text
    assert "p95 33 s with the start-up, of which start-up: p95 41 s, 900 records" in text
    assert "p95 <= 3.00 s: met after the start-up, not met with it" in text


def test_lost_exactness_and_missed_turns_are_said() -> None:
    """Each with what it means; neither without a cause."""
    plain = shown(a_summary().to_json())
    assert "not exact" not in plain
    assert "missed" not in plain
    guessed = of(1.0, is_exact=False, inexact_because="the broker was away")
    path = PathOutcome(("a",), Objective("p95", 3.0), guessed)
    text = shown(replace(a_summary(), paths=(path,), missed_turns=7).to_json())
    assert "(not exact: the broker was away)" in text
    assert "7 passes that fell out: the one before took longer than the interval" in text


def test_a_busy_machine_is_mentioned() -> None:
    """Where the host was short of CPU, the summary says so; else it says nothing of it."""
    summary = a_summary().to_json()
    assert "machine" not in shown({**summary, "machine": {"busy": None}})
    assert "busy: a load average of 30.4 on 2 cores" in shown(
        {**summary, "machine": {"busy": "a load average of 30.4 on 2 cores"}}
    )


def test_why_a_master_ended_a_run_is_said() -> None:
    """With the time; a run that ended by itself has no such line."""
    assert "ended " not in shown(a_summary().to_json())
    text = shown(replace(a_summary(), why_ended="its agent was lost").to_json())
    assert re.search(r"ended +\d\d:\d\d:\d\d \(\+\S+\): its agent was lost", text)
