# SPDX-License-Identifier: Apache-2.0
"""Batches that ran wholly under one allocation."""

from __future__ import annotations

from penstock.monitor.steady import SteadyBatches
from penstock.records import Allocation, BatchProgress

FULL, LESS = Allocation(1, 1.0), Allocation(1, 0.4)


def batch(number: int, started_at: float, seconds: float = 1.0) -> BatchProgress:
    """One batch of ten rows."""
    return BatchProgress("log", "q", "r", number, started_at, started_at + seconds, 10, {}, ())


def test_a_batch_that_began_before_its_allocation_was_seen_is_left_out() -> None:
    """Only batches wholly under what is observed are given, with what that is."""
    steady = SteadyBatches()
    assert steady.take(10.0, FULL, [batch(1, 9.0)]) == []
    taken = steady.take(12.0, FULL, [batch(2, 10.0), batch(3, 11.0)])
    assert [(b.batch_id, had) for b, had in taken] == [(2, FULL), (3, FULL)]
    assert steady.batches_since == 2
    assert steady.take(14.0, LESS, [batch(4, 12.5)]) == []
    assert steady.allocation == LESS
    assert steady.batches_since == 0
    assert [had for _, had in steady.take(16.0, LESS, [batch(5, 14.5)])] == [LESS]


def test_what_is_not_observed_ends_what_was() -> None:
    """A look that does not know the allocation gives nothing, and the next one begins anew."""
    steady = SteadyBatches()
    steady.take(1.0, FULL, [])
    assert steady.take(2.0, None, [batch(1, 1.0)]) == []
    assert steady.allocation is None
    assert steady.take(4.0, FULL, [batch(2, 3.0)]) == []
    assert [b.batch_id for b, _ in steady.take(6.0, FULL, [batch(3, 5.0)])] == [3]
