# SPDX-License-Identifier: Apache-2.0
"""What a run's summary says of its latency."""

from __future__ import annotations

from dataclasses import replace

from penstock.account import PathOutcome, RunSummary
from penstock.records import LatencySummary, Objective, RunLatency

SUMMARY = RunSummary(
    name="p", folder="", mode="act", started_at=5.0, ended_at=9.0, paths=(), records_due=None, records_read=None,
    records_done=None, executor_seconds=0.0, capacity_seconds=0.0, static_capacity_seconds=0.0, decisions=(),
    missed_turns=3,
)  # fmt: skip


def of(seconds: float) -> LatencySummary:
    """A summary of records that all took so long."""
    return LatencySummary(9, seconds, seconds, seconds, seconds, seconds)


def test_the_start_up_is_apart_and_the_verdict_on_all_records_stays() -> None:
    """`latency` and `met` are of all records, as ever; beside them stands the part after the start-up."""
    run = RunLatency(of(33.0), of(41.0), of(2.5), steady_from=48.0)
    written = replace(SUMMARY, paths=(PathOutcome.of(("a",), Objective("p95", 3.0), run),)).to_json()
    assert (written["latency"]["p95"], written["objective"]["met"]) == (33.0, False)
    assert (written["latency_steady"]["p95"], written["objective"]["met_steady"]) == (2.5, True)
    assert (written["latency_start_up"]["p95"], written["steady_from"]) == (41.0, 48.0)
    assert written["paths"]["a"]["latency_steady"] == written["latency_steady"]
    assert (written["started_at"], written["ended_at"], written["missed_turns"]) == (5.0, 9.0, 3)


def test_what_was_not_told_apart_is_not_known() -> None:
    """Without a steady part there is no verdict on it."""
    written = replace(SUMMARY, paths=(PathOutcome.of(("a",), Objective("p95", 3.0), RunLatency(of(1.0))),)).to_json()
    assert (written["objective"]["met"], written["objective"]["met_steady"]) == (True, None)
    assert written["latency_steady"] is None
    assert replace(SUMMARY, paths=(PathOutcome.of(("a",), Objective("p95", 3.0), None),)).to_json()["latency"] is None
