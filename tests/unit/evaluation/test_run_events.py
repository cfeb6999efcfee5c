# SPDX-License-Identifier: Apache-2.0
"""Restarts and lost exactness, read from what a store remembers."""

from __future__ import annotations

from penstock.evaluation.run_events import exactness_changes, inexact_spans, restarts
from penstock.records import Allocation, Decision, ExecutorSize, LatencySummary, Mode, Observation
from penstock.testing import a_decision, an_observation

LARGE = ExecutorSize(4, "2g", worth=2.0)


def seen(at: float, run: str | None = "one", why: str = "") -> Observation:
    """An observation in one run of the query, its latency exact unless there is a reason."""
    latency = LatencySummary(9, 1.0, 1.0, 1.0, 1.0, 1.0, not why, why)
    return an_observation(operator="op", at=at, query_run=run, latency=latency)


def resize(at: float, mode: Mode = Mode.ACT) -> Decision:
    """A decision that takes a restart."""
    return a_decision(Allocation(1), Allocation(1, size=LARGE), operator="op", at=at, mode=mode)


def test_another_run_of_the_query_is_a_restart() -> None:
    """It is dated by the first observation of the new run; a run that is not known yet is none."""
    found = restarts({"op": [seen(1.0, None), seen(2.0), seen(3.0), seen(30.0, "two"), seen(31.0, "two")]}, [])
    assert [(r.operator, r.at, r.resize) for r in found] == [("op", 30.0, None)]
    assert str(found[0]) == "op: runs again after it had ended, from its checkpoint"


def test_a_restart_for_another_size_names_its_decision() -> None:
    """Only the restart after the decision is its own; one that was only recommended makes none."""
    observations = {"op": [seen(1.0), seen(20.0, "two"), seen(60.0, "three"), seen(90.0, "four")]}
    found = restarts(observations, [resize(40.0), resize(70.0, Mode.RECOMMEND)])
    assert [r.at for r in found if r.resize is not None] == [60.0]
    assert str(found[1]).startswith("op: runs again with another size: 1 executor")


def test_spans_that_are_not_exact_end_with_the_run_at_the_latest() -> None:
    """The reason and moment of each loss, and from when to when it lasted."""
    changes = exactness_changes(
        {"op": [seen(1.0), seen(2.0, why="away"), seen(9.0), seen(20.0, why="sampled"), seen(25.0, why="sampled")]}
    )
    assert [(c.at, c.is_exact, c.why) for c in changes] == [
        (2.0, False, "away"),
        (9.0, True, ""),
        (20.0, False, "sampled"),
    ]
    assert inexact_spans(changes, "op", 25.0) == [(2.0, 9.0), (20.0, 25.0)]
    assert inexact_spans(changes, "another", 25.0) == []
