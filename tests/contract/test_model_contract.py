# SPDX-License-Identifier: Apache-2.0
"""One suite for all models of throughput, and the suite against models that break it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from penstock.errors import NotReadyError
from penstock.performance.throughput import (
    MODELS,
    EnsembleModel,
    InverseTimeModel,
    MonotoneModel,
    PolynomialModel,
    PowerLawModel,
)
from penstock.ports import ThroughputModel
from penstock.records import Allocation, ThroughputPrediction, ThroughputSample
from penstock.testing import check_model


def delay_of_nodes(allocation: Allocation) -> float:
    """20 ms between two nodes, none within one."""
    return 0.02 if len(allocation.nodes) > 1 else 0.0


@pytest.mark.parametrize("name", MODELS)
def test_every_model_keeps_the_contract(name: str) -> None:
    """Whatever settings can name is unchanged by learning, deterministic, finite, ordered, rising and picklable."""
    check_model(MODELS[name])


@pytest.mark.parametrize(
    "model",
    [
        InverseTimeModel(loss="time"),
        InverseTimeModel(loss="relative", half_life_seconds=3.0),
        PolynomialModel(loss="relative", min_sizes=3),
        PowerLawModel(delay_of_nodes),
        PowerLawModel(half_life_seconds=None, max_samples=4),
        MonotoneModel(min_sizes=2),
        EnsembleModel((InverseTimeModel(), PolynomialModel(min_sizes=4)), min_sizes=2),
    ],
    ids=lambda model: model.name,
)
def test_options_keep_the_contract(model: ThroughputModel) -> None:
    """The promises hold with other losses, half-lives, delays, memories and least numbers of sizes."""
    samples = [
        ThroughputSample(Allocation(2, nodes=(("a", 2),)), 200.0),
        ThroughputSample(Allocation(2, nodes=(("a", 1), ("b", 1))), 180.0),
        ThroughputSample(Allocation(4, nodes=(("a", 2), ("b", 2))), 350.0),
    ]
    check_model(model, [samples])


class Broken:
    """An inverse-time model with one fault."""

    name = "broken"
    counted = 0

    def __init__(self, fault: str, inner: ThroughputModel | None = None) -> None:
        self.fault, self.inner = fault, inner or InverseTimeModel()

    @property
    def parameters(self) -> dict[str, float]:
        """The inner model's, or one that is no number."""
        return {"w0": math.nan} if self.fault == "parameters" and self.inner.parameters else dict(self.inner.parameters)

    def fit(self, samples: Sequence[ThroughputSample]) -> Broken:
        """Learn, and perhaps forget to give a new model."""
        if not samples:
            if self.fault == "silent":
                return self
            raise NotReadyError("none" if self.fault == "message" else "needs 1", needed=1, available=0)
        fitted = self.inner.fit(samples)
        if self.fault == "changes itself":
            self.inner = fitted
        return Broken(self.fault, fitted)

    def update(self, sample: ThroughputSample) -> Broken:
        """Learn one more, and perhaps this one alone."""
        return Broken(self.fault, self.inner.fit([sample]) if self.fault == "forgets" else self.inner.update(sample))

    def predict(self, allocation: Allocation, coverage: float = 0.9) -> ThroughputPrediction:
        """The inner model's prediction with the fault in it."""
        found = self.inner.predict(allocation, coverage)
        falls: dict[str, dict[str, Any]] = {
            "infinite": {"high": math.inf},
            "negative": {"low": -1.0},
            "disorder": {"low": found.high, "high": found.low},
            "coverage": {"coverage": 0.5},
            "moves": {"records_per_second": found.low},
            "narrows": {"low": found.records_per_second * coverage},
            "falls": dict.fromkeys(("low", "records_per_second", "high"), 1.0 / allocation.executors),
            "share falls": dict.fromkeys(("low", "records_per_second", "high"), 1.0 / allocation.cpu_share),
        }
        if self.fault == "by chance":
            Broken.counted += 1
            return replace(found, high=found.high * (1.0 + Broken.counted))
        return replace(found, **falls.get(self.fault, {}))


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("silent", "no samples at all"),
        ("message", "message must say how many"),
        ("parameters", "w0 is nan"),
        ("changes itself", "fit: must not change|fit: the same"),
        ("forgets", "what a fit over all samples"),
        ("infinite", "not finite"),
        ("negative", "is negative"),
        ("disorder", "not in order"),
        ("coverage", "coverage that was asked for"),
        ("moves", "must not move"),
        ("narrows", "must not be narrower"),
        ("falls", "more executors"),
        ("share falls", "larger share"),
        ("by chance", "must give the same model"),
    ],
)
def test_the_suite_notices_broken_models(fault: str, words: str) -> None:
    """The suite itself can fail: each broken promise is reported."""
    with pytest.raises(AssertionError, match=words):
        check_model(Broken(fault))


def test_a_model_that_forgets_may_say_so() -> None:
    """A model that makes no claim about update passes without it, and one without faults passes anyway."""
    check_model(Broken("forgets"), updates_as_fit=False)
    check_model(Broken("none"))
