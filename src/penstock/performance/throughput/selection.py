# SPDX-License-Identifier: Apache-2.0
"""Choosing among models: where to measure next so that they come apart, and which one to take.

Imai et al. (Section 4.5) train two models, measure at the sizes where these begin to differ, and take the one whose
validation error is less. Algorithm 1 finds those sizes for two models, Eq. 13 says how to compare any number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Literal, TypeAlias

import numpy as np

from penstock.errors import ConfigurationError, NotReadyError
from penstock.performance.throughput.leave_out import held_out_predictions, rmse
from penstock.ports import FloatArray, ThroughputModel
from penstock.records import Allocation, ThroughputSample

_EXACT, _STEP = 512, 1.01
Judgement: TypeAlias = Literal["validation", "leave-one-size-out", "training"]


@dataclass(frozen=True, slots=True)
class ModelScore:
    """What one model was found to be worth. Errors are root mean squares in records a second.

    Attributes
    ----------
    name
        The model's name.
    parameters
        What was fitted.
    training_error
        At the samples it was trained on.
    validation_error
        At the validation samples; None where there are none.
    held_out_error
        At each size, trained on all others; None where that was not asked for, or cannot be done.
    """

    name: str
    parameters: Mapping[str, float]
    training_error: float
    validation_error: float | None = None
    held_out_error: float | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Selection:
    """Which model was chosen, and why.

    Attributes
    ----------
    chosen
        Its name.
    model
        The model itself, trained on the training samples.
    judged_by
        Which error decided.
    scores
        Of all models that could be trained, the best first.
    validation_sizes
        The numbers of executors at which a measurement would tell the models apart; empty: they agree everywhere.
    refused
        Why a model could not be trained, by its name.
    """

    chosen: str
    model: ThroughputModel
    judged_by: Judgement
    scores: tuple[ModelScore, ...]
    validation_sizes: tuple[int, ...]
    refused: Mapping[str, str]


def discrepancy(rates: Sequence[FloatArray]) -> FloatArray:
    """The mean relative difference between all pairs of models (Imai et al., Eq. 13), for each size."""
    pairs = list(combinations(rates, 2))
    gaps = [np.abs(one - other) / np.maximum(np.minimum(one, other), np.finfo(float).tiny) for one, other in pairs]
    return np.mean(gaps, axis=0) if gaps else np.zeros_like(rates[0])


def validation_sizes(
    models: Sequence[ThroughputModel],
    largest_trained: int,
    max_executors: int,
    *,
    threshold: float = 0.10,
    cpu_share: float = 1.0,
) -> tuple[int, ...]:
    """The sizes at which a measurement tells trained models apart (Imai et al., Algorithm 1).

    Models agree where their curves cross. After each crossing beyond the sizes that were trained on, and after the
    largest of these, the first size is taken at which they differ by more than `threshold`.

    Parameters
    ----------
    models
        Trained models.
    largest_trained
        The most executors of any training sample.
    max_executors
        The most executors to look at.
    threshold
        How far predictions must be apart (tau).
    cpu_share
        The share that all sizes have.

    Notes
    -----
    Taken literally, the algorithm looks nowhere when all crossings lie below `largest_trained` (its line 3), and takes
    every size above the threshold (lines 17 to 22). The text, and the sizes that the paper reports, have the search
    begin after the largest trained size in any case, and take one size for each start. So it is here. More than 512
    executors beyond the largest trained size, only sizes in steps of 1 % are looked at.
    """
    if max_executors <= largest_trained:
        return ()
    sizes = list(range(largest_trained, min(max_executors, largest_trained + _EXACT) + 1))
    while sizes[-1] < max_executors:
        sizes.append(min(max_executors, math.ceil(sizes[-1] * _STEP)))
    rates = [
        np.array([model.predict(Allocation(size, cpu_share)).records_per_second for size in sizes]) for model in models
    ]
    # The ceiling of a crossing is the first whole size at which the order of two models has changed.
    starts = {1}
    for one, other in combinations(rates, 2):
        order = np.sign(one - other)
        starts.update(int(place) + 1 for place in np.flatnonzero(order[1:] * order[:-1] < 0))
    apart = discrepancy(rates) > threshold
    found = []
    borders = [*sorted(starts), len(sizes)]
    for start, end in pairwise(borders):
        places = np.flatnonzero(apart[start:end])
        if len(places):
            found.append(sizes[start + int(places[0])])
    return tuple(found)


def select(
    models: Sequence[ThroughputModel],
    samples: Sequence[ThroughputSample],
    validation: Sequence[ThroughputSample] = (),
    *,
    max_executors: int | None = None,
    threshold: float = 0.10,
    without_validation: Literal["leave-one-size-out", "training"] = "leave-one-size-out",
) -> Selection:
    """Train all models on `samples` and take the best.

    Parameters
    ----------
    models
        Models of different names.
    samples
        What they are trained on.
    validation
        Samples at sizes that they were not trained on, best those of `validation_sizes`; with some, the model with
        the least error there is taken.
    max_executors
        The most executors that will be asked about, for `validation_sizes`; twice the largest trained where None.
        They have the largest CPU share of the samples.
    threshold
        How far predictions must be apart for a size to be worth a measurement.
    without_validation
        What decides where there are no validation samples: the error at each size when trained on all others, or
        (as in the paper) the training error.

    Raises
    ------
    NotReadyError
        No model could be trained.
    """
    names = [model.name for model in models]
    if not names or len(set(names)) < len(names):
        raise ConfigurationError(f"models: {names} must be at least one model, each of another name", field="models")
    trained: dict[str, ThroughputModel] = {}
    refused: dict[str, NotReadyError] = {}
    for model in models:
        try:
            trained[model.name] = model.fit(samples)
        except NotReadyError as fault:
            refused[model.name] = fault
    if not trained:
        raise min(refused.values(), key=lambda fault: fault.needed or 0)
    judged_by: Judgement = "validation" if validation else without_validation
    scores = [_score(model, samples, validation, judged_by) for model in trained.values()]
    if judged_by == "leave-one-size-out" and all(score.held_out_error is None for score in scores):
        judged_by = "training"  # one size only: there is nothing to leave out
    scores.sort(key=lambda score: _error(score, judged_by))
    largest = max(sample.allocation.executors for sample in samples)
    return Selection(
        scores[0].name,
        trained[scores[0].name],
        judged_by,
        tuple(scores),
        validation_sizes(
            list(trained.values()),
            largest,
            max_executors if max_executors else 2 * largest,
            threshold=threshold,
            cpu_share=max(sample.allocation.cpu_share for sample in samples),
        ),
        {name: str(fault) for name, fault in refused.items()},
    )


def _score(
    model: ThroughputModel,
    samples: Sequence[ThroughputSample],
    validation: Sequence[ThroughputSample],
    judged_by: Judgement,
) -> ModelScore:
    held_out = held_out_predictions(model, samples) if judged_by == "leave-one-size-out" else None
    return ModelScore(
        model.name,
        dict(model.parameters),
        rmse(_predicted(model, samples), samples),
        rmse(_predicted(model, validation), validation) if validation else None,
        None if held_out is None else rmse(held_out, samples),
    )


def _predicted(model: ThroughputModel, samples: Sequence[ThroughputSample]) -> FloatArray:
    known = {each: model.predict(each).records_per_second for each in {sample.allocation for sample in samples}}
    return np.array([known[sample.allocation] for sample in samples])


def _error(score: ModelScore, judged_by: Judgement) -> float:
    by = {
        "validation": score.validation_error,
        "leave-one-size-out": score.held_out_error,
        "training": score.training_error,
    }
    error = by[judged_by]
    return float("inf") if error is None else error
