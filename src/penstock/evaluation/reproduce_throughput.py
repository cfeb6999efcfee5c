# SPDX-License-Identifier: Apache-2.0
"""Models of throughput done again (Imai et al., Table 2, Figs. 9 and 11): weights, curves and errors beside theirs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.evaluation.reproduction import Call, Column, Grid, Reproduction
from penstock.evaluation.throughput_experiment import (
    Application,
    ApplicationsFile,
    ThroughputExperiment,
    draw_samples,
    published_throughput,
)
from penstock.evaluation.trained_applications import (
    TrainedApplication,
    curve_of,
    mean_mape,
    paper_models,
    train,
    train_ours,
)
from penstock.ports import FloatArray


@dataclass(frozen=True, eq=False)
class WeightsFound:
    """The weights of one model of one application, refitted on samples of the published curve.

    Attributes
    ----------
    application, model
        The application's name, and 1 or 2.
    published
        The weights of Table 2.
    found
        Ours: a row for each seed.
    apart_percent
        For each seed, how far the refitted curve is from the published one: the mean over 1 to 24 machines, and over
        all.
    """

    application: str
    model: int
    published: tuple[float, ...]
    found: FloatArray
    apart_percent: FloatArray

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "application": self.application, "model": self.model, "published": list(self.published),
            "ours": self.found.mean(axis=0).tolist(), "ours_spread": self.found.std(axis=0).tolist(),
            "curve_apart_percent_where_trained": float(self.apart_percent[:, 0].mean()),
            "curve_apart_percent_everywhere": float(self.apart_percent[:, 1].mean()),
        }  # fmt: skip


def refit_weights(file: ApplicationsFile, application: Application, seeds: int) -> tuple[WeightsFound, WeightsFound]:
    """Draw samples of each published curve at the sizes of training, and fit the same model to them."""
    results = []
    for number, model in zip((1, 2), paper_models(), strict=True):
        weights = application.model1 if number == 1 else application.model2
        truth = published_throughput(weights, file.most)
        found, apart = [], []
        for seed in range(seeds):
            generator = np.random.default_rng(seed)
            fitted = model.fit(draw_samples(truth, file.sizes, file.repeats, application.noise, generator))
            found.append([fitted.parameters[f"w{i}"] for i in range(len(weights))])
            distance = 100.0 * np.abs(curve_of(fitted, file.most) / truth - 1.0)
            apart.append([distance[: max(file.sizes)].mean(), distance.mean()])
        results.append(WeightsFound(application.name, number, weights, np.array(found), np.array(apart)))
    return results[0], results[1]


@dataclass(frozen=True, eq=False)
class ErrorsFound:
    """What predictions of one application were off by, for each seed, in percent (Eq. 10).

    Attributes
    ----------
    application
        Its name.
    selected
        The paper's choice, and ours for each seed.
    validation
        The paper's sizes of validation, and ours for the first seed.
    model, mean_value
        Of the selected model, and of the mean of the samples themselves, at the sizes of training and validation.
    everywhere
        Of the selected model against the truth at all sizes.
    ours
        Of our ensemble against the truth at all sizes.
    """

    application: str
    selected: tuple[int, tuple[int, ...]]
    validation: tuple[tuple[int, ...], tuple[int, ...]]
    model: tuple[float, ...]
    mean_value: tuple[float, ...]
    everywhere: tuple[float, ...]
    ours: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "application": self.application,
            "selected_model": {"published": self.selected[0], "ours": list(self.selected[1])},
            "validation_sizes": {"published": list(self.validation[0]), "ours": list(self.validation[1])},
            "mape_percent": float(np.mean(self.model)), "mape_percent_worst": max(self.model),
            "mean_value_mape_percent": float(np.mean(self.mean_value)),
            "all_sizes_mape_percent": float(np.mean(self.everywhere)),
            "ensemble_all_sizes_mape_percent": float(np.mean(self.ours)),
        }  # fmt: skip


def errors_of(file: ApplicationsFile, application: Application, seeds: int) -> ErrorsFound:
    """Train, measure anew at the sizes of training and validation, and grade."""
    truth = application.truth(file.most)
    rows, chosen = [], []
    validation: tuple[int, ...] = ()
    for seed in range(seeds):
        generator = np.random.default_rng(seed)
        trained = train(file, application, generator)
        sizes = (*file.sizes, *trained.validation_sizes)
        fresh = draw_samples(truth, sizes, file.repeats, application.noise, generator)
        ours, _ = train_ours(file, application, np.random.default_rng(seed))
        curves = (curve_of(model, file.most) for model in (trained.selection.model, ours))
        everywhere = [float(100.0 * np.abs(curve / truth - 1.0).mean()) for curve in curves]
        rows.append((trained.error_percent(fresh), mean_mape(fresh), *everywhere))
        chosen.append(trained.selected)
        validation = validation or trained.validation_sizes
    model, mean_value, everywhere_, of_ours = (tuple(column) for column in zip(*rows, strict=True))
    return ErrorsFound(
        application.name, (application.selected, tuple(chosen)), (application.validation, validation),
        model, mean_value, everywhere_, of_ours,
    )  # fmt: skip


def reproduce_throughput(experiment: ThroughputExperiment, call: Call) -> Reproduction:
    """Do what the experiment shows."""
    file = experiment.load_applications(call.folder)
    if experiment.show == "weights":
        return _weights(experiment, file, call)
    return _curves(experiment, file, call) if experiment.show == "curves" else _errors(experiment, file, call)


def _done(call: Call, number: int, file: ApplicationsFile) -> None:
    if call.progress is not None:
        call.progress(number / len(file.applications))


def _head(experiment: ThroughputExperiment, call: Call) -> dict[str, Any]:
    return {"experiment": call.name, "paper": experiment.paper, "seeds": experiment.seeds}


def _weights(experiment: ThroughputExperiment, file: ApplicationsFile, call: Call) -> Reproduction:
    from penstock.evaluation.throughput_pictures import weights_picture

    found: list[WeightsFound] = []
    for number, application in enumerate(file.applications, start=1):
        found += refit_weights(file, application, experiment.seeds)
        _done(call, number, file)
    columns = (
        Column("application", is_number=False), Column("model"), Column("paper: weights", is_number=False),
        Column("ours: mean of seeds", is_number=False), Column("curve apart to 24"), Column("to 128"),
    )  # fmt: skip
    rows = tuple(
        (
            one.application, str(one.model), _numbers(one.published), _numbers(one.found.mean(axis=0)),
            f"{one.apart_percent[:, 0].mean():.1f} %", f"{one.apart_percent[:, 1].mean():.1f} %",
        )
        for one in found
    )  # fmt: skip
    words = (
        f"{experiment.paper}: {experiment.title}, {experiment.seeds} seeds",
        f"Samples are drawn around each published curve at {', '.join(map(str, file.sizes))} machines, "
        f"{file.repeats} of each, and the same model is fitted to them.",
    )
    document = _head(experiment, call) | {"rows": [one.to_json() for one in found]}
    return Reproduction(document, words, (Grid(columns, rows),), lambda: weights_picture(found))


def _numbers(values: Any) -> str:
    return ", ".join(f"{value:.5f}".rstrip("0").rstrip(".") if value else "0" for value in values)


def _curves(experiment: ThroughputExperiment, file: ApplicationsFile, call: Call) -> Reproduction:
    from penstock.evaluation.throughput_pictures import curves_picture

    found: list[TrainedApplication] = []
    for number, application in enumerate(file.applications, start=1):
        found.append(train(file, application, np.random.default_rng(0)))
        _done(call, number, file)
    columns = (
        Column("application", is_number=False), Column("model paper"), Column("ours"),
        Column("validated at: paper", is_number=False), Column("ours", is_number=False), Column("model 1 off"),
        Column("model 2 off"),
    )  # fmt: skip
    rows, document_rows = [], []
    for one in found:
        curves = [curve_of(model, file.most) for model in one.models]
        off = [float(100.0 * np.abs(curve / one.truth - 1.0).mean()) for curve in curves]
        rows.append(
            (
                one.application.name, str(one.application.selected), str(one.selected),
                _sizes(one.application.validation), _sizes(one.validation_sizes), f"{off[0]:.1f} %", f"{off[1]:.1f} %",
            )
        )  # fmt: skip
        document_rows.append(
            {
                "application": one.application.name,
                "selected_model": {"published": one.application.selected, "ours": one.selected},
                "validation_sizes": {
                    "published": list(one.application.validation), "ours": list(one.validation_sizes),
                },
                "all_sizes_mape_percent": {"model1": off[0], "model2": off[1]},
                "weights": {f"model{i}": dict(model.parameters) for i, model in enumerate(one.models, start=1)},
                "truth": one.truth.tolist(), "model1": curves[0].tolist(), "model2": curves[1].tolist(),
            }
        )  # fmt: skip
    words = (
        f"{experiment.paper}: {experiment.title}",
        "The truth is the selected model's published curve, bent to what the text says of the measurements.",
    )
    # Curves of several draws would not be one picture: the first stands for them.
    document = _head(experiment, call) | {"seeds": 1, "rows": document_rows}
    return Reproduction(document, words, (Grid(columns, tuple(rows)),), lambda: curves_picture(found, file.most))


def _sizes(sizes: tuple[int, ...]) -> str:
    return ", ".join(map(str, sizes)) or "none"


def _errors(experiment: ThroughputExperiment, file: ApplicationsFile, call: Call) -> Reproduction:
    from penstock.evaluation.throughput_pictures import errors_picture

    found: list[ErrorsFound] = []
    for number, application in enumerate(file.applications, start=1):
        found.append(errors_of(file, application, experiment.seeds))
        _done(call, number, file)
    columns = (
        Column("application", is_number=False), Column("model paper"), Column("ours, seeds", is_number=False),
        Column("selected model"), Column("worst seed"), Column("mean value"), Column("all sizes"),
        Column("ensemble, all sizes"),
    )  # fmt: skip
    rows = tuple(
        (
            one.application, str(one.selected[0]),
            ", ".join(f"{one.selected[1].count(i)} x {i}" for i in (1, 2) if i in one.selected[1]),
            f"{np.mean(one.model):.1f} %", f"{max(one.model):.1f} %", f"{np.mean(one.mean_value):.1f} %",
            f"{np.mean(one.everywhere):.1f} %", f"{np.mean(one.ours):.1f} %",
        )
        for one in found
    )  # fmt: skip
    worst, value = (max(float(np.mean(getattr(one, name))) for one in found) for name in ("model", "mean_value"))
    words = (
        f"{experiment.paper}: {experiment.title}, {experiment.seeds} seeds",
        *(f"published: {name}: {figure:g} %" for name, figure in experiment.published.items()),
    )
    remarks = (
        f"The selected model is off by up to {worst:.1f} % (paper: 15.8 %), the mean value by {value:.1f} % (6.9 %).",
        "Mean absolute percentage errors at the sizes of training and validation, as in the paper; then at all sizes.",
    )
    document = _head(experiment, call) | {
        "published": experiment.published, "rows": [one.to_json() for one in found],
        "ours": {"selected_model_most": worst, "mean_value_most": value},
    }  # fmt: skip
    return Reproduction(document, words, (Grid(columns, rows),), lambda: errors_picture(found), remarks)
