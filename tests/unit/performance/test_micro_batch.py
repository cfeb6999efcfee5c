# SPDX-License-Identifier: Apache-2.0
"""The micro-batch queue: its answers, their limits and what must not change them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from penstock.errors import ConfigurationError, ConvergenceError
from penstock.markov import MAP, PH
from penstock.performance.queueing.micro_batch import (
    MicroBatch,
    MicroBatchAnswer,
    MicroBatchSolver,
    solve_micro_batch,
    solver,
)
from penstock.performance.queueing.micro_batch.chain import Chain, Cycle, cycle_means

BURSTY = MAP.mmpp([[-0.5, 0.5], [2.0, -2.0]], [20.0, 160.0])


def solved(arrivals: MAP, server: MicroBatch) -> MicroBatchAnswer:
    """Solve a queue that must be stable."""
    answer = solve_micro_batch(arrivals, server)
    assert isinstance(answer, MicroBatchAnswer)
    return answer


def test_smooth_load_settles_at_the_fixed_point() -> None:
    """With many records and no bursts the batch time is f / (1 - rate c)."""
    answer = solved(MAP.poisson(50_000.0), MicroBatch(0.3, 1e-5))
    assert answer.batch_seconds_mean == pytest.approx(0.6, rel=1e-3)
    # A record waits half a batch on average, then rides with its own.
    assert answer.mean == pytest.approx(0.9, rel=1e-3)


def test_overload_is_an_answer() -> None:
    """A queue that cannot keep up is saturated, with infinite times, not an error."""
    answer = solve_micro_batch(MAP.poisson(1000.0), MicroBatch(0.1, 0.0011))
    assert not answer.is_stable
    assert answer.utilisation == pytest.approx(1.1)
    assert math.isinf(answer.mean)
    assert math.isinf(answer.percentile(0.5))


def test_cap_makes_the_fixed_part_count() -> None:
    """With a cap the queue is stable only below cap / (f + c cap) records per second."""
    server = MicroBatch(0.5, 0.001, cap=500)
    assert not solve_micro_batch(MAP.poisson(501.0), server).is_stable
    assert solve_micro_batch(MAP.poisson(450.0), server).is_stable


@pytest.mark.parametrize("server", [
    MicroBatch(0.1, 0.01), MicroBatch(0.1, 0.01, cap=30), MicroBatch(0.1, 0.01, trigger=0.4),
    MicroBatch(0.1, 0.01, fixed_scv=0.5, per_record_scv=1.0),
])  # fmt: skip
def test_unit_of_time_does_not_matter(server: MicroBatch) -> None:
    """The same queue in microseconds has the same answer in microseconds."""
    factor = 1e6
    scaled = MicroBatch(
        server.fixed * factor, server.per_record * factor, server.cap,
        None if server.trigger is None else server.trigger * factor, server.fixed_scv, server.per_record_scv,
    )  # fmt: skip
    seconds, other = solved(BURSTY, server), solved(BURSTY.time_scaled(factor), scaled)
    assert other.mean == pytest.approx(factor * seconds.mean, rel=1e-5)
    assert other.percentiles([0.5, 0.99]) == pytest.approx(factor * seconds.percentiles([0.5, 0.99]), rel=1e-5)


@pytest.mark.parametrize(("field", "values"), [
    ("fixed", (-1.0, 0.1)), ("per_record", (0.1, math.nan)), ("fixed", (0.0, 0.0)),
])  # fmt: skip
def test_impossible_batch_times_are_refused(field: str, values: tuple[float, float]) -> None:
    """A batch time that is negative, not a number or nothing at all is refused with the field's name."""
    with pytest.raises(ConfigurationError) as caught:
        MicroBatch(*values)
    assert caught.value.field == field


def test_percentiles_invert_the_distribution() -> None:
    """The share of records within a percentile is that percentile's share."""
    answer = solved(BURSTY, MicroBatch(0.1, 0.01))
    shares = np.array([0.1, 0.5, 0.9, 0.99])
    assert answer.cdf(answer.percentiles(shares.tolist())) == pytest.approx(shares, abs=1e-4)


@pytest.mark.parametrize("rate", [8.0, 9.0])
def test_late_full_batches_count_against_the_cap(rate: float) -> None:
    """Batches that outlast the trigger now and then make the cycle longer than both: the queue is saturated."""
    answer = solve_micro_batch(MAP.poisson(rate), MicroBatch(1.0, 1e-6, cap=10, trigger=1.0, fixed_scv=1.0))
    assert not answer.is_stable
    # Simulated: 1.2724 seconds from start to start of full batches.
    assert answer.utilisation == pytest.approx(rate * 1.2724 / 10, rel=2e-3)


def test_late_full_batches_leave_a_stable_queue_stable() -> None:
    """Below the true limit the answer is possible in every respect."""
    answer = solved(MAP.poisson(5.0), MicroBatch(1.0, 1e-6, cap=10, trigger=1.0, fixed_scv=1.0))
    assert 1.0 < answer.mean < answer.percentile(0.99)
    assert 0 < answer.batch_size_mean <= 10


