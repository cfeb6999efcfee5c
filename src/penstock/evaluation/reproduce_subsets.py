# SPDX-License-Identifier: Apache-2.0
"""The choice of sizes to measure, done again: the best sets on samples of stated curves, the published ones beside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.evaluation.reproduction import Call, Column, Grid, Reproduction
from penstock.evaluation.throughput_experiment import PublishedSet, SubsetsExperiment, draw_samples
from penstock.performance.sample_sizes import BenchmarkSamples, SizeSet, search_all
from penstock.performance.sample_sizes.subset_scores import score_subsets


@dataclass(frozen=True, slots=True)
class SubsetRow:
    """A row of the table.

    Attributes
    ----------
    published
        The paper's set.
    best
        The best set for the first seed.
    errors
        The error of the best set, for each seed.
    published_errors
        What the published set would err by on our samples, for each seed.
    """

    published: PublishedSet
    best: SizeSet
    errors: tuple[float, ...]
    published_errors: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "max_train": self.published.largest,
            "published": {"sizes": list(self.published.sizes), "rmse": self.published.rmse},
            "ours": {
                "sizes": list(self.best.sizes), "rmse": self.best.error, "rmse_mean": float(np.mean(self.errors)),
            },
            "published_set_here": {"rmse_mean": float(np.mean(self.published_errors))},
        }  # fmt: skip


def reproduce_subsets(experiment: SubsetsExperiment, call: Call) -> Reproduction:
    """Search for every largest size and every seed."""
    from penstock.evaluation.throughput_pictures import subsets_picture

    found: list[list[tuple[SizeSet, float]]] = [[] for _ in experiment.published]
    tried = 0
    for seed in range(experiment.seeds):
        samples = BenchmarkSamples.of(_drawn(experiment, seed))
        search = search_all(samples, experiment.numbers, max(row.largest for row in experiment.published))
        tried = search.tried
        for row, published in zip(found, experiment.published, strict=True):
            best = search.within(published.largest)
            assert best is not None
            places = np.searchsorted(samples.sizes, published.sizes)
            row.append((best, float(score_subsets(samples, places[None, :])[0])))
        if call.progress is not None:
            call.progress((seed + 1) / experiment.seeds)
    rows = [
        SubsetRow(published, row[0][0], tuple(best.error for best, _ in row), tuple(error for _, error in row))
        for published, row in zip(experiment.published, found, strict=True)
    ]
    document = {
        "experiment": call.name, "paper": experiment.paper, "seeds": experiment.seeds, "sets_tried": tried,
        "noise": experiment.noise, "applications": [one.model_dump() for one in experiment.applications],
        "rows": [row.to_json() for row in rows],
    }  # fmt: skip
    words = (
        f"{experiment.paper}: {experiment.title}, {experiment.seeds} seeds, {tried} sets tried for each",
        "The paper's samples are not published: ours are drawn around stated curves, so compare the pattern alone.",
    )
    return Reproduction(document, words, (_grid(rows),), lambda: subsets_picture(rows))


def _drawn(experiment: SubsetsExperiment, seed: int) -> dict[str, Any]:
    generator = np.random.default_rng(seed)
    most = max(experiment.sizes)
    return {
        one.name: draw_samples(one.throughput(most), experiment.sizes, experiment.repeats, experiment.noise, generator)
        for one in experiment.applications
    }


def _grid(rows: list[SubsetRow]) -> Grid:
    columns = (
        Column("M_train"), Column("paper: best set", is_number=False), Column("RMSE"),
        Column("ours, first seed", is_number=False), Column("RMSE"), Column("mean of seeds"),
        Column("paper's set on ours"),
    )  # fmt: skip
    return Grid(
        columns,
        tuple(
            (
                str(row.published.largest), _text(row.published.sizes), f"{row.published.rmse:.4f}",
                _text(row.best.sizes), f"{row.best.error:.4f}", f"{np.mean(row.errors):.4f}",
                f"{np.mean(row.published_errors):.4f}",
            )
            for row in rows
        ),
    )  # fmt: skip


def _text(sizes: tuple[int, ...]) -> str:
    return "{" + ", ".join(map(str, sizes)) + "}"
