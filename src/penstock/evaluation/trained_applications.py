# SPDX-License-Identifier: Apache-2.0
"""Phase 2 for one application: measure, train, measure where the models part, and choose (Imai et al., Sec. 4.5).

Measurements are drawn around a stated truth. There are two planners. The paper's takes model 1 or 2 by its validation
error. Ours is the ensemble of all models, trained on the validation samples too, which are measured where its members
part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.evaluation.throughput_experiment import Application, ApplicationsFile, draw_samples
from penstock.performance.throughput import MODELS, EnsembleModel, InverseTimeModel, PolynomialModel, Selection, select
from penstock.ports import FloatArray, ThroughputModel
from penstock.records import Allocation, ThroughputSample

PAPER_MODELS: dict[str, int] = {InverseTimeModel.name: 1, PolynomialModel.name: 2}
"""Our names of the paper's models, and its numbers."""


def paper_models() -> tuple[ThroughputModel, ThroughputModel]:
    """Models 1 and 2, untrained. Model 1 with the loss that the published weights seem to come from."""
    return InverseTimeModel(loss="time"), PolynomialModel()


@dataclass(frozen=True, eq=False)
class TrainedApplication:
    """An application after phase 2.

    Attributes
    ----------
    application
        What is published of it.
    truth
        What 1, 2, 3, ... machines sustain.
    samples, validation
        What was measured.
    models
        Models 1 and 2, trained on `samples`.
    selection
        Which of them was taken, and why.
    """

    application: Application
    truth: FloatArray
    samples: tuple[ThroughputSample, ...]
    validation: tuple[ThroughputSample, ...]
    models: tuple[ThroughputModel, ThroughputModel]
    selection: Selection

    @property
    def selected(self) -> int:
        """The paper's number of the model that was taken."""
        return PAPER_MODELS[self.selection.chosen]

    @property
    def validation_sizes(self) -> tuple[int, ...]:
        """Where it was validated."""
        return tuple(sorted({sample.allocation.executors for sample in self.validation}))

    def error_percent(self, samples: Sequence[ThroughputSample]) -> float:
        """The selected model's mean absolute percentage error (Eq. 10)."""
        return mape(samples, [self.selection.model.predict(s.allocation).records_per_second for s in samples])


def train(
    file: ApplicationsFile, application: Application, generator: np.random.Generator, truth: FloatArray | None = None
) -> TrainedApplication:
    """Measure an application and train models 1 and 2; `truth` if it is to be another than the application's."""
    real = application.truth(file.most) if truth is None else truth

    def measured(sizes: Sequence[int]) -> list[ThroughputSample]:
        return draw_samples(real, sizes, file.repeats, application.noise, generator)

    samples = measured(file.sizes)
    first = select(
        paper_models(), samples, max_executors=file.most, threshold=file.discrepancy, without_validation="training"
    )
    validation = measured(first.validation_sizes)
    # Without validation sizes the models agree, and the training error decides, as in the paper.
    final = (
        select(paper_models(), samples, validation, max_executors=file.most, threshold=file.discrepancy)
        if validation
        else first
    )
    one, two = (model.fit(samples) for model in paper_models())
    return TrainedApplication(application, real, tuple(samples), tuple(validation), (one, two), final)


def train_ours(
    file: ApplicationsFile, application: Application, generator: np.random.Generator
) -> tuple[EnsembleModel, tuple[int, ...]]:
    """Our planner's model, and the sizes that it measured in addition."""
    truth = application.truth(file.most)
    members = [model for name, model in MODELS.items() if name != EnsembleModel.name]
    samples = draw_samples(truth, file.sizes, file.repeats, application.noise, generator)
    first = select(members, samples, max_executors=file.most, threshold=file.discrepancy, without_validation="training")
    further = draw_samples(truth, first.validation_sizes, file.repeats, application.noise, generator)
    return EnsembleModel().fit([*samples, *further]), first.validation_sizes


def mape(samples: Sequence[ThroughputSample], predicted: Sequence[float]) -> float:
    """Mean absolute percentage error (Eq. 10)."""
    true = np.array([sample.records_per_second for sample in samples])
    return float(100.0 * np.mean(np.abs(true - np.asarray(predicted)) / true))


def mean_mape(samples: Sequence[ThroughputSample]) -> float:
    """The same where each size is predicted by the mean of its own samples: what no model can do much better than."""
    sizes = {sample.allocation for sample in samples}
    means = {size: float(np.mean([s.records_per_second for s in samples if s.allocation == size])) for size in sizes}
    return mape(samples, [means[sample.allocation] for sample in samples])


def curve_of(model: ThroughputModel, most: int) -> FloatArray:
    """What a model predicts for 1, 2, 3, ... machines."""
    return np.array([model.predict(Allocation(m)).records_per_second for m in range(1, most + 1)])
