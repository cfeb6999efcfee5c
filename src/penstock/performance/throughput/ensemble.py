# SPDX-License-Identifier: Apache-2.0
"""Several models as one, each as heavy as its predictions of unseen sizes were good.

With e the relative root mean square error of a model over K sizes, each predicted without its own samples, the model's
weight is in proportion to e^-K: the likelihood that a normal distribution of the errors gives the held-out sizes
("pseudo" Bayesian model averaging, Geisser and Eddy 1979). The variance of a prediction is the mean of the models' own
variances, plus how far the models are apart (the law of total variance).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np
from scipy import special

from penstock.errors import ConfigurationError, NotReadyError
from penstock.performance.throughput.calibration import WIDEST, around
from penstock.performance.throughput.inverse_time import InverseTimeModel
from penstock.performance.throughput.learnt_model import LearntModel
from penstock.performance.throughput.leave_out import held_out_predictions, relative_rmse
from penstock.performance.throughput.monotone import MonotoneModel
from penstock.performance.throughput.polynomial import PolynomialModel
from penstock.performance.throughput.power_law import PowerLawModel
from penstock.performance.throughput.sample_table import SampleTable
from penstock.performance.throughput.scalability_law import ScalabilityLawModel
from penstock.ports import FloatArray, ThroughputModel
from penstock.records import Allocation, ThroughputPrediction

_LEAST_ERROR = 0.01
"""Errors below this are chance: no model is preferred for them."""


def _default_members() -> tuple[ThroughputModel, ...]:
    return (InverseTimeModel(), PolynomialModel(), PowerLawModel(), ScalabilityLawModel(), MonotoneModel())


@dataclass(frozen=True, eq=False)
class EnsembleModel(LearntModel):
    """A weighted mean of models.

    Attributes
    ----------
    members
        The models, each of another name; fitted after the first fit.
    weights
        What each member counts, by name; empty before the first fit. A member that needs more sizes counts nothing.
    held_out_errors
        The relative errors that the weights come from, by name; None where a member could not be graded.
    """

    name: ClassVar[str] = "ensemble"

    members: tuple[ThroughputModel, ...] = field(default_factory=_default_members)
    weights: Mapping[str, float] = field(default_factory=dict, kw_only=True, repr=False)
    held_out_errors: Mapping[str, float | None] = field(default_factory=dict, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        names = [member.name for member in self.members]
        if not names or len(set(names)) < len(names):
            raise ConfigurationError(
                f"members: {names} must be at least one model, each of another name", field="members"
            )

    @property
    def parameters(self) -> Mapping[str, float]:
        """The weight of each member."""
        return dict(self.weights)

    @property
    def notes(self) -> tuple[str, ...]:
        """Those of its members that count most."""
        if not self.weights:
            return ("not fitted yet",)
        heaviest = max(self.weights, key=lambda name: self.weights[name])
        own = next(member for member in self.members if member.name == heaviest)
        return (f"{heaviest} counts {self.weights[heaviest]:.0%}", *getattr(own, "notes", ()))

    def trained(self, table: SampleTable) -> Self:  # noqa: ARG002
        """All members trained, and weighed by their errors at held-out sizes."""
        fitted: dict[str, ThroughputModel] = {}
        errors: dict[str, float | None] = {}
        missing: list[NotReadyError] = []
        for member in self.members:
            try:
                fitted[member.name] = member.fit(self.samples)
            except NotReadyError as fault:
                missing.append(fault)
                continue
            predicted = held_out_predictions(member, self.samples)
            errors[member.name] = None if predicted is None else relative_rmse(predicted, self.samples)
        if not fitted:
            raise min(missing, key=lambda fault: fault.needed or 0)
        weights = _weights(errors, sizes=self.table_of(self.samples).sizes)
        return replace(
            self,
            members=tuple(fitted.get(member.name, member) for member in self.members),
            weights=weights,
            held_out_errors=errors,
        )

    def answer(self, allocation: Allocation, coverage: float) -> ThroughputPrediction:
        """The weighted mean, and an interval as wide as the members' and their differences."""
        counting = [(self.weights[member.name], member) for member in self.members if self.weights.get(member.name)]
        shares: FloatArray = np.array([share for share, _ in counting])
        predictions = [member.predict(allocation, coverage) for _, member in counting]
        mid = float(shares @ [prediction.records_per_second for prediction in predictions])
        if not mid > 0.0:
            return ThroughputPrediction(0.0, 0.0, 0.0, coverage)
        squares, gaps = _squares(predictions, mid)
        quantile = float(special.ndtri(0.5 + coverage / 2.0))
        return around(mid, min(WIDEST, math.sqrt(shares @ squares + quantile**2 * (shares @ gaps))), coverage)


def _squares(predictions: Sequence[ThroughputPrediction], mid: float) -> tuple[FloatArray, FloatArray]:
    """Squared half-widths of the members' intervals, and squared distances from the mean, in logarithms."""
    squares, gaps = [], []
    for prediction in predictions:
        own = prediction.records_per_second
        if not (own > 0.0 and prediction.low > 0.0):  # nothing at all has no logarithm: as far off as intervals go
            squares.append(0.0)
            gaps.append(WIDEST**2)
            continue
        squares.append(max(math.log(prediction.high / own), math.log(own / prediction.low)) ** 2)
        gaps.append(math.log(own / mid) ** 2)
    return np.array(squares), np.array(gaps)


def _weights(errors: Mapping[str, float | None], sizes: int) -> dict[str, float]:
    graded = {name: max(_LEAST_ERROR, error) for name, error in errors.items() if error is not None}
    if not graded:
        return dict.fromkeys(errors, 1.0 / len(errors))
    best = min(graded.values())
    raw = {name: (best / error) ** sizes for name, error in graded.items()}
    total = sum(raw.values())
    return {name: raw.get(name, 0.0) / total for name in errors}
