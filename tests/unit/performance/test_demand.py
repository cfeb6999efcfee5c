# SPDX-License-Identifier: Apache-2.0
"""Service demand: what an allocation makes of it, and how its standard errors move it."""

from __future__ import annotations

import math
from typing import Any

import pytest

from penstock.errors import ConfigurationError
from penstock.markov import PH
from penstock.performance.demand import BatchDemand, RecordDemand
from penstock.records import Allocation

BATCH = BatchDemand(0.5, 0.004, fixed_cpu_seconds=0.2, fixed_scv=0.1, per_record_scv=2.0, cap=500, trigger_seconds=1.0)


def test_a_record_takes_longer_with_less_cpu_and_no_less_with_more_executors() -> None:
    """Service time divides by the share alone and keeps its shape: executors are servers, not speed."""
    demand = RecordDemand(PH.erlang(3, mean=0.01))
    for executors in (1, 4):
        service = demand.at(Allocation(executors, 0.4))
        assert service.mean == pytest.approx(0.025, rel=1e-12)
        assert service.scv == pytest.approx(1 / 3, rel=1e-12)


def test_a_batch_shrinks_by_amdahl() -> None:
    """The records' part divides by executors and share, the CPU part of the fixed time by the share, the rest stays."""
    server = BATCH.at(Allocation(4, 0.5))
    # 0.3 at the driver + 0.2 / 0.5 on the executors; 0.004 / (4 * 0.5)
    assert server.fixed == pytest.approx(0.7, rel=1e-12)
    assert server.per_record == pytest.approx(0.002, rel=1e-12)
    assert (server.cap, server.trigger, server.fixed_scv, server.per_record_scv) == (500, 1.0, 0.1, 2.0)


@pytest.mark.parametrize("spread", [0.01, 0.5, 400.0])
def test_a_moved_demand_stays_positive(spread: float) -> None:
    """Up is the mean and its errors; down the same factor the other way, however large the error."""
    demand = RecordDemand(PH.exponential(mean=0.01), spread=spread)
    up, down = demand.moved(2.0).service.mean, demand.moved(-2.0).service.mean
    assert up == pytest.approx(0.01 * (1 + 2 * spread), rel=1e-12)
    assert up * down == pytest.approx(0.01**2, rel=1e-12)


def test_errors_that_cancel_move_a_batch_less() -> None:
    """A regression's errors of fixed and per-record time oppose each other; then the batch time is known better."""
    rate, allocation = 100.0, Allocation(1)

    def batch_seconds(correlation: float) -> float:
        demand = BatchDemand(
            0.5, 0.004, fixed_error_seconds=0.05, per_record_error_seconds=0.0004, error_correlation=correlation
        )
        moved = demand.moved(2.0, rate, allocation)
        return moved.fixed_seconds / (1 - rate * moved.per_record_seconds)

    assert 0.5 / 0.6 < batch_seconds(-0.9) < batch_seconds(0.0) < batch_seconds(0.9)


def test_a_move_is_the_given_number_of_standard_errors() -> None:
    """Along the gradient of the batch time the move has the length that error propagation gives, for small errors."""
    f, c, rate, s_f, s_c, r = 0.5, 0.004, 100.0, 5e-6, 4e-8, -0.6
    demand = BatchDemand(f, c, fixed_error_seconds=s_f, per_record_error_seconds=s_c, error_correlation=r)
    up, down = (demand.moved(z, rate, Allocation(1)) for z in (1.0, -1.0))
    times = [d.fixed_seconds / (1 - rate * d.per_record_seconds) for d in (up, down)]
    by_f, by_c = 1 / (1 - rate * c), rate * f / (1 - rate * c) ** 2
    error = math.sqrt((by_f * s_f) ** 2 + (by_c * s_c) ** 2 + 2 * r * by_f * s_f * by_c * s_c)
    assert times[0] - times[1] == pytest.approx(2 * error, rel=1e-3)


def test_a_saturated_demand_moves_by_its_records_alone() -> None:
    """Where the server cannot keep up the per-record time is what counts, and without errors nothing moves."""
    demand = BatchDemand(0.5, 0.02, fixed_error_seconds=0.1, per_record_error_seconds=0.001)
    moved = demand.moved(1.0, 100.0, Allocation(1))
    assert (moved.fixed_seconds, moved.per_record_seconds) == pytest.approx((0.5, 0.021), rel=1e-12)
    assert BATCH.moved(2.0, 100.0, Allocation(1)) is BATCH


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("fixed_seconds", 0.0), ("per_record_seconds", -1e-3), ("fixed_scv", math.nan), ("fixed_cpu_seconds", 0.6),
        ("per_record_error_seconds", math.inf), ("error_correlation", 1.1), ("cap", 0), ("trigger_seconds", 0.0),
    ],
)  # fmt: skip
def test_a_wrong_batch_demand_names_its_field(field: str, value: Any) -> None:
    """What cannot be is refused with the field."""
    with pytest.raises(ConfigurationError, match=field) as fault:
        BatchDemand(**{"fixed_seconds": 0.5, "per_record_seconds": 0.004, field: value})
    assert fault.value.field == field


@pytest.mark.parametrize(
    ("allocation", "field"),
    [(Allocation(0), "executors"), (Allocation(1, 0.0), "cpu_share"), (Allocation(1, 1.2), "cpu_share")],
)
def test_an_impossible_allocation_is_refused(allocation: Allocation, field: str) -> None:
    """No executor, no CPU or more than all of it is no allocation."""
    for demand in (BATCH, RecordDemand(PH.exponential(mean=1.0))):
        with pytest.raises(ConfigurationError, match=field):
            demand.at(allocation)
