# SPDX-License-Identifier: Apache-2.0
"""The law of real-time queries: tasks wait for their fetches, and share the processor of their executor."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from penstock.errors import ConfigurationError
from penstock.performance.throughput import FetchTimeModel, PowerLawModel
from penstock.records import Allocation, ThroughputSample
from penstock.testing import check_model

C, TRIPS = 0.001, 0.01
"""A millisecond of work for a record, and a hundredth of a round trip: a wait of 2 ms at 200 ms."""


def far(executors: int, milliseconds: float) -> Allocation:
    """So many executors, so far from everything."""
    return Allocation(executors, nodes=tuple((f"{milliseconds:g}ms-{i}", 1) for i in range(executors)))


def delay_of(allocation: Allocation) -> float:
    """What the names of the nodes say."""
    return float(allocation.nodes[0][0].partition("ms")[0]) / 1000.0


def repairman(tasks: int, work: float, wait: float) -> float:
    """The closed form: the processor is busy unless all tasks wait (Erlang's loss, read backwards)."""
    if wait == 0.0:
        return 1.0 / work if tasks else 0.0
    ways = [math.perm(tasks, j) * (work / wait) ** j for j in range(tasks + 1)]
    return (1.0 - 1.0 / sum(ways)) / work


def truth(
    executors: int, milliseconds: float, tasks: int = 4, overlap: float = 0.0, most_per_trip: float = math.inf
) -> float:
    """By the closed form, with tasks dealt out evenly, and so many records in a round trip of the sink at most."""
    sink = most_per_trip / (milliseconds / 1000.0) if milliseconds else math.inf
    wait = max(0.0, TRIPS * milliseconds / 1000.0 - overlap * C)
    shares = [tasks // executors + (i < tasks % executors) for i in range(executors)]
    return sum(min(repairman(share, C, wait), sink) for share in shares)


CONFIGURATIONS = [(1, 0), (2, 0), (4, 0), (1, 200), (4, 200)]
OTHERS = [(1, 100), (2, 100), (2, 200), (3, 50), (3, 200), (4, 100), (6, 200)]


@pytest.mark.parametrize("overlap", [0.0, 0.25])
def test_it_is_the_machine_repairman_model(overlap: float) -> None:
    """From five configurations the work and the round trips of a record come back, and all others are met."""
    samples = [ThroughputSample(far(*one), truth(*one, overlap=overlap)) for one in CONFIGURATIONS]
    model = FetchTimeModel(delay_of, tasks=4, overlap=overlap).fit(samples)
    assert model.parameters["sink_round_trips_per_record"] < 1.0 / (0.2 * truth(1, 200, overlap=overlap)) * 1.001
    assert model.parameters["per_record_seconds"] == pytest.approx(C, rel=1e-4)
    assert model.parameters["round_trips_per_record"] == pytest.approx(TRIPS, rel=1e-3)
    for one in OTHERS:
        assert model.predict(far(*one)).records_per_second == pytest.approx(truth(*one, overlap=overlap), rel=1e-3)


def test_a_sink_that_lets_out_less_bounds_every_executor() -> None:
    """100 records in a round trip: 500 a second from each at 200 ms, which hold one executor but not each of four."""
    samples = [ThroughputSample(far(*one), truth(*one, most_per_trip=100.0)) for one in CONFIGURATIONS]
    model = FetchTimeModel(delay_of, tasks=4).fit(samples)
    assert truth(1, 200, most_per_trip=100.0) == 500.0
    assert truth(4, 200, most_per_trip=100.0) == truth(4, 200)
    assert model.parameters["sink_round_trips_per_record"] == pytest.approx(0.01, rel=1e-2)
    assert model.parameters["round_trips_per_record"] == pytest.approx(TRIPS, rel=1e-2)
    for one in OTHERS:
        expected = truth(*one, most_per_trip=100.0)
        assert model.predict(far(*one)).records_per_second == pytest.approx(expected, rel=1e-2)


def test_the_published_law_cannot_follow() -> None:
    """Four tasks on one executor hide a delay that one task on each of four shows whole."""
    # One executor: 4 tasks, ways 1, 2, 3, 3, 1.5 with work / wait = 1/2, so it is busy for 1 - 2/21 of the time.
    assert truth(1, 200) == pytest.approx(1000.0 * (1.0 - 1.0 / 10.5))
    assert truth(4, 200) == pytest.approx(4.0 / 0.003)
    samples = [ThroughputSample(far(*one), truth(*one)) for one in CONFIGURATIONS]
    fitted = PowerLawModel(delay_of).fit(samples)
    worst = max(abs(fitted.predict(far(*one)).records_per_second / truth(*one) - 1.0) for one in OTHERS)
    assert worst > 0.1


def test_a_fetch_that_is_asked_for_early_enough_costs_nothing() -> None:
    """A delay shorter than the handing out of what was polled is hidden, also with one task each."""
    model = FetchTimeModel(delay_of, tasks=4, overlap=1.0).fit(
        [ThroughputSample(far(4, 0), 4000.0), ThroughputSample(far(4, 200), 2000.0)]
    )
    # 2,000 records/s of four tasks: a fetch takes twice the work, 2 ms a record, so 100 ms are just hidden.
    assert model.parameters["round_trips_per_record"] == pytest.approx(0.01, rel=1e-3)
    assert model.predict(far(4, 50)).records_per_second == pytest.approx(4000.0, rel=1e-3)
    assert model.predict(far(4, 150)).records_per_second == pytest.approx(4000.0 / 1.5, rel=1e-3)


def test_executors_without_a_task_bring_nothing() -> None:
    """Six executors do what the four do that have one of four tasks; unknown tasks are as many as executors."""
    samples = [ThroughputSample(far(n, 0), 1000.0 * n) for n in (1, 2, 4)]
    model = FetchTimeModel(delay_of, tasks=4).fit(samples)
    assert model.predict(far(6, 0)).records_per_second == pytest.approx(4000.0, rel=1e-6)
    assert FetchTimeModel(delay_of).fit(samples).predict(far(6, 0)).records_per_second == pytest.approx(6000.0)


@pytest.mark.parametrize("overlap", [0.0, 0.3])
def test_the_gradient_is_that_of_the_curve(overlap: float) -> None:
    """Against differences, at several sizes, speeds and delays."""
    model = FetchTimeModel(tasks=5, overlap=overlap)
    columns = (np.array([1.0, 2.0, 3.0, 5.0]), np.array([1.0, 0.5, 1.0, 0.8]), np.array([0.2, 0.1, 0.3, 0.0]))
    values = np.array([C, TRIPS, 0.006])
    found = model.log_gradient(values, *columns)
    for place in range(3):
        step = np.zeros(3)
        step[place] = 1e-6 * values[place]
        low, high = (np.log(model.curve(values + sign * step, *columns)) for sign in (-1.0, 1.0))
        assert found[:, place] == pytest.approx((high - low) / (2.0 * step[place]), rel=1e-4, abs=1e-6)


def test_calibration_says_how_far_it_has_come() -> None:
    """One configuration gives the work of a record; a second delay gives its round trips."""
    model = FetchTimeModel(delay_of, tasks=4)
    assert model.calibration_state == "not calibrated"
    one = model.fit([ThroughputSample(far(2, 0), 2000.0)])
    assert one.calibration_state.startswith("per_record_seconds calibrated, round_trips_per_record and ")
    both = one.fit([ThroughputSample(far(4, 0), 4000.0), ThroughputSample(far(4, 200), 2000.0)])
    assert both.calibration_state.startswith("per_record_seconds and round_trips_per_record calibrated, sink")
    held = [ThroughputSample(far(*one), truth(*one, most_per_trip=100.0)) for one in CONFIGURATIONS]
    assert model.fit(held).calibration_state.endswith("sink_round_trips_per_record calibrated")


def test_it_is_a_model_like_all_others() -> None:
    """The checks that every model has to pass."""
    check_model(FetchTimeModel())
    check_model(FetchTimeModel(tasks=4, overlap=0.5))


def test_wrong_parameters_are_refused() -> None:
    """By name."""
    for wrong, field in (({"tasks": 0}, "tasks"), ({"overlap": 1.5}, "overlap")):
        with pytest.raises(ConfigurationError, match=field):
            replace(FetchTimeModel(), **wrong)
