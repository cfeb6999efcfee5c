# SPDX-License-Identifier: Apache-2.0
"""The micro-batch queue beside simulations that share no code with it, and beside closed forms.

Simulations here have a million records; `benchmarks/micro_batch/run.py` does the same with 10 million and more cases.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from benchmarks.micro_batch.simulate import FloatArray, simulate

from penstock.markov import MAP, nearest_map2, superpose
from penstock.performance.queueing.micro_batch import EXACT, MicroBatch, MicroBatchAnswer, solve_micro_batch

pytestmark = pytest.mark.reference

RATE = 1000.0
PROCESSES = {
    "poisson": MAP.poisson(RATE),
    "scv 4": nearest_map2(1.0, 5.0, 60.0, 0.95).process.with_rate(RATE),
    "scv 10": nearest_map2(1.0, 11.0, 290.0, 0.9).process.with_rate(RATE),
    "map 4": superpose(nearest_map2(1.0, 5.0, 60.0, 0.9).process, nearest_map2(1.0, 3.0, 22.0, 0.5).process).with_rate(
        RATE
    ),
}
SERVERS = {
    "plain": MicroBatch(0.05, 0.0006),
    "light": MicroBatch(0.002, 0.0003),
    "cap": MicroBatch(0.05, 0.0004, cap=200),
    "trigger": MicroBatch(0.05, 0.0006, trigger=0.15),
    "cap, trigger": MicroBatch(0.05, 0.0004, cap=200, trigger=0.1),
    "varied": MicroBatch(0.05, 0.0006, fixed_scv=0.3, per_record_scv=1.0),
    "heavy": MicroBatch(0.05, 0.0008),
}


@cache
def arrivals(process: str) -> FloatArray:
    """Give instants of a million arrivals."""
    return np.cumsum(PROCESSES[process].sample(1_000_000, np.random.default_rng(11)))


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("process", PROCESSES)
def test_latency_agrees_with_simulation(process: str, server: str) -> None:
    """Mean within 5 % and 95th percentile within 10 % of the simulation, or inside its interval."""
    spec = SERVERS[server]
    answer = solve_micro_batch(PROCESSES[process], spec)
    run = simulate(
        arrivals(process), spec.fixed, spec.per_record, np.random.default_rng(5), cap=spec.cap, trigger=spec.trigger,
        fixed_scv=spec.fixed_scv, per_record_scv=spec.per_record_scv,
    )  # fmt: skip
    mean, mean_interval = run.mean_interval()
    p95, p95_interval = run.percentile_interval(0.95)
    assert abs(answer.mean - mean) <= max(0.05 * mean, mean_interval)
    assert abs(answer.percentile(0.95) - p95) <= max(0.10 * p95, p95_interval)


VARIED = {
    "cap, trigger": (9.3, MicroBatch(0.8, 0.01, cap=10, trigger=1.0, fixed_scv=0.1)),
    "cap, trigger, more": (9.0, MicroBatch(0.8, 0.01, cap=10, trigger=1.0, fixed_scv=0.25)),
    "trigger": (1.0, MicroBatch(10.0, 0.3, trigger=20.0, fixed_scv=1.0)),
    "cap": (1.0, MicroBatch(10.0, 0.3, cap=25, fixed_scv=1.0)),
    "fixed 4": (1.0, MicroBatch(4.0, 0.02, fixed_scv=4.0)),
    "fixed 10": (1.0, MicroBatch(4.0, 0.02, fixed_scv=10.0)),
    "fixed 4, loaded": (1.0, MicroBatch(100.0, 0.5, fixed_scv=4.0)),
    "record 15": (1.0, MicroBatch(0.1, 0.5, per_record_scv=15.0)),
}


@pytest.mark.parametrize("case", VARIED)
def test_varied_batch_times_agree_with_simulation(case: str) -> None:
    """Mean within 5 %, 95th and 99th percentile within 10 and 15 % of the simulation, or inside its interval."""
    rate, spec = VARIED[case]
    answer = solve_micro_batch(MAP.poisson(rate), spec)
    rng = np.random.default_rng(23)
    run = simulate(
        np.cumsum(rng.exponential(1 / rate, 1_000_000)), spec.fixed, spec.per_record, rng, cap=spec.cap,
        trigger=spec.trigger, fixed_scv=spec.fixed_scv, per_record_scv=spec.per_record_scv,
    )  # fmt: skip
    mean, interval = run.mean_interval()
    assert abs(answer.mean - mean) <= max(0.05 * mean, interval)
    for share, bar in ((0.95, 0.10), (0.99, 0.15)):
        found, interval = run.percentile_interval(share)
        assert abs(answer.percentile(share) - found) <= max(bar * found, interval)


def test_constant_batches_of_a_poisson_process() -> None:
    """Batches of a fixed time with nothing per record: a record waits what is left of a batch, then one more.

    With batch time f and Poisson arrivals at rate r, a batch that ends with no record waiting (probability e^(-r f))
    is followed by an idle time of mean 1 / r and a record that does not wait. Per cycle: 1 - e^(-rf) + e^(-rf) batches,
    r f + e^(-r f) records, of which r f waited f / 2 on average.
    """
    rate, fixed = 40.0, 0.1
    answer = solve_micro_batch(MAP.poisson(rate), MicroBatch(fixed, 0.0))
    assert isinstance(answer, MicroBatchAnswer)
    waited = rate * fixed
    alone = math.exp(-rate * fixed)
    assert answer.method == EXACT
    assert answer.mean == pytest.approx(fixed + fixed / 2 * waited / (waited + alone), rel=1e-7)
    # A share of alone / (waited + alone) has latency f, the others lie evenly between f and 2 f.
    assert answer.percentile(0.95) == pytest.approx(2 * fixed - 0.05 * fixed * (waited + alone) / waited, rel=1e-4)


def test_single_records_are_the_queue_m_d_1() -> None:
    """With a cap of one record the queue is M/D/1, whose mean sojourn is Pollaczek and Khinchine's."""
    service, load = 0.01, 0.8
    answer = solve_micro_batch(MAP.poisson(load / service), MicroBatch(service, 0.0, cap=1))
    assert answer.mean == pytest.approx(service * (1 + load / (2 * (1 - load))), rel=1e-3)


def test_trigger_longer_than_any_batch() -> None:
    """Batches that never outlast the trigger: half an interval of waiting, then f + c times the record's own batch.

    A record's batch holds 1 + r T records on average (Poisson arrivals seen from one of them).
    """
    rate, interval = 100.0, 1.0
    answer = solve_micro_batch(MAP.poisson(rate), MicroBatch(0.1, 0.001, trigger=interval))
    assert answer.mean == pytest.approx(interval / 2 + 0.1 + 0.001 * (1 + rate * interval), rel=1e-6)
