# SPDX-License-Identifier: Apache-2.0
"""Measured throughputs, predicted at sizes never trained on (Imai et al., Sec. 5, on real samples).

The sizes that an application is trained on are chosen by the samples of the other applications, as in the paper, where
three benchmarks choose them for all. So nothing of what is judged was seen before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Any

import numpy as np

from penstock.evaluation.capacity_plan import fit_capacity
from penstock.evaluation.measured_experiment import MeasuredExperiment
from penstock.evaluation.reproduction import Call, Column, Grid, Reproduction
from penstock.evaluation.trained_applications import PAPER_MODELS, mape, mean_mape, paper_models
from penstock.performance.sample_sizes import BenchmarkSamples, search_sizes
from penstock.performance.throughput import select
from penstock.ports import ThroughputModel
from penstock.records import ThroughputSample


@dataclass(frozen=True, eq=False)
class JudgedApplication:
    """An application whose other sizes were predicted from a few.

    Attributes
    ----------
    name, samples, trained_on
        Its name, all its samples, and the sizes that models were trained on.
    model, paper_model
        Ours, the best of all models at sizes left out of training; and of the paper's two the one that fits best.
    paper_choice
        The paper's number of the latter.
    coverage
        That our intervals were asked for.
    """

    name: str
    samples: tuple[ThroughputSample, ...]
    trained_on: tuple[int, ...]
    model: ThroughputModel
    paper_model: ThroughputModel
    paper_choice: int
    coverage: float

    @property
    def unseen(self) -> tuple[ThroughputSample, ...]:
        """The samples at sizes that no model was trained on."""
        return tuple(s for s in self.samples if s.allocation.executors not in self.trained_on)

    def error_percent(self, *, of_paper: bool = False, executors: int | None = None) -> float:
        """The mean absolute percentage error (Eq. 10) at unseen sizes, or at one of them."""
        model = self.paper_model if of_paper else self.model
        judged = [s for s in self.unseen if executors is None or s.allocation.executors == executors]
        return mape(judged, [model.predict(s.allocation).records_per_second for s in judged])

    @property
    def inside_share(self) -> float:
        """How many of the unseen samples lie in our interval, from 0 to 1."""
        pairs = [(s, self.model.predict(s.allocation, self.coverage)) for s in self.unseen]
        return fmean(p.low <= s.records_per_second <= p.high for s, p in pairs)

    @property
    def spread_percent(self) -> float | None:
        """The mean over sizes of the standard deviation over the mean; None: every size has one sample only."""
        spreads = [np.std(rates, ddof=1) / np.mean(rates) for rates in by_size(self.samples).values() if len(rates) > 1]
        return 100.0 * float(np.mean(spreads)) if spreads else None

    @property
    def efficiency(self) -> float:
        """The throughput of the largest size over what it would be in proportion to the smallest."""
        rates = {size: fmean(of) for size, of in by_size(self.samples).items()}
        least, most = min(rates), max(rates)
        return rates[most] / rates[least] / (most / least)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        sizes = by_size(self.samples)
        return {
            "application": self.name, "trained_on": list(self.trained_on), "model": self.model.name,
            "paper_model": self.paper_choice, "mape_percent": self.error_percent(),
            "paper_model_mape_percent": self.error_percent(of_paper=True),
            "mape_percent_by_size": {
                str(size): self.error_percent(executors=size) for size in sizes if size not in self.trained_on
            },
            "mean_value_mape_percent": mean_mape(self.unseen), "inside_interval": self.inside_share,
            "spread_percent": self.spread_percent, "efficiency": self.efficiency,
            "throughput": {str(size): fmean(rates) for size, rates in sizes.items()},
        }  # fmt: skip


def by_size(samples: Sequence[ThroughputSample]) -> dict[int, list[float]]:
    """The measured rates by number of executors, the smallest first."""
    found: dict[int, list[float]] = {}
    for sample in sorted(samples, key=lambda s: s.allocation.executors):
        found.setdefault(sample.allocation.executors, []).append(sample.records_per_second)
    return found


def judge(
    experiment: MeasuredExperiment, samples: Mapping[str, Sequence[ThroughputSample]], name: str
) -> JudgedApplication:
    """Train on the sizes that the other applications choose, and keep the rest to judge by."""
    others = {other: of for other, of in samples.items() if other != name}
    best = search_sizes(BenchmarkSamples.of(others), experiment.numbers, experiment.largest).best[0]
    return judge_trained_on(experiment, samples[name], name, best.sizes)


def judge_trained_on(
    experiment: MeasuredExperiment, samples: Sequence[ThroughputSample], name: str, sizes: tuple[int, ...]
) -> JudgedApplication:
    """Train on these sizes, and keep the rest to judge by."""
    training = [s for s in samples if s.allocation.executors in sizes]
    most = max(s.allocation.executors for s in samples)
    ours = fit_capacity(training, most=most, coverage=experiment.coverage)
    # As in the paper where there is nothing to validate on: the training error decides.
    theirs = select(paper_models(), training, max_executors=most, without_validation="training")
    return JudgedApplication(
        name, tuple(samples), sizes, ours.model, theirs.model, PAPER_MODELS[theirs.chosen], experiment.coverage
    )


def judge_every_choice(
    experiment: MeasuredExperiment, samples: Sequence[ThroughputSample], name: str
) -> list[JudgedApplication]:
    """Train on every choice of so many sizes in turn: four times the predictions, and none of them was chosen."""
    sizes = [size for size in by_size(samples) if experiment.largest is None or size <= experiment.largest]
    choices = [choice for number in experiment.numbers for choice in combinations(sizes, number)]
    return [judge_trained_on(experiment, samples, name, choice) for choice in choices]


def inside_share(judged: Sequence[JudgedApplication]) -> float:
    """How many of all unseen samples lie in their intervals, from 0 to 1."""
    return sum(one.inside_share * len(one.unseen) for one in judged) / sum(len(one.unseen) for one in judged)


def reproduce_measured(experiment: MeasuredExperiment, call: Call) -> Reproduction:
    """Judge every application of the kept samples."""
    from penstock.evaluation.measured_pictures import measured_picture

    samples = experiment.load(call.folder)
    found, every = [], dict[str, list[JudgedApplication]]()
    for number, name in enumerate(samples, start=1):
        found.append(judge(experiment, samples, name))
        every[name] = judge_every_choice(experiment, samples[name], name)
        if call.progress is not None:
            call.progress(number / len(samples))
    worst, theirs = (max(one.error_percent(of_paper=paper) for one in found) for paper in (False, True))
    unseen, inside = sum(len(one.unseen) for one in found), inside_share(found)
    errors = {name: fmean(one.error_percent() for one in of) for name, of in every.items()}
    trained = [one for of in every.values() for one in of]
    document = {
        "experiment": call.name, "paper": experiment.paper, "machine": experiment.machine,
        "published": experiment.published, "coverage": experiment.coverage,
        "ours": {
            "worst_mape_percent": worst, "worst_mape_percent_of_paper_models": theirs,
            "mean_mape_percent": fmean(one.error_percent() for one in found), "inside_interval": inside,
            "unseen_samples": unseen,
        },
        "every_choice_of_sizes": {
            "worst_mape_percent": max(errors.values()), "mean_mape_percent": fmean(errors.values()),
            "inside_interval": inside_share(trained), "unseen_samples": sum(len(one.unseen) for one in trained),
            "mape_percent": errors,
        },
        "rows": [one.to_json() for one in found],
    }  # fmt: skip
    words = (
        f"{experiment.paper}: {experiment.title}",
        f"measured: {experiment.machine}; {sum(map(len, samples.values()))} samples of {len(samples)} applications",
        *(f"published: {name}: {figure:g} %" for name, figure in experiment.published.items()),
    )
    remarks = (
        "error: of our model, of the paper's, and of the mean of the samples themselves, at sizes never trained on; "
        "inside: samples there in our interval; spread: standard deviation of the samples of a size over their mean.",
        f"At sizes never trained on, our choice is off by up to {worst:.1f} %, models 1 and 2 by up to {theirs:.1f} %.",
        f"{inside:.0%} of {unseen} samples there lie in the {experiment.coverage:.0%} interval.".replace("%", " %"),
        f"Over every choice of sizes to train on: off by {fmean(errors.values()):.1f} % on average and by "
        f"{max(errors.values()):.1f} % for the worst application, and {100.0 * inside_share(trained):.0f} % of "
        f"{sum(len(one.unseen) for one in trained)} samples inside.",
    )
    return Reproduction(document, words, (_grid(found),), lambda: measured_picture(found, experiment), remarks)


def _grid(found: Sequence[JudgedApplication]) -> Grid:
    columns = (
        Column("application", is_number=False), Column("trained", is_number=False), Column("ours", is_number=False),
        Column("error"), Column("paper"), Column("error"), Column("mean"), Column("inside"), Column("spread"),
    )  # fmt: skip
    return Grid(
        columns,
        tuple(
            (
                one.name, ", ".join(map(str, one.trained_on)), one.model.name, f"{one.error_percent():.1f} %",
                str(one.paper_choice), f"{one.error_percent(of_paper=True):.1f} %", f"{mean_mape(one.unseen):.1f} %",
                f"{100.0 * one.inside_share:.0f} %",
                "-" if one.spread_percent is None else f"{one.spread_percent:.1f} %",
            )
            for one in found
        ),
    )  # fmt: skip
