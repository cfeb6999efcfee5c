# SPDX-License-Identifier: Apache-2.0
"""Whether the law of delay holds on Spark: throughput at several sizes and delays, the published law beside ours.

What the file of samples lacks is measured first, one run on a geo cluster for each measurement. It may be interrupted:
the next call goes on where it ended.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from penstock.errors import ClusterError, NotReadyError
from penstock.evaluation.delay_law_experiment import OPERATOR, Configuration, DelayLawExperiment, Variant
from penstock.evaluation.delay_samples import DelaySample, add_sample, rates_of, read_samples
from penstock.evaluation.live_run import run_live, settled, throughput, working_folder
from penstock.evaluation.reproduction import Call, Column, Grid, Reproduction
from penstock.performance.throughput import BatchTimeModel, PowerLawModel
from penstock.performance.throughput.curve_model import CurveModel
from penstock.records import Allocation, ThroughputSample
from penstock.units import format_seconds

LAWS = ("power-law", "batch-time")
"""The published law, and that of micro-batches."""


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
            "error_percent": {law: self.error_percent(law) for law in LAWS},
            "error_beyond_spread_percent": {law: self.beyond_percent(law) for law in LAWS},
        }  # fmt: skip


def reproduce_delay_law(experiment: DelayLawExperiment, call: Call) -> Reproduction:
    """Measure what is missing, then judge both laws."""
    from penstock.evaluation.delay_law_pictures import delay_law_picture

    path = call.folder / experiment.samples
    measure_missing(experiment, call, path)
    samples = read_samples(path)
    fitted = {variant.name: fitted_laws(experiment, variant, samples) for variant in experiment.variants}
    judged = [
        one for variant in experiment.variants for one in judge(experiment, variant, samples, fitted[variant.name])
    ]
    unseen = [one for one in judged if not one.is_calibration]
    worst = {law: max(one.beyond_percent(law) for one in unseen) for law in LAWS}
    document = {
        "experiment": call.name, "paper": experiment.paper, "machine": experiment.machine,
        "published": {"error_percent_at_most": experiment.published_error_percent},
        "bar_percent": experiment.bar_percent, "repeats": experiment.repeats,
        "worst_error_beyond_spread_percent": worst,
        "holds": {law: worst[law] <= experiment.bar_percent for law in LAWS},
        "parameters": {
            name: {law: {k: float(v) for k, v in model.parameters.items()} for law, model in models.items()}
            for name, models in fitted.items()
        },
        "rows": [one.to_json() for one in judged],
    }  # fmt: skip
    remarks = [
        "error: of each law against the mean of the measurements; spread: standard deviation of repeated measurements "
        "over their mean; c: the configuration calibrated the laws",
        *(
            f"{law}: at configurations that were not used for calibration, off by up to {worst[law]:.1f} % beyond the "
            f"spread ({'within' if worst[law] <= experiment.bar_percent else 'above'} the bar of "
            f"{experiment.bar_percent:g} %)"
            for law in LAWS
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


def measure_missing(experiment: DelayLawExperiment, call: Call, path: Path) -> None:
    """Measure what the file lacks: every configuration once, then every one again."""
    known = {sample.key for sample in read_samples(path)}
    turns = [
        (variant, configuration, repeat)
        for repeat in range(1, experiment.repeats + 1)
        for variant in experiment.variants
        for configuration in experiment.configurations
    ]
    missing = [
        turn for turn in turns if (turn[0].name, turn[1].executors, round(turn[1].round_trip, 6), turn[2]) not in known
    ]
    if not missing:
        return
    folder, began = working_folder(call.name), time.monotonic()
    for number, (variant, configuration, repeat) in enumerate(missing):
        sample = _measure(experiment, variant, configuration, repeat, folder / f"{number + 1}")
        add_sample(path, sample)
        done = number + 1
        left = (time.monotonic() - began) / done * (len(missing) - done)
        if call.say is not None:
            call.say(
                f"{done} of {len(missing)}: {variant.name}, {configuration}: {sample.records_per_second:,.0f} "
                f"records/s over {sample.batches} batches; about {format_seconds(left)} left"
            )
        if call.progress is not None:
            call.progress(done / len(missing))


def _measure(
    experiment: DelayLawExperiment, variant: Variant, configuration: Configuration, repeat: int, folder: Path
) -> DelaySample:
    run = run_live(experiment.settings(variant, configuration), folder)
    seen = settled(run.history.observations.get(OPERATOR, ()), configuration.executors, (1.0,))
    found = throughput(seen, experiment.warm_up_batches)
    if found is None:
        raise ClusterError(
            f"{variant.name}, {configuration}: too few batches ended within {experiment.longest:g} s; raise `longest`, "
            "or lower `rows_per_batch`",
            target=str(folder),
        )
    return DelaySample(
        variant.name, configuration.executors, configuration.round_trip, repeat, found.mean, found.batches,
        run.load_average, time.time(),
    )  # fmt: skip


def fitted_laws(
    experiment: DelayLawExperiment, variant: Variant, samples: Sequence[DelaySample]
) -> dict[str, CurveModel]:
    """Both laws, fitted to the samples at the configurations for calibration."""
    delays = {one.allocation: one.round_trip for one in experiment.configurations}

    def delay_of(allocation: Allocation) -> float:
        return delays[allocation]

    training = [
        ThroughputSample(one.allocation, rate)
        for one in experiment.calibration
        for rate in rates_of(samples, variant.name, one.executors, one.round_trip)
    ]
    if not training:
        raise NotReadyError(f"{variant.name}: no configuration for calibration was measured")
    laws: tuple[CurveModel, ...] = (PowerLawModel(delay_of), BatchTimeModel(delay_of, cap=variant.rows_per_batch))
    return {law.name: law.fit(training) for law in laws}


def judge(
    experiment: DelayLawExperiment, variant: Variant, samples: Sequence[DelaySample], laws: dict[str, CurveModel]
) -> list[JudgedConfiguration]:
    """Every configuration that was measured, with what both laws say of it."""
    found = []
    for one in experiment.configurations:
        rates = rates_of(samples, variant.name, one.executors, one.round_trip)
        if rates:
            predicted = {name: law.predict(one.allocation).records_per_second for name, law in laws.items()}
            found.append(JudgedConfiguration(variant.name, one, one in experiment.calibration, tuple(rates), predicted))
    return found


def _grid(judged: Sequence[JudgedConfiguration]) -> Grid:
    columns = (
        Column("variant", is_number=False), Column("", is_number=False), Column("executors"), Column("ND ms"),
        Column("records/s"), Column("spread"), Column("power-law"), Column("error"), Column("batch-time"),
        Column("error"),
    )  # fmt: skip
    rows: list[tuple[str, ...] | None] = []
    for one in judged:
        if rows and rows[-1] is not None and rows[-1][0] != one.variant:
            rows.append(None)
        laws = [text for law in LAWS for text in (f"{one.predicted[law]:,.0f}", f"{one.error_percent(law):.1f} %")]
        spread = "-" if one.spread_percent is None else f"{one.spread_percent:.1f} %"
        rows.append(
            (
                one.variant, "c" if one.is_calibration else "", str(one.configuration.executors),
                f"{1000.0 * one.configuration.round_trip:g}", f"{one.mean:,.0f}", spread, *laws,
            )
        )  # fmt: skip
    return Grid(columns, tuple(rows))
