# SPDX-License-Identifier: Apache-2.0
"""The law of micro-batches, and the states of calibration of both laws with a delay."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from penstock.errors import ConfigurationError
from penstock.latency_map import LatencyMap
from penstock.performance.throughput import BatchTimeModel, LearntModel, NodeDelay, PowerLawModel, ProportionalModel
from penstock.records import Allocation, ThroughputSample
from penstock.testing import check_model

NODES = tuple(f"n{i}" for i in range(1, 9))
APART = NodeDelay(
    LatencyMap.of([(a, b, 0.04 * abs(i - j)) for i, a in enumerate(NODES) for j, b in enumerate(NODES) if i < j])
)


def on(*numbers: int) -> Allocation:
    """One executor on each of these nodes."""
    return Allocation(len(numbers), nodes=tuple((f"n{number}", 1) for number in numbers))


def capped(allocation: Allocation) -> float:
    """Batches of 600 records: 0.3 s, 5 ms a record, 4 round trips."""
    return 600.0 / (0.3 + 0.005 * 600.0 / allocation.executors + 4.0 * APART(allocation))


SAMPLED = (on(1), on(1, 2), on(1, 4), on(1, 2, 3, 4), on(1, 2, 3, 4, 8))
UNSEEN = (on(2, 3, 4), on(1, 8), on(1, 2, 3, 4, 5, 6), on(2, 3, 4, 5, 6, 7, 8))


def test_parameters_of_a_capped_query_are_found() -> None:
    """From exact samples the fixed time, the time of a record and the round trips come back."""
    model = BatchTimeModel(APART, cap=600).fit([ThroughputSample(a, capped(a)) for a in SAMPLED])
    assert model.parameters["fixed_seconds"] == pytest.approx(0.3, rel=1e-3)
    assert model.parameters["per_record_seconds"] == pytest.approx(0.005, rel=1e-3)
    assert model.parameters["round_trips"] == pytest.approx(4.0, rel=1e-3)
    for allocation in UNSEEN:
        assert model.predict(allocation).records_per_second == pytest.approx(capped(allocation), rel=1e-3)


def test_it_is_nearer_to_batches_than_the_published_law() -> None:
    """A delay takes a part that grows with the executors, which alpha n^beta - gamma ND_max cannot follow."""
    samples = [ThroughputSample(a, capped(a)) for a in SAMPLED]

    def worst(model: LearntModel) -> float:
        fitted = model.fit(samples)
        return max(abs(fitted.predict(a).records_per_second / capped(a) - 1.0) for a in UNSEEN)

    assert worst(BatchTimeModel(APART, cap=600)) < 0.01 < worst(PowerLawModel(APART))


def test_without_a_cap_the_allowed_length_bounds_a_batch() -> None:
    """Delay takes the same part of every batch, however many executors there are."""

    def truth(allocation: Allocation) -> float:
        return 200.0 * allocation.executors * (1.0 - 4.0 * APART(allocation) / 10.0)

    model = BatchTimeModel(APART, batch_seconds=10.0).fit([ThroughputSample(a, truth(a)) for a in SAMPLED])
    for allocation in UNSEEN:
        assert model.predict(allocation).records_per_second == pytest.approx(truth(allocation), rel=1e-3)


def test_tasks_run_in_waves_over_the_executors() -> None:
    """Four tasks on three executors take hardly less than on two, a fifth brings nothing, and each wave waits."""

    def truth(allocation: Allocation) -> float:
        # Work lies between tasks of one length and what could be split at will; waiting is for whole waves.
        waves = {1: 4.0, 2: 2.0, 3: 0.5 * (4 / 3 + 2), 4: 1.0, 5: 1.0}[allocation.executors]
        whole = {1: 4, 2: 2, 3: 2, 4: 1, 5: 1}[allocation.executors]
        return 600.0 / (0.3 + 0.005 * 600.0 * waves / 4 + (2.0 + 0.7 * whole) * APART(allocation))

    samples = [ThroughputSample(a, truth(a)) for a in SAMPLED]
    model = BatchTimeModel(APART, cap=600, tasks=4).fit(samples)
    assert model.parameters["round_trips"] == pytest.approx(2.0, rel=1e-2)
    assert model.parameters["round_trips_per_wave"] == pytest.approx(0.7, rel=1e-2)
    assert "round_trips_per_wave calibrated" in model.calibration_state
    for allocation in (*UNSEEN[:2], on(4, 5, 6)):
        assert model.predict(allocation).records_per_second == pytest.approx(truth(allocation), rel=1e-2)
    assert model.predict(on(1, 2, 3, 4, 5)).records_per_second <= model.predict(on(1, 2, 3, 4)).records_per_second
    without = BatchTimeModel(APART, cap=600).fit(samples)
    three = on(2, 3, 4)
    assert without.predict(three).records_per_second > 1.05 * truth(three)


def test_waves_are_told_apart_only_by_delays_at_several_sizes() -> None:
    """With delay seen at one size alone, all round trips count as those of a batch."""

    def truth(allocation: Allocation) -> float:
        return 600.0 / (0.3 + 0.005 * 600.0 / allocation.executors + 4.0 * APART(allocation))

    one_size = [ThroughputSample(a, truth(a)) for a in (on(1), on(1, 2), on(1, 4), on(1, 8))]
    model = BatchTimeModel(APART, cap=600, tasks=2).fit(one_size)
    assert model.parameters["round_trips_per_wave"] == 0.0
    assert "round_trips_per_wave and evenness left at their default" in model.calibration_state


def uneven(evenness: float, cap: int | None = 600) -> Callable[[Allocation], float]:
    """Four tasks whose work lies this far from whole waves (0) towards an even split (1), as in the test above."""

    def truth(allocation: Allocation) -> float:
        even = max(4.0 / allocation.executors, 1.0)
        whole = math.ceil(even)
        work = 0.005 * (evenness * even + (1.0 - evenness) * whole) / 4
        waiting = (2.0 + 0.7 * whole) * APART(allocation)
        return (1.0 - waiting / 10.0) / work if cap is None else cap / (0.3 + work * cap + waiting)

    return truth


@pytest.mark.parametrize("cap", [600, None])
@pytest.mark.parametrize("evenness", [0.0, 0.3, 0.5, 0.8, 1.0])
def test_how_evenly_work_is_split_is_found_where_executors_do_not_divide_the_tasks(
    evenness: float, cap: int | None
) -> None:
    """Samples of three executors for four tasks show it, with a cap and without; other such sizes follow."""
    truth = uneven(evenness, cap)
    samples = [ThroughputSample(a, truth(a)) for a in (*SAMPLED, on(1, 2, 3)) for _ in range(3)]
    model = BatchTimeModel(APART, cap=cap, tasks=4).fit(samples)
    assert model.parameters["evenness"] == pytest.approx(evenness, abs=0.05)
    for allocation in (on(1, 2, 8), on(2, 4, 6), on(1, 4, 6), on(2, 8)):
        assert model.predict(allocation).records_per_second == pytest.approx(truth(allocation), rel=0.02)


@pytest.mark.parametrize(
    ("sampled", "tasks"),
    [
        (SAMPLED, 4),  # one, two, four and five executors
        ((on(1, 2, 3), on(1, 2, 4), on(1, 2, 6), on(1, 2, 8)), 4),  # three alone: work may as well be slow
        ((on(1), on(1, 2, 3), on(1, 2, 4), on(1, 2, 6), on(1, 2, 8)), 4),  # one and three: a fixed time may be long
        ((*SAMPLED, on(2, 3, 4)), 40),  # 14 whole waves take 5 % longer than 13.3 even ones
        ((*SAMPLED, on(2, 3, 4)), None),
    ],
)
def test_work_is_taken_halfway_where_nothing_shows_how_evenly_it_is_split(
    sampled: tuple[Allocation, ...], tasks: int | None
) -> None:
    """No size that does not divide the tasks, nothing to hold it against, or so many tasks that it hardly matters."""
    truth = uneven(0.0)
    model = BatchTimeModel(APART, cap=600, tasks=tasks).fit([ThroughputSample(a, truth(a)) for a in sampled])
    assert model.parameters["evenness"] == 0.5
    assert "evenness calibrated" not in model.calibration_state


def test_how_evenly_work_is_split_is_calibrated_last() -> None:
    """Configuration by configuration; the state names what samples have set."""
    truth, left = uneven(0.2), []
    model = BatchTimeModel(APART, cap=600, tasks=4)
    for allocation in (on(1, 2, 3), on(1, 2, 6), on(1), on(1, 2, 3, 4), on(1, 4)):
        model = model.update(ThroughputSample(allocation, truth(allocation)))
        left.append(model.calibration_state.rpartition(", ")[2])
    assert left == [
        "round_trips and fixed_seconds and round_trips_per_wave and evenness left at their default",
        "fixed_seconds and round_trips_per_wave and evenness left at their default",
        "round_trips_per_wave and evenness left at their default",
        "evenness left at its default",
        "per_record_seconds and round_trips and fixed_seconds and round_trips_per_wave and evenness calibrated",
    ]


def test_a_single_noisy_sample_does_not_swing_how_evenly_work_is_split() -> None:
    """Where a batch waits for most of its time, 4 % are half of what the split can do; it is pulled to the middle."""
    truth = uneven(0.5)
    far = on(1, 2, 8)
    samples = [ThroughputSample(a, truth(a)) for a in SAMPLED]
    for noise in (0.96, 1.04):
        model = BatchTimeModel(APART, cap=200, tasks=4).fit([*samples, ThroughputSample(far, noise * truth(far))])
        assert 0.2 < model.parameters["evenness"] < 0.8


@pytest.mark.parametrize("evenness", [0.0, 1.0])
@pytest.mark.parametrize("cap", [600, None])
def test_intervals_hold_at_sizes_that_do_not_divide_the_tasks(evenness: float, cap: int | None) -> None:
    """Of new measurements with a noise of 4 %, 90 % intervals hold at least 80 % where such a size was sampled."""
    rng, truth, held = np.random.default_rng(7), uneven(evenness, cap), 0
    asked = (on(2, 3, 4), on(1, 3, 8), on(1, 2, 3, 4), on(2, 8))

    def measured(allocation: Allocation) -> float:
        return truth(allocation) * float(np.exp(rng.normal(0.0, 0.04)))

    for _ in range(30):
        samples = [ThroughputSample(a, measured(a)) for a in (*SAMPLED, on(1, 2, 8)) for _ in range(2)]
        fitted = BatchTimeModel(APART, cap=cap, tasks=4).fit(samples)
        for allocation in asked:
            found = fitted.predict(allocation)
            held += found.low <= measured(allocation) <= found.high
    assert held >= 0.8 * 30 * len(asked)


@pytest.mark.parametrize("cap", [600, None])
def test_slopes_are_those_of_the_curve(cap: int | None) -> None:
    """By every parameter, against differences."""
    model = BatchTimeModel(APART, cap=cap, tasks=4)
    values = np.array([0.005, 0.3 if cap else 0.0, 2.0, 0.7, 0.3])
    at = (np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.full(5, 0.8), np.array([0.0, 0.1, 0.2, 0.05, 0.3]))
    slopes = model.log_gradient(values, *at)
    for place, value in enumerate(values):
        step = np.zeros(5)
        step[place] = 1e-6 * (value or 1.0)
        rise = np.log(model.curve(values + step, *at) / model.curve(values - step, *at)) / (2.0 * step[place])
        assert slopes[:, place] == pytest.approx(rise, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize(
    "model",
    [
        BatchTimeModel(cap=500),
        BatchTimeModel(APART, batch_seconds=2.0),
        BatchTimeModel(cap=500, tasks=4, slots=2),
        BatchTimeModel(batch_seconds=5.0, tasks=4),
        ProportionalModel(),
    ],
)
def test_it_keeps_the_contract_of_models(model: LearntModel) -> None:
    """With a cap, with a length and without delays."""
    check_model(model)


def test_calibration_goes_forward_with_the_samples() -> None:
    """Gesscale, Section IV-C: alpha from one sample, gamma with the second, all with the third; the state says so."""
    model = PowerLawModel(APART)
    assert model.calibration_state == "not calibrated"
    rates = {on(1): 100.0, on(1, 4): 176.0, on(1, 2, 3, 4): 330.0}
    states = []
    for allocation, rate in rates.items():
        model = model.update(ThroughputSample(allocation, rate))
        states.append(model.calibration_state)
    assert states == [
        "alpha calibrated, gamma and beta left at their default",
        "alpha and gamma calibrated, beta left at its default",
        "alpha and gamma and beta calibrated",
    ]


def test_samples_that_fall_with_executors_leave_beta_at_its_bound() -> None:
    """A negative beta is no law of throughput: predictions stay flat, finite and within their interval."""
    falling = [ThroughputSample(Allocation(n), 100.0 / n) for n in (1, 2, 4, 8)]
    model = PowerLawModel().fit(falling)
    assert model.parameters["beta"] == 0.0
    assert model.calibration_state == "alpha calibrated, beta at the bound of 0, gamma left at its default"
    predictions = [model.predict(Allocation(n)) for n in (1, 3, 8, 20)]
    assert all(np.isfinite([p.low, p.records_per_second, p.high]).all() for p in predictions)
    assert len({round(p.records_per_second, 3) for p in predictions}) == 1


def test_delays_that_measurements_cannot_tell_apart_are_one_configuration() -> None:
    """10 and 10.5 ms are one round trip, measured twice: what lies between their samples is noise, not delay."""
    samples = [ThroughputSample(Allocation(1), 100.0 + 5.0 * i, delay_seconds=0.01 + 0.0005 * i) for i in range(2)]
    model = PowerLawModel(APART).fit(samples)
    assert model.calibration_state == "alpha calibrated, gamma and beta left at their default"
    with pytest.raises(ConfigurationError, match="delay_seconds"):
        ThroughputSample(Allocation(1), 100.0, delay_seconds=-0.1)


def published(allocation: Allocation) -> float:
    """200 records a second for an executor, beta 0.85, and 30 lost with each 100 ms."""
    return float(200.0 * allocation.executors**0.85 - 300.0 * APART(allocation))


@pytest.mark.parametrize(
    ("model", "truth", "least"),
    [
        (PowerLawModel(APART), published, 0.8),
        (BatchTimeModel(APART, cap=600), capped, 0.8),
        (PowerLawModel(APART), capped, 0.6),
        (BatchTimeModel(APART, cap=600), published, 0.6),
    ],
)
def test_intervals_hold_where_nodes_are_farther_apart_than_any_that_were_sampled(
    model: LearntModel, truth: Callable[[Allocation], float], least: float
) -> None:
    """Of new measurements at 200 and 280 ms, 90 % intervals of a law that saw at most 120 ms hold most."""
    rng, held, asked = np.random.default_rng(5), 0, (on(1, 6), on(1, 8), on(1, 2, 3, 8), on(1, 2, 3, 4, 5, 8))
    for number in range(40):
        sampled = (on(1), on(1, 2), on(1, 4), on(1, 2, 3, 4))[: 2 + number % 3]
        fitted = model.fit(
            [ThroughputSample(a, truth(a) * float(np.exp(rng.normal(0.0, 0.04)))) for a in sampled for _ in range(3)]
        )
        for allocation in asked:
            found, measured = fitted.predict(allocation), truth(allocation) * float(np.exp(rng.normal(0.0, 0.04)))
            held += found.low <= measured <= found.high
    assert held >= least * 40 * len(asked)


def test_a_law_that_predicts_nothing_is_not_sure_of_it() -> None:
    """10 ms that seem to cost a quarter would leave nothing at 280 ms, but so long a line may be wrong."""
    model = PowerLawModel(APART).fit([ThroughputSample(on(1), 1000.0), ThroughputSample(on(1, 2), 1200.0)])
    found = model.predict(on(1, 8))
    assert (found.records_per_second, found.low) == (0.0, 0.0)
    assert found.high > 1000.0


def test_an_outlier_moves_the_law_little() -> None:
    """One sample at a third of what it should be, among nine right ones."""
    samples = [ThroughputSample(a, capped(a)) for a in (*SAMPLED, *SAMPLED[1:])]
    spoilt = [*samples, ThroughputSample(on(1, 2), capped(on(1, 2)) / 3.0)]
    model = BatchTimeModel(APART, cap=600).fit(spoilt)
    for allocation in UNSEEN:
        assert model.predict(allocation).records_per_second == pytest.approx(capped(allocation), rel=0.1)


def test_an_old_sample_fades() -> None:
    """After ten half-lives a machine that got slower is predicted to be slow."""
    samples = [
        ThroughputSample(Allocation(2), 200.0, at=0.0),
        ThroughputSample(Allocation(2), 100.0, at=10.0 * 86_400.0),
    ]
    assert PowerLawModel().fit(samples).predict(Allocation(2)).records_per_second == pytest.approx(100.0, rel=0.01)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"records_per_second": 1e300}, "throughput"),
        ({"records_per_second": 5e-324}, "throughput"),
        ({"at": float("nan")}, "at"),
        ({"at": float("inf")}, "at"),
        ({"delay_seconds": float("nan")}, "delay_seconds"),
        ({"delay_seconds": 1e9}, "delay_seconds"),
    ],
)
def test_a_sample_that_cannot_be_true_is_refused(fields: dict[str, float], field: str) -> None:
    """Before a fit could come to nothing by it; the message names the field and its range."""
    with pytest.raises(ConfigurationError, match=field):
        ThroughputSample(Allocation(1), **{"records_per_second": 100.0} | fields)


@pytest.mark.parametrize(
    "model", [PowerLawModel(APART), BatchTimeModel(APART, cap=600), BatchTimeModel(APART, tasks=4)]
)
@pytest.mark.parametrize(
    "samples",
    [
        [(1, 1e-12, 0.0), (2, 1e18, 0.0), (3, 1.0, 0.0)],
        [(1, 100.0, 0.0), (2, 200.0, 80_000.0), (3, 290.0, 86_400.0)],
        [(1, 100.0, 0.3), (1, 50.0, 0.0), (2, 400.0, 0.3)],
        [(100_000, 1e6, 0.0), (1, 100.0, 0.0), (10, 1000.0, 0.1)],
    ],
)
def test_the_strangest_samples_that_are_taken_give_numbers(
    model: LearntModel, samples: list[tuple[int, float, float]]
) -> None:
    """Thirty orders of magnitude, a day of delay, more throughput from farther away: predictions stay in order."""
    fitted = model.fit([ThroughputSample(Allocation(n), rate, delay_seconds=delay) for n, rate, delay in samples])
    for executors in (1, 3, 1000):
        found = fitted.predict(Allocation(executors))
        assert 0.0 <= found.low <= found.records_per_second <= found.high < float("inf")


def test_a_delay_of_years_is_refused() -> None:
    """Whoever gives it: the message names `delay_of`."""
    model = PowerLawModel(lambda _: 1e9)
    with pytest.raises(ConfigurationError, match="delay_of"):
        model.fit([ThroughputSample(Allocation(1), 100.0)])


@pytest.mark.parametrize(
    ("options", "field"),
    [({"cap": 0}, "cap"), ({"batch_seconds": 0.0}, "batch_seconds"), ({"tasks": 0}, "tasks"), ({"slots": 0}, "slots")],
)
def test_a_batch_that_holds_nothing_is_refused(options: dict[str, float], field: str) -> None:
    """The message names the field."""
    with pytest.raises(ConfigurationError, match=field):
        BatchTimeModel(**options)  # type: ignore[arg-type]
