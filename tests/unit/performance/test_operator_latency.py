# SPDX-License-Identifier: Apache-2.0
"""CandidateLatency over allocations: closed forms, worst cases and bounds, saturation as an answer, bad input."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from penstock.errors import ConfigurationError, ConvergenceError
from penstock.markov import MAP, PH
from penstock.performance import operator_latency
from penstock.performance.demand import BatchDemand, RecordDemand
from penstock.performance.operator_latency import predict
from penstock.performance.queueing.micro_batch import MicroBatch, MicroBatchSolver, solve_micro_batch
from penstock.performance.queueing.single_server import solve_map_ph_1
from penstock.records import Allocation, Bounded, CandidateLatency, Limits, Objective, decode, encode

BURSTY = MAP.mmpp([[-0.5, 0.5], [1.0, -1.0]], [20.0, 120.0])
CALM = MAP.renewal(PH.erlang(2, mean=1 / BURSTY.rate))
WORKLOAD = [CALM, BURSTY, MAP.poisson(BURSTY.rate)]
DEMAND = RecordDemand(PH.erlang(2, mean=0.01))
ALLOCATIONS = [Allocation(n, s) for n in (1, 2, 3) for s in (0.4, 0.7, 1.0)]
BATCHES = BatchDemand(0.3, 0.006)


def all_numbers(prediction: CandidateLatency) -> list[Bounded]:
    """Every number of a prediction."""
    return [prediction.utilisation, prediction.mean_seconds, *(prediction.percentile_seconds or {}).values()]


@pytest.mark.parametrize(("executors", "share"), [(1, 1.0), (1, 0.85), (4, 0.5)])
def test_poisson_arrivals_are_dealt_out_to_exponential_servers(executors: int, share: float) -> None:
    """Each of n executors gets every n-th record: it is an E_n/M/1 queue, whose sojourn time is exponential.

    With rate mu the mean is 1 / (mu (1 - s)), where s = (lam / (lam + mu (1 - s)))^n (Kleinrock 1975, Sec. 6.4).
    """
    (answer,) = predict([MAP.poisson(80.0)], RecordDemand(PH.exponential(mean=0.01)), [Allocation(executors, share)])
    met, rate = 0.0, 100 * share
    for _ in range(1000):
        met = (80 / (80 + rate * (1 - met))) ** executors
    mean = 1 / (rate * (1 - met))
    assert answer.is_stable
    assert answer.model == "MAP/PH/1"
    assert answer.utilisation.value == pytest.approx(80 / executors / (100 * share), rel=1e-9)
    assert answer.mean_seconds.value == pytest.approx(mean, rel=1e-9)
    assert answer.percentile_seconds is not None
    for p, predicted in answer.percentile_seconds.items():
        assert predicted.value == pytest.approx(-mean * math.log(1 - p), rel=1e-9)


def test_the_worst_process_gives_the_value_and_is_named() -> None:
    """Bursts are worst; the bounds span the processes, from the calmest to the worst."""
    (answer,) = predict(WORKLOAD, DEMAND, [Allocation(1, 0.7)], percentiles=[0.95])
    each = [solve_map_ph_1(process, DEMAND.at(Allocation(1, 0.7))) for process in WORKLOAD]
    mean, p95 = answer.mean_seconds, answer.statistic("p95")
    assert p95 is not None
    assert (mean.worst_case, p95.worst_case) == (1, 1)
    assert mean.value == mean.high == pytest.approx(each[1].mean, rel=1e-9)
    assert mean.low == pytest.approx(each[0].mean, rel=1e-9)
    assert (p95.low, p95.high) == pytest.approx((each[0].percentile(0.95), each[1].percentile(0.95)), rel=1e-9)


@pytest.mark.parametrize("model", ["map", "m/g/1", "gi/g/1"])
def test_many_at_once_are_the_same_as_one_by_one(model: Any) -> None:
    """What allocations share changes no answer, in whatever order they come."""
    demand = RecordDemand(DEMAND.service, spread=0.05)
    some = ALLOCATIONS[::-2]
    together = predict(WORKLOAD, demand, some, model=model)
    for allocation, answer in zip(some, together, strict=True):
        (alone,) = predict(WORKLOAD, demand, [allocation], model=model)
        assert answer.allocation == alone.allocation == allocation
        assert answer.is_stable == alone.is_stable
        for one, other in zip(all_numbers(answer), all_numbers(alone), strict=True):
            assert (one.value, one.low, one.high) == pytest.approx((other.value, other.low, other.high), rel=1e-9)


def test_the_error_of_the_demand_widens_the_bounds_alone() -> None:
    """The value stays; the bounds are the answers with the demand two standard errors away."""
    (sure,) = predict([BURSTY], DEMAND, [Allocation(1)])
    (unsure,) = predict([BURSTY], RecordDemand(DEMAND.service, spread=0.1), [Allocation(1)])
    assert sure.mean_seconds.low == sure.mean_seconds.value == sure.mean_seconds.high
    assert unsure.mean_seconds.value == pytest.approx(sure.mean_seconds.value, rel=1e-12)
    higher = solve_map_ph_1(BURSTY, PH.erlang(2, mean=0.012))
    lower = solve_map_ph_1(BURSTY, PH.erlang(2, mean=0.01 / 1.2))
    assert (unsure.mean_seconds.low, unsure.mean_seconds.high) == pytest.approx((lower.mean, higher.mean), rel=1e-9)


def test_more_of_anything_is_never_slower() -> None:
    """Latency falls with the share and with the executors, and percentiles rise with the probability."""
    answers = {a.allocation: a for a in predict(WORKLOAD, DEMAND, ALLOCATIONS)}
    for a, b in itertools.product(ALLOCATIONS, repeat=2):
        if a.executors <= b.executors and a.cpu_share <= b.cpu_share:
            for less, more in zip(all_numbers(answers[a]), all_numbers(answers[b]), strict=True):
                assert less.value >= more.value * (1 - 1e-9)
    for answer in answers.values():
        assert answer.percentile_seconds is not None
        times = [t.value for t in answer.percentile_seconds.values()]
        assert times == sorted(times)


def test_saturated_is_an_answer() -> None:
    """An allocation that cannot keep up has infinite times and a utilisation above 1; nothing is ever NaN."""
    saturated, unsure = predict(WORKLOAD, RecordDemand(PH.erlang(2, mean=0.01), spread=0.5),
                                [Allocation(1, 0.4), Allocation(1, 1.0)])  # fmt: skip
    assert not saturated.is_stable
    assert saturated.utilisation.value > 1
    assert saturated.mean_seconds.value == math.inf
    assert saturated.meets(Objective("p95", 1e9)) is False
    assert unsure.is_stable
    assert math.isfinite(unsure.mean_seconds.value)
    assert unsure.mean_seconds.high == math.inf
    for number in (*all_numbers(saturated), *all_numbers(unsure)):
        assert not any(math.isnan(x) for x in (number.value, number.low, number.high))


def test_a_prediction_survives_being_written_and_read() -> None:
    """Infinite times too: they are written as the text Infinity."""
    for answer in predict(WORKLOAD, DEMAND, [Allocation(1, 0.4), Allocation(2)]):
        text = encode(answer)
        assert decode(CandidateLatency, text) == answer
        assert ('"Infinity"' in text) == (not answer.is_stable)


@pytest.mark.parametrize("allocation", [Allocation(1, 1.0), Allocation(2, 0.4)])
def test_micro_batches_are_solved_as_the_server_the_allocation_makes(allocation: Allocation) -> None:
    """The prediction is that of the micro-batch queue with f and c under the allocation."""
    (answer,) = predict([BURSTY], BATCHES, [allocation], percentiles=[0.95])
    direct = solve_micro_batch(BURSTY, BATCHES.at(allocation))
    assert answer.model == "micro-batch queue, MAP arrivals"
    assert answer.mean_seconds.value == pytest.approx(direct.mean, rel=1e-12)
    assert answer.percentile_seconds is not None
    assert answer.percentile_seconds[0.95].value == pytest.approx(direct.percentile(0.95), rel=1e-12)
    assert answer.utilisation.value == pytest.approx(
        BURSTY.rate * 0.006 / (allocation.executors * allocation.cpu_share), rel=1e-12
    )


def test_bounds_of_micro_batches_are_those_of_all_processes() -> None:
    """Solving the processes at the edges alone finds the bounds that solving all of them would."""
    demand = BatchDemand(0.3, 0.006, fixed_error_seconds=0.015, per_record_error_seconds=0.0003, error_correlation=-0.5)
    allocation = Allocation(1)
    (answer,) = predict(WORKLOAD, demand, [allocation], percentiles=[0.95])
    moved = {
        z: [
            solve_micro_batch(process, demand.moved(z, process.rate, allocation).at(allocation)) for process in WORKLOAD
        ]
        for z in (-2.0, 2.0)
    }
    assert answer.mean_seconds.low == pytest.approx(min(one.mean for one in moved[-2.0]), rel=1e-12)
    assert answer.mean_seconds.high == pytest.approx(max(one.mean for one in moved[2.0]), rel=1e-12)
    p95 = answer.statistic("p95")
    assert p95 is not None
    assert p95.high == pytest.approx(max(one.percentile(0.95) for one in moved[2.0]), rel=1e-12)
    assert p95.low < p95.value < p95.high


def test_models_that_see_no_bursts_say_less() -> None:
    """M/G/1 takes the rate alone and GI/G/1 the variability of gaps: bursts make the true latency longer."""
    allocation = [Allocation(1, 0.7)]
    (full,) = predict([BURSTY], DEMAND, allocation)
    (poisson,) = predict([BURSTY], DEMAND, allocation, model="m/g/1")
    (kingman,) = predict([BURSTY], DEMAND, allocation, model="gi/g/1")
    # Pollaczek-Khinchine: m + rate m2 / (2 (1 - rho)), m2 = 1.5 m^2 for Erlang-2.
    m = 0.01 / 0.7
    assert poisson.mean_seconds.value == pytest.approx(m + BURSTY.rate * 1.5 * m * m / 2 / (1 - BURSTY.rate * m))
    assert poisson.mean_seconds.value < kingman.mean_seconds.value < full.mean_seconds.value
    assert kingman.percentile_seconds is None
    assert kingman.statistic("p95") is None
    assert kingman.meets(Objective("p95", 1.0)) is None
    (batch,) = predict([BURSTY], BATCHES, allocation)
    (blind,) = predict([BURSTY], BATCHES, allocation, model="m/g/1")
    assert blind.mean_seconds.value < batch.mean_seconds.value


def test_the_answer_scales_with_the_unit_of_time() -> None:
    """Arrivals and services a million times as fast give times a millionth as long, bounds too."""
    demand = RecordDemand(DEMAND.service, spread=0.05)
    faster = RecordDemand(demand.service.time_scaled(1e-6), spread=0.05)
    slow = predict(WORKLOAD, demand, ALLOCATIONS)
    fast = predict([process.time_scaled(1e-6) for process in WORKLOAD], faster, ALLOCATIONS)
    for one, other in zip(slow, fast, strict=True):
        assert other.mean_seconds.high == pytest.approx(1e-6 * one.mean_seconds.high, rel=1e-8)
        assert other.mean_seconds.low == pytest.approx(1e-6 * one.mean_seconds.low, rel=1e-8)


def test_progress_is_told_to_the_end() -> None:
    """Long work says how far it is, rising, up to all of it."""
    for demand, allocations in ((DEMAND, ALLOCATIONS), (BATCHES, ALLOCATIONS[:2])):
        told: list[float] = []
        predict([MAP.poisson(30.0)], demand, allocations, progress=told.append)
        assert told == sorted(told)
        assert told[-1] == 1.0


def test_nothing_asked_is_nothing_answered() -> None:
    """Without allocations there is no prediction, and a workload is still required."""
    assert predict(WORKLOAD, DEMAND, []) == []


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"workload": []}, "workload"),
        ({"percentiles": [0.5, 1.0]}, "percentiles"),
        ({"percentiles": [95.0]}, "percentiles"),
        ({"model": "m/m/1"}, "model"),
        ({"model": "gi/g/1", "demand": BATCHES}, "micro-batches"),
        ({"allocations": [Allocation(0)]}, "executors"),
        ({"allocations": [Allocation(1, 1.5)]}, "cpu_share"),
        ({"limits": Limits(1, 2, (0.4, 1.0))}, "outside the limits"),
    ],
)
def test_bad_input_is_refused_by_name(changed: dict[str, Any], named: str) -> None:
    """Each mistake is told with its field and the way out."""
    arguments: dict[str, Any] = {"workload": WORKLOAD, "demand": DEMAND, "allocations": ALLOCATIONS, **changed}
    with pytest.raises(ConfigurationError, match=named):
        predict(**arguments)


@pytest.mark.parametrize("errors", [float("nan"), float("inf"), -1.0])
def test_a_reach_that_is_no_number_is_refused(errors: float) -> None:
    """The bounds reach a finite number of standard errors, not below 0; the message names the field and the fix."""
    with pytest.raises(ConfigurationError, match=r"errors: .* give 0 or more") as refused:
        predict(WORKLOAD, DEMAND, [Allocation(1)], errors=errors)
    assert refused.value.field == "errors"


def refusing_batches(monkeypatch: pytest.MonkeyPatch, executors: int) -> None:
    """Let the micro-batch queue of so many executors not converge; the others are solved as ever."""
    known = MicroBatchSolver.solve
    slow = BATCHES.at(Allocation(executors)).per_record

    def solve(solver: MicroBatchSolver, server: MicroBatch, suffices: Any = None) -> Any:
        if server.per_record == slow:
            raise ConvergenceError("the solution makes no sense", iterations=12, residual=0.5)
        return known(solver, server, suffices)

    monkeypatch.setattr(MicroBatchSolver, "solve", solve)


def test_one_queue_that_cannot_be_solved_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its allocation says why, keeps up as far as is known, and promises no time; the others are as without it."""
    pair = [Allocation(1), Allocation(2)]
    (_, alone) = predict([BURSTY], BATCHES, pair, percentiles=[0.95])
    refusing_batches(monkeypatch, 1)
    unsolved, solved = predict([BURSTY], BATCHES, pair, percentiles=[0.95])
    assert unsolved.unsolved is not None
    assert unsolved.unsolved.startswith("the solution makes no sense")
    assert unsolved.is_stable
    assert unsolved.utilisation.value == pytest.approx(BURSTY.rate * 0.006)
    assert math.isinf(unsolved.mean_seconds.value)
    assert unsolved.meets(Objective("p95", 1e9)) is False
    assert solved == alone
    assert decode(CandidateLatency, encode(unsolved)) == unsolved


def test_single_records_are_solved_apart_where_they_fail_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue that fails in a stack is asked for by itself, and costs its own allocation alone."""

    def refuse(*_: object) -> None:
        raise ConvergenceError("the stack does not converge", iterations=1, residual=1.0)

    def refuse_slow(stream: MAP, service: PH) -> Any:
        if service.mean > 0.011:
            refuse()
        return solve_map_ph_1(stream, service)

    pair = [Allocation(1, 0.7), Allocation(1, 1.0)]
    (_, alone) = predict(WORKLOAD, DEMAND, pair, percentiles=[0.95])
    monkeypatch.setattr(operator_latency, "solve_many", refuse)
    monkeypatch.setattr(operator_latency, "solve_map_ph_1", refuse_slow)
    slow, full = predict(WORKLOAD, DEMAND, pair, percentiles=[0.95])
    assert slow.unsolved is not None
    assert slow.unsolved.startswith("process 1 of 3: the stack does not converge")
    assert full.unsolved is None
    assert full.mean_seconds.value == pytest.approx(alone.mean_seconds.value, rel=1e-9)
