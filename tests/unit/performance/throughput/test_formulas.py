# SPDX-License-Identifier: Apache-2.0
"""The models with a formula: their fits, how CPU shares enter, and what they do with few samples."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import least_squares
from tests.unit.performance.throughput.published_weights import MODEL_1, MODEL_2, rates_1, rates_2, samples_of

from penstock.errors import ConfigurationError, NotReadyError
from penstock.performance.throughput import (
    MODELS,
    InverseTimeModel,
    PolynomialModel,
    PowerLawModel,
    ScalabilityLawModel,
    model_named,
)
from penstock.ports import FloatArray
from penstock.records import Allocation, ExecutorSize, ThroughputSample

FORMULAS = ("inverse-time", "polynomial", "power-law", "usl")


def a_sample(rate: float, executors: int, share: float = 1.0, at: float | None = None) -> ThroughputSample:
    """A sample without a size or nodes."""
    return ThroughputSample(Allocation(executors, share), rate, at)


# --- published weights -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("application", MODEL_1)
@pytest.mark.parametrize("loss", ["throughput", "time", "relative"])
def test_model_1_finds_the_published_weights(application: str, loss: str) -> None:
    """Sampled at the paper's sizes, the published curve of Model 1 gives back the weights of Table 2, by any loss."""
    found = InverseTimeModel(loss=loss).fit(samples_of(rates_1(application)))  # type: ignore[arg-type]
    assert list(found.parameters.values()) == pytest.approx(MODEL_1[application], rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("application", MODEL_2)
def test_model_2_finds_the_published_weights(application: str) -> None:
    """Sampled at the paper's sizes, the published curve of Model 2 gives back the weights of Table 2."""
    found = PolynomialModel().fit(samples_of(rates_2(application)))
    assert list(found.parameters.values()) == pytest.approx(MODEL_2[application], rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("application", ["Grep", "Rolling Count", "Unique Visitor", "Page View"])
def test_the_published_weights_are_nearer_to_a_fit_of_times(application: str) -> None:
    """Both models saw the same samples, which Model 2 stands for: Model 1's serial time is nearer to that of `time`."""
    wanted = MODEL_1[application][0]
    stand_in = samples_of(rates_2(application))
    by_throughput = InverseTimeModel(loss="throughput").fit(stand_in).parameters["w0"]
    by_time = InverseTimeModel(loss="time").fit(stand_in).parameters["w0"]
    assert abs(by_time - wanted) < abs(by_throughput - wanted)


# --- fits ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_model_1_minimises_the_error_of_throughput(seed: int) -> None:
    """Its weights are as good by Eq. 3 as those that a general solver finds, and none is negative."""
    random = np.random.default_rng(seed)
    m = np.repeat([1.0, 2.0, 4.0, 8.0, 16.0, 32.0], 2)
    rates = (
        1000.0
        / (random.uniform(0.0, 0.2) + 1.0 / m + random.choice([0.0, 0.01]) * m)
        * np.exp(0.1 * random.normal(size=12))
    )
    found = InverseTimeModel().fit([a_sample(rate, int(size)) for rate, size in zip(rates, m, strict=True)])
    terms = np.column_stack((np.ones_like(m), 1.0 / m, m, m**2)) * [1e-3, 1e-3, 1e-5, 1e-6]

    def misses(values: FloatArray) -> FloatArray:
        return np.asarray(1.0 / (terms @ values) - rates)

    reference = least_squares(
        misses, [0.1, 1.0, 0.1, 0.1], bounds=(0.0, np.inf), x_scale="jac", max_nfev=3000, ftol=1e-14
    )
    own = np.array(list(found.parameters.values())) / [1e-3, 1e-3, 1e-5, 1e-6]
    assert (own >= 0.0).all()
    assert (misses(own) ** 2).sum() <= 2.0 * reference.cost * (1.0 + 1e-6)


@pytest.mark.parametrize(
    ("model", "truth"),
    [
        (InverseTimeModel(), lambda m, s: 1.0 / (1e-4 + 1e-3 / (m * s) + 1e-6 * m)),
        (PolynomialModel(), lambda m, s: 50.0 + 100.0 * m * s - 2.0 * m**2),
        (PowerLawModel(), lambda m, s: 300.0 * s**0.7 * m**0.8),
        (ScalabilityLawModel(), lambda m, s: 500.0 / (0.95 / (m * s) + 0.05 + 0.001 * (m - 1))),
    ],
    ids=lambda part: getattr(part, "name", ""),
)
def test_executors_and_shares_enter_as_stated(model: InverseTimeModel, truth: object) -> None:
    """A model fitted on exact samples of several shares predicts sizes and shares between them exactly."""
    assert callable(truth)
    found = model.fit([a_sample(truth(m, s), m, s) for m in (1, 2, 4, 8, 12) for s in (0.4, 1.0)])
    for executors, share in ((3, 0.7), (6, 0.55), (10, 0.85)):
        predicted = found.predict(Allocation(executors, share)).records_per_second
        assert predicted == pytest.approx(truth(executors, share), rel=1e-4)


@pytest.mark.parametrize("name", FORMULAS)
def test_one_share_for_all_keeps_the_published_form(name: str) -> None:
    """Samples with a share of 0.5 throughout give the same curve along executors as with a share of 1 throughout."""
    rates = {1: 100.0, 2: 180.0, 4: 300.0, 8: 420.0, 12: 450.0}
    halves = model_named(name).fit([a_sample(rate, size, 0.5) for size, rate in rates.items()])
    wholes = model_named(name).fit([a_sample(rate, size, 1.0) for size, rate in rates.items()])
    for size in (1, 3, 6, 10, 20):
        half, whole = halves.predict(Allocation(size, 0.5)), wholes.predict(Allocation(size, 1.0))
        assert half.records_per_second == pytest.approx(whole.records_per_second, rel=1e-6)


def test_a_larger_executor_counts_as_a_larger_share() -> None:
    """An executor worth two of the operator's own does parallel work twice as fast."""
    found = InverseTimeModel().fit([a_sample(100.0 * m, m) for m in (1, 2, 4)])
    double = Allocation(2, 0.5, ExecutorSize(4, "4g", worth=2.0))
    assert found.predict(double).records_per_second == pytest.approx(200.0)


@pytest.mark.parametrize("model", [InverseTimeModel(), PolynomialModel(), ScalabilityLawModel()])
def test_predictions_stay_flat_after_the_peak(model: InverseTimeModel) -> None:
    """Where the formula falls again, the prediction keeps its peak."""
    found = model.fit([a_sample(rate, m) for m, rate in ((1, 100.0), (2, 180.0), (4, 260.0), (8, 250.0), (16, 120.0))])
    peak = max(found.predict(Allocation(m)).records_per_second for m in range(1, 10))
    assert found.predict(Allocation(16)).records_per_second == peak
    assert found.predict(Allocation(500)).records_per_second == peak


# --- the power law ---------------------------------------------------------------------------------------------


def delay_of(allocation: Allocation) -> float:
    """10 ms for every node but the first."""
    return 0.01 * (len(allocation.nodes) - 1) if allocation.nodes else 0.0


def on(nodes: int, executors: int, rate: float) -> ThroughputSample:
    """A sample on so many nodes."""
    counts = [executors - nodes + 1] + [1] * (nodes - 1)
    return ThroughputSample(
        Allocation(executors, nodes=tuple((f"node {number}", count) for number, count in enumerate(counts))), rate
    )


def test_calibration_is_progressive() -> None:
    """One sample sets alpha, a second with another delay gamma, else beta, and three all (Gesscale, Eqs. 1 to 3)."""
    model = PowerLawModel(delay_of)
    one = model.fit([on(1, 2, 200.0)])
    assert one.parameters == pytest.approx({"alpha": 100.0, "beta": 1.0, "gamma": 0.0, "share_exponent": 1.0})
    assert one.predict(Allocation(6)).records_per_second == pytest.approx(600.0)
    near_and_far = model.fit([on(1, 2, 200.0), on(2, 4, 350.0)])  # 4 alpha - 0.01 gamma = 350
    assert near_and_far.parameters == pytest.approx(
        {"alpha": 100.0, "beta": 1.0, "gamma": 5000.0, "share_exponent": 1.0}, rel=1e-4
    )
    near = model.fit([on(1, 1, 100.0), on(1, 4, 200.0)])
    assert near.parameters == pytest.approx(
        {"alpha": 100.0, "beta": 0.5, "gamma": 0.0, "share_exponent": 1.0}, rel=1e-4
    )
    truth = {(1, 1): 0.0, (1, 4): 0.0, (2, 4): 0.01, (3, 8): 0.02}
    samples = [on(nodes, m, 100.0 * m**0.8 - 2000.0 * delay) for (nodes, m), delay in truth.items()]
    full = model.fit(samples)
    assert full.parameters == pytest.approx(
        {"alpha": 100.0, "beta": 0.8, "gamma": 2000.0, "share_exponent": 1.0}, rel=1e-3
    )


def test_samples_that_fall_with_executors_put_beta_at_its_bound() -> None:
    """100, 60 and 30 would be a beta below 0; it stays at 0, and no prediction falls, is negative or is no number."""
    found = PowerLawModel().fit([a_sample(100.0, 1), a_sample(60.0, 2), a_sample(30.0, 4)])
    assert found.parameters["beta"] == pytest.approx(0.0, abs=1e-6)
    rates = [found.predict(Allocation(executors)).records_per_second for executors in (1, 2, 4, 8)]
    assert all(0.0 < rate < math.inf for rate in rates)
    assert rates == pytest.approx(sorted(rates))


def test_an_outlier_moves_the_power_law_little() -> None:
    """One measurement at a third of the truth moves the prediction by less than a tenth."""
    good = [a_sample(100.0 * m**0.8, m) for m in (1, 2, 4, 8) for _ in range(2)]
    found = PowerLawModel().fit([*good, a_sample(100.0, 4)])
    assert found.predict(Allocation(4)).records_per_second == pytest.approx(100.0 * 4**0.8, rel=0.1)


def test_old_samples_fade() -> None:
    """After the application has changed, samples of ten half-lives ago hardly count."""
    old = [a_sample(100.0 * m, m, at=0.0) for m in (1, 2, 4)]
    new = [a_sample(50.0 * m, m, at=1000.0) for m in (1, 2, 4)]
    fading = PowerLawModel(half_life_seconds=100.0).fit([*old, *new])
    assert fading.predict(Allocation(3)).records_per_second == pytest.approx(150.0, rel=0.01)
    keeping = PowerLawModel(half_life_seconds=None).fit([*old, *new])
    assert keeping.predict(Allocation(3)).records_per_second > 180.0


def test_a_delay_must_be_a_time() -> None:
    """A hook that gives a negative delay is refused with its name."""
    with pytest.raises(ConfigurationError, match=r"delay_of: -1\.0"):
        PowerLawModel(lambda allocation: -1.0).fit([a_sample(1.0, 2)])


# --- few samples, bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["inverse-time", "polynomial", "usl", "monotone"])
def test_one_size_gives_a_proportional_law_that_ends_there(name: str) -> None:
    """With samples of one size, throughput is proportional below and no higher above, and the model says so."""
    found = model_named(name).fit([a_sample(390.0, 4), a_sample(410.0, 4)])
    middle = math.sqrt(390.0 * 410.0)
    assert found.predict(Allocation(2)).records_per_second == pytest.approx(middle / 2.0)
    assert found.predict(Allocation(4)).records_per_second == pytest.approx(middle)
    assert found.predict(Allocation(9)).records_per_second == pytest.approx(middle)
    assert found.parameters["limited_to"] == pytest.approx(4.0)
    assert "only one size was sampled" in getattr(found, "notes")[0]  # noqa: B009
    near, far = found.predict(Allocation(4)), found.predict(Allocation(16))
    assert far.high / far.low > 2.0 * near.high / near.low


@pytest.mark.parametrize("name", MODELS)
def test_no_samples_are_not_enough(name: str) -> None:
    """A fit on nothing and a prediction before any fit say what is missing."""
    with pytest.raises(NotReadyError, match=f"{name} needs samples of at least 1 size and has 0"):
        model_named(name).fit([])
    with pytest.raises(NotReadyError, match=f"{name} has not been fitted"):
        model_named(name).predict(Allocation(1))


def test_a_model_can_be_asked_to_wait_for_sizes() -> None:
    """`min_sizes` counts different sizes, not samples."""
    samples = [a_sample(100.0, 1), a_sample(101.0, 1), a_sample(190.0, 2)]
    with pytest.raises(NotReadyError, match="at least 3 different sizes and has 2") as caught:
        InverseTimeModel(min_sizes=3).fit(samples)
    assert (caught.value.needed, caught.value.available) == (3, 2)


@pytest.mark.parametrize(
    ("allocation", "words"), [(Allocation(0), "0 executors"), (Allocation(1, 0.0), "CPU share of 0.0")]
)
def test_an_allocation_without_cpu_is_refused(allocation: Allocation, words: str) -> None:
    """What cannot process anything has no throughput to predict."""
    found = PolynomialModel().fit([a_sample(100.0, 1)])
    with pytest.raises(ConfigurationError, match=words):
        found.predict(allocation)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"min_sizes": 0}, "min_sizes"),
        ({"max_samples": 0}, "max_samples"),
        ({"half_life_seconds": 0.0}, "half_life_seconds"),
    ],
)
def test_bad_options_are_refused(options: dict[str, float], field: str) -> None:
    """An option that makes no sense names itself."""
    with pytest.raises(ConfigurationError) as caught:
        InverseTimeModel(**options)  # type: ignore[arg-type]
    assert caught.value.field == field


