# SPDX-License-Identifier: Apache-2.0
"""Where models are to be told apart, and which is taken."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.performance.throughput.published_weights import published

from penstock.errors import ConfigurationError, NotReadyError
from penstock.performance.throughput import (
    MODELS,
    EnsembleModel,
    InverseTimeModel,
    PolynomialModel,
    PowerLawModel,
    ScalabilityLawModel,
    discrepancy,
    select,
    validation_sizes,
)
from penstock.records import Allocation, ThroughputPrediction, ThroughputSample

BOTH = (InverseTimeModel(), PolynomialModel())


def amdahl(*sizes: int, noise: float = 0.0, seed: int = 0) -> list[ThroughputSample]:
    """An application with a tenth of serial work, measured twice at each size."""
    random = np.random.default_rng(seed)
    return [
        ThroughputSample(Allocation(m), 1000.0 / (0.1 + 0.9 / m) * float(np.exp(noise * random.normal())))
        for m in sizes
        for _ in range(2)
    ]


# --- Algorithm 1 -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("application", "sizes"),
    [
        ("Grep", (26,)),
        ("Unique Visitor", (25,)),
        ("Page View", (25,)),
        ("Data Clean", ()),
        ("VHT", ()),
    ],
)
def test_the_published_validation_sizes(application: str, sizes: tuple[int, ...]) -> None:
    """The weights of Table 2 give the validation sizes that the paper reports (Section 5.2)."""
    assert validation_sizes(published(application), 24, 128) == sizes


def test_rolling_count_has_two_validation_sizes() -> None:
    """The first is the paper's 25; the second, after the curves cross, is 89 from the printed weights, not 72."""
    models = published("Rolling Count")
    assert validation_sizes(models, 24, 128) == (25, 89)
    # The prediction of Model 1 at 72 is 5 % above the peak of Model 2: half the stated threshold.
    rates = [np.array([model.predict(Allocation(72)).records_per_second]) for model in models]
    assert discrepancy(rates)[0] == pytest.approx(0.05, abs=0.001)


def test_discrepancy_is_the_mean_over_pairs() -> None:
    """Of 100, 110 and 200: differences of 10 %, 100 % and 81.8 % (Eq. 13)."""
    rates = [np.array([rate]) for rate in (100.0, 110.0, 200.0)]
    assert discrepancy(rates)[0] == pytest.approx((0.1 + 1.0 + 90.0 / 110.0) / 3.0)
    assert discrepancy(rates[:1])[0] == 0.0


def test_no_sizes_beyond_the_largest_trained() -> None:
    """Where nothing larger can be asked for, nothing is proposed."""
    assert validation_sizes(published("Grep"), 24, 24) == ()


# --- selection -------------------------------------------------------------------------------------------------


def test_validation_decides() -> None:
    """With samples at larger sizes, the model with the least error there is taken, and errors are reported."""
    chosen = select(BOTH, amdahl(1, 2, 3, 4), amdahl(16, 32))
    assert (chosen.chosen, chosen.judged_by) == ("inverse-time", "validation")
    assert chosen.model.predict(Allocation(32)).records_per_second == pytest.approx(1000.0 / (0.1 + 0.9 / 32))
    best, other = chosen.scores
    assert best.name == "inverse-time"
    assert best.parameters["w0"] == pytest.approx(1e-4)
    assert best.validation_error == pytest.approx(0.0, abs=1e-3)
    assert other.validation_error is not None
    assert other.validation_error > 100.0
    assert other.training_error > 1.0
    assert chosen.validation_sizes
    assert min(chosen.validation_sizes) > 4


def test_without_validation_sizes_are_left_out() -> None:
    """Without such samples, the error at each size when trained on all others decides."""
    chosen = select(BOTH, amdahl(1, 2, 4, 8, 16, noise=0.02))
    assert (chosen.chosen, chosen.judged_by) == ("inverse-time", "leave-one-size-out")
    assert all(score.held_out_error is not None and score.validation_error is None for score in chosen.scores)


def test_training_errors_decide_where_asked() -> None:
    """As in the paper, training errors decide if that is asked for."""
    chosen = select(BOTH, amdahl(1, 2, 4, 8, 16), without_validation="training")
    assert (chosen.chosen, chosen.judged_by) == ("inverse-time", "training")
    assert chosen.scores[0].training_error <= chosen.scores[1].training_error


