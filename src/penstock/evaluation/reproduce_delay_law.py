# SPDX-License-Identifier: Apache-2.0
"""Whether the law of delay holds on Spark: throughput at several sizes and delays, the published law beside ours.

What the file of samples lacks is measured first: on one geo cluster for each application, whose executors and delays
change while it runs. It may be interrupted: the next call goes on where it ended.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from penstock.errors import NotReadyError
from penstock.evaluation.delay_law_experiment import Configuration, NamedVariant, PlacedExperiment
from penstock.evaluation.delay_samples import DelaySample, add_sample, rates_of, read_samples, set_aside
from penstock.evaluation.live_run import geo_working_folder
from penstock.evaluation.placed_run import measure_live
from penstock.evaluation.reproduction import Call, Column, Grid, Reproduction
from penstock.performance.throughput.curve_model import CurveModel
from penstock.records import ThroughputSample


@dataclass(frozen=True, slots=True)
class JudgedConfiguration:
    """What was measured at one configuration, and what each law says of it."""

    variant: str
    configuration: Configuration
    is_calibration: bool
    rates: tuple[float, ...]
    predicted: dict[str, float]
    """By law."""

    @property
    def mean(self) -> float:
        """Of the measurements."""
        return fmean(self.rates)

    @property
    def spread_percent(self) -> float | None:
        """The standard deviation of repeated measurements over their mean; None: there was one only."""
        return 100.0 * float(np.std(self.rates, ddof=1)) / self.mean if len(self.rates) > 1 else None

    def error_percent(self, law: str) -> float:
        """How far the law is from the mean."""
        return 100.0 * abs(self.predicted[law] - self.mean) / self.mean

    def beyond_percent(self, law: str) -> float:
        """The part of the error that the spread of repeated measurement does not explain."""
        return max(0.0, self.error_percent(law) - (self.spread_percent or 0.0))

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "variant": self.variant, "executors": self.configuration.executors,
            "round_trip_seconds": self.configuration.round_trip, "is_calibration": self.is_calibration,
            "measured": list(self.rates), "mean": self.mean, "spread_percent": self.spread_percent,
            "predicted": self.predicted,
            "error_percent": {law: self.error_percent(law) for law in self.predicted},
            "error_beyond_spread_percent": {law: self.beyond_percent(law) for law in self.predicted},
        }  # fmt: skip


def reproduce_delay_law(experiment: PlacedExperiment, call: Call) -> Reproduction:
    """Measure what is missing, then judge the laws."""
    from penstock.evaluation.delay_law_pictures import delay_law_picture

    path = call.folder / experiment.samples
    measure_missing(experiment, call, path)
    samples = read_samples(path)
    fitted = {variant.name: fitted_laws(experiment, variant, samples) for variant in experiment.variants}
    judged = [
        one for variant in experiment.variants for one in judge(experiment, variant, samples, fitted[variant.name])
    ]
    unseen = [one for one in judged if not one.is_calibration]
    laws = list(judged[0].predicted)
    worst = {law: max(one.beyond_percent(law) for one in unseen) for law in laws}
    worst_of = {
        law: {
            name: max(one.beyond_percent(law) for one in unseen if one.variant == name)
            for name in dict.fromkeys(one.variant for one in unseen)
        }
        for law in laws
    }
    document = {
        "experiment": call.name, "paper": experiment.paper, "machine": experiment.machine,
        "published": {"error_percent_at_most": experiment.published_error_percent},
        "bar_percent": experiment.bar_percent, "repeats": experiment.repeats,
        "worst_error_beyond_spread_percent": worst, "worst_by_variant_percent": worst_of,
        "holds": {law: worst[law] <= experiment.bar_percent for law in laws},
        "parameters": {
            name: {law: {k: float(v) for k, v in model.parameters.items()} for law, model in models.items()}
            for name, models in fitted.items()
        },
        "rows": [one.to_json() for one in judged],
    }  # fmt: skip
    remarks = [
        "n: executors; error: of each law against the mean of the measurements; spread: standard deviation of repeated "
        "measurements over their mean; c: the configuration calibrated the laws",
        *(
            f"{law}: at configurations that were not used for calibration, off by up to {worst[law]:.1f} % beyond the "
            f"spread ({'within' if worst[law] <= experiment.bar_percent else 'above'} the bar of "
            f"{experiment.bar_percent:g} %): " + ", ".join(f"{name} {off:.1f} %" for name, off in worst_of[law].items())
            for law in laws
        ),
    ]
    words = (
        f"{experiment.paper}: {experiment.title}",
        f"measured: {experiment.machine}; {len(samples)} samples in {path}",
        f"published: at most {experiment.published_error_percent:g} % off once it is fully calibrated",
    )
    return Reproduction(
        document, words, (_grid(judged),), lambda: delay_law_picture(experiment, judged, fitted), tuple(remarks)
    )


def measure_missing(experiment: PlacedExperiment, call: Call, path: Path) -> None:
    """Measure what the file lacks, one application after the other, and keep each measurement at once."""
    known = {sample.key for sample in read_samples(path)}
    begun = experiment.begun(known)
    jobs = list(experiment.jobs({key for key in known if key[0] not in begun}))
    total, done = sum(len(keys) for keys, _ in jobs), 0
    folder = geo_working_folder(call.name) if jobs else path.parent
    if begun:  # only where what comes instead can be measured
        aside = set_aside(path, begun)
        if call.say is not None:
            call.say(f"{', '.join(sorted(begun))}: measured anew as a whole; what there was is in {aside.name}")
    for number, (keys, job) in enumerate(jobs, start=1):
        if call.say is not None:
            call.say(f"application {number} of {len(jobs)}: {job.operator['app']}, {len(keys)} measurements")
        for taken in measure_live(job, folder / f"{number}"):
            variant, executors, round_trip, repeat = keys[taken.place]
            add_sample(
                path,
                DelaySample(
                    variant, executors, round_trip, repeat, taken.records_per_second, taken.batches,
                    taken.load_average, time.time(), taken.steal,
                ),
            )  # fmt: skip
            done += 1
            if call.say is not None:
                call.say(
                    f"{done} of {total}: {variant}, {executors} x {1000.0 * round_trip:g} ms: "
                    f"{taken.records_per_second:,.0f} records/s over {taken.batches} batches"
                )
            if call.progress is not None:
                call.progress(done / total)


def fitted_laws(
    experiment: PlacedExperiment, variant: NamedVariant, samples: Sequence[DelaySample]
) -> dict[str, CurveModel]:
    """The laws, fitted to the samples at the configurations for calibration."""
    delays = {one.allocation: one.round_trip for one in experiment.configurations(variant)}
    training = _training(experiment.calibration, variant, samples)
    return {law.name: law.fit(training) for law in experiment.laws(variant, delays.__getitem__)}


def _training(
    configurations: Sequence[Configuration], variant: NamedVariant, samples: Sequence[DelaySample]
) -> list[ThroughputSample]:
    found = [
        ThroughputSample(one.allocation, rate)
        for one in configurations
        for rate in rates_of(samples, variant.name, one.executors, one.round_trip)
    ]
    if not found:
        raise NotReadyError(f"{variant.name}: no configuration for calibration was measured")
    return found


def judge(
    experiment: PlacedExperiment, variant: NamedVariant, samples: Sequence[DelaySample], laws: dict[str, CurveModel]
) -> list[JudgedConfiguration]:
    """Every configuration that was measured, with what the laws say of it."""
    found = []
    for one in experiment.configurations(variant):
        rates = rates_of(samples, variant.name, one.executors, one.round_trip)
        if rates:
            predicted = {name: law.predict(one.allocation).records_per_second for name, law in laws.items()}
            found.append(JudgedConfiguration(variant.name, one, one in experiment.calibration, tuple(rates), predicted))
    return found


def _grid(judged: Sequence[JudgedConfiguration]) -> Grid:
    laws = list(judged[0].predicted)
    columns = (
        Column("variant", is_number=False), Column("", is_number=False), Column("n"), Column("ND ms"),
        Column("records/s"), Column("spread"), *(Column(text) for law in laws for text in (law, "error")),
    )  # fmt: skip
    rows: list[tuple[str, ...] | None] = []
    for one in judged:
        if rows and rows[-1] is not None and rows[-1][0] != one.variant:
            rows.append(None)
        said = [text for law in laws for text in (f"{one.predicted[law]:,.0f}", f"{one.error_percent(law):.1f} %")]
        spread = "-" if one.spread_percent is None else f"{one.spread_percent:.1f} %"
        rows.append(
            (
                one.variant, "c" if one.is_calibration else "", str(one.configuration.executors),
                f"{1000.0 * one.configuration.round_trip:g}", f"{one.mean:,.0f}", spread, *said,
            )
        )  # fmt: skip
    return Grid(columns, tuple(rows))