def test_an_unknown_name_lists_the_known_ones() -> None:
    """A model that does not exist is refused with those that do."""
    with pytest.raises(ConfigurationError, match="unknown name 'linear'; known: inverse-time, polynomial, power-law"):
        model_named("linear")


@pytest.mark.parametrize("coverage", [0.0, 1.0, -0.5, math.nan])
def test_a_coverage_is_a_probability(coverage: float) -> None:
    """Certainty is not for sale."""
    with pytest.raises(ConfigurationError, match="coverage"):
        PolynomialModel().fit([a_sample(100.0, 1)]).predict(Allocation(1), coverage)


@pytest.mark.parametrize("name", FORMULAS)
def test_far_sizes_are_answered_as_if_all_were_looked_at(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond some thousand executors not every size is looked at, and the peak is found all the same."""
    rates = [a_sample(100.0 * m**0.95 / (1.0 + 1e-7 * m**2), m) for m in (1, 2, 8, 64, 512, 2000)]
    model = model_named(name).fit(rates)
    sizes = [Allocation(m) for m in (2048, 2049, 5000, 60_000)]
    found = [model.predict(size) for size in sizes]
    monkeypatch.setattr("penstock.performance.throughput.curve_model._EVERY_SIZE", 10**9)
    assert found == [model.predict(size) for size in sizes]