def test_one_size_is_judged_by_training() -> None:
    """Of one size nothing can be left out, and the selection says what decided instead."""
    chosen = select(BOTH, amdahl(4))
    assert chosen.judged_by == "training"


def test_any_number_of_models_can_be_compared() -> None:
    """All models take part, and those that need more sizes are named with their reason."""
    waiting = PowerLawModel(min_sizes=9)
    models = [model for name, model in MODELS.items() if name != "power-law"]
    chosen = select([*models, waiting], amdahl(1, 2, 4, 8, noise=0.01), max_executors=64)
    assert len(chosen.scores) == len(models) == len(MODELS) - 1
    assert "at least 9 different sizes and has 4" in chosen.refused["power-law"]


def test_no_model_that_is_ready_is_not_ready() -> None:
    """Where every model wants more sizes, the error names the least that would do."""
    with pytest.raises(NotReadyError, match="at least 3") as caught:
        select((InverseTimeModel(min_sizes=5), PolynomialModel(min_sizes=3)), amdahl(1, 2))
    assert caught.value.needed == 3


@pytest.mark.parametrize("models", [(), (InverseTimeModel(), InverseTimeModel())])
def test_models_have_different_names(models: tuple[InverseTimeModel, ...]) -> None:
    """Nothing to choose from, or two of a name, is refused."""
    with pytest.raises(ConfigurationError, match="each of another name"):
        select(models, amdahl(1, 2))
    with pytest.raises(ConfigurationError, match="each of another name"):
        EnsembleModel(models)


# --- the ensemble ----------------------------------------------------------------------------------------------


def test_the_ensemble_prefers_what_predicts_unseen_sizes() -> None:
    """On an application with serial work, the forms that have it hold nearly all the weight, and weights sum to 1."""
    model = EnsembleModel().fit(amdahl(1, 2, 4, 8, 16, noise=0.02))
    assert sum(model.weights.values()) == pytest.approx(1.0)
    assert model.weights["inverse-time"] + model.weights["usl"] + model.weights["monotone"] > 0.9
    errors = model.held_out_errors
    assert min(errors, key=lambda name: errors[name] or 1.0) == max(model.weights, key=lambda name: model.weights[name])
    assert "counts" in model.notes[0]


def test_the_ensemble_lies_among_its_members() -> None:
    """Its prediction is the weighted mean of theirs."""
    samples = amdahl(1, 2, 4)
    model = EnsembleModel((PowerLawModel(), ScalabilityLawModel())).fit(samples)
    at = Allocation(64)
    parts = [member.predict(at) for member in model.members]
    wanted = sum(
        model.weights[member.name] * part.records_per_second for member, part in zip(model.members, parts, strict=True)
    )
    found = model.predict(at)
    assert found.records_per_second == pytest.approx(wanted)


def test_members_that_wait_count_nothing() -> None:
    """A member that needs more sizes joins when there are enough."""
    model = EnsembleModel((InverseTimeModel(), PolynomialModel(min_sizes=4)))
    early = model.fit(amdahl(1, 2, 4))
    assert early.weights == {"inverse-time": 1.0}
    later = early.update(ThroughputSample(Allocation(8), 4700.0))
    assert set(later.weights) == {"inverse-time", "polynomial"}


def test_sizes_to_measure_are_those_of_the_sampled_share() -> None:
    """Executors with a fifth of a core are told apart at the same numbers as whole ones of the same throughput."""
    whole = amdahl(1, 2, 4, 8, noise=0.02)
    shared = [ThroughputSample(Allocation(s.allocation.executors, 0.2), s.records_per_second) for s in whole]
    models = (InverseTimeModel(), PolynomialModel())
    found = select(models, whole, max_executors=40).validation_sizes
    assert found
    assert select(models, shared, max_executors=40).validation_sizes == found


def test_far_sizes_are_looked_at_in_steps() -> None:
    """With a million executors allowed, models are asked about some hundred sizes, not about all."""
    asked: list[int] = []

    class Counted(InverseTimeModel):
        def predict(self, allocation: Allocation, coverage: float = 0.9) -> ThroughputPrediction:
            asked.append(allocation.executors)
            return super().predict(allocation, coverage)

    validation_sizes([Counted().fit(amdahl(1, 2, 4, 8))], 8, 1_000_000)
    assert asked[:3] == [8, 9, 10]
    assert asked[-1] == 1_000_000
    assert len(asked) < 2_000