@pytest.mark.parametrize("spoiled", [
    ("latency_sum", -1.0), ("latency_sum", math.nan), ("served", 50.0), ("latency_sum", 1e9),
])  # fmt: skip
def test_impossible_solutions_are_not_given(spoiled: tuple[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    """A negative or absurd mean, no number, or batches above the cap end in an error instead of an answer."""

    def spoil(chain: Chain) -> Cycle:
        cycle = cycle_means(chain)
        object.__setattr__(cycle, *spoiled)
        return cycle

    monkeypatch.setattr(solver, "cycle_means", spoil)
    with pytest.raises(ConvergenceError, match="makes no sense"):
        solve_micro_batch(BURSTY, MicroBatch(0.1, 0.01, cap=30))


@pytest.mark.parametrize(("field", "server"), [
    ("fixed_scv", MicroBatch(0.1, 0.001, fixed_scv=1e6)),
    ("per_record_scv", MicroBatch(0.1, 0.001, per_record_scv=1e6)),
    ("fixed_scv", MicroBatch(0.1, 0.001, cap=100, trigger=1.0, fixed_scv=30.0)),
])  # fmt: skip
def test_batch_times_too_uneven_are_refused(field: str, server: MicroBatch) -> None:
    """An SCV beyond what is solved for is refused with the field's name and the limit."""
    with pytest.raises(ConfigurationError, match=f"{field}.* up to {solver.MOST_SCV:g}") as caught:
        solve_micro_batch(MAP.poisson(20.0), server)
    assert caught.value.field == field


def test_many_uneven_records_are_not_refused() -> None:
    """What counts is the SCV of a batch: a thousand records even out what one of them has."""
    answer = solved(MAP.poisson(2000.0), MicroBatch(0.5, 1e-4, per_record_scv=100.0))
    assert answer.mean == pytest.approx(solved(MAP.poisson(2000.0), MicroBatch(0.5, 1e-4)).mean, rel=0.02)


def test_processes_of_too_many_states_are_refused() -> None:
    """A process that would take minutes is refused at once, with its order and the limit."""
    with pytest.raises(ConfigurationError, match=r"200 states.* 64 at most") as caught:
        solve_micro_batch(MAP.renewal(PH.erlang(200, mean=0.1)), MicroBatch(0.1, 0.01))
    assert caught.value.field == "arrivals"


def test_a_solver_gives_what_single_calls_give() -> None:
    """What a solver keeps from one server to the next changes no answer, and one asked for again is not solved."""
    servers = [MicroBatch(0.1, 0.01), MicroBatch(0.2, 0.012), MicroBatch(0.1, 0.01, cap=40, trigger=0.5, fixed_scv=0.4)]
    solver = MicroBatchSolver(BURSTY)
    for server in servers:
        shared, alone = solver.solve(server), solve_micro_batch(BURSTY, server)
        assert shared.mean == pytest.approx(alone.mean, rel=1e-9)
        assert shared.percentiles([0.5, 0.95]) == pytest.approx(alone.percentiles([0.5, 0.95]), rel=1e-9)
        assert solver.solve(server) is shared


def test_rare_huge_bursts_balance() -> None:
    """Few records mostly and thousands at times: as many are served as arrive, and the mean holds on finer samples."""
    uneven = MAP.mmpp([[-0.02, 0.02], [4.0, -4.0]], [20.0, 20_000.0])
    answer = solved(uneven, MicroBatch(0.5, 0.8 / uneven.rate))
    assert abs(answer.imbalance) < 1e-3
    assert answer.error_estimate < 0.02
    assert answer.law_mean == pytest.approx(answer.mean, rel=0.02)


def test_the_last_step_before_saturation_is_not_guessed() -> None:
    """A queue that is stable by rounding alone ends in an error that says so, not in a number."""
    with pytest.raises(ConvergenceError, match="too near saturation"):
        solve_micro_batch(BURSTY, MicroBatch(0.1, (1 - 1e-15) / BURSTY.rate))


def test_a_first_grid_that_says_enough_is_not_refined() -> None:
    """An answer from the first grid is given where it suffices, close to the fine one, and never kept in its place."""
    bursty = MAP.mmpp([[-0.05, 0.05], [0.2, -0.2]], [20.0, 300.0])
    server = MicroBatch(0.3, 0.002, trigger=1.0)
    solver, asked = MicroBatchSolver(bursty), []

    def suffices(answer: MicroBatchAnswer) -> bool:
        asked.append(answer)
        return len(asked) < 3

    rough = solver.solve(server, suffices)
    assert solver.solve(server, suffices) is rough
    assert isinstance(rough, MicroBatchAnswer)
    assert rough.mean_coarse is None
    assert rough.error_estimate == 0.1
    fine = solver.solve(server, suffices)  # the third time it does not suffice
    assert fine is not rough
    assert isinstance(fine, MicroBatchAnswer)
    assert fine.mean_coarse is not None
    assert rough.percentile(0.95) == pytest.approx(fine.percentile(0.95), rel=0.03)
    assert solver.solve(server, suffices) is fine
