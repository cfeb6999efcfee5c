# SPDX-License-Identifier: Apache-2.0
"""Capacity planning from samples of throughput: which model fits, what each size sustains, and the size for a rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from penstock.errors import ConfigurationError, NotReadyError
from penstock.performance.throughput import MODELS, Selection, model_named, select
from penstock.ports import FloatArray, ThroughputModel
from penstock.records import Allocation, ThroughputPrediction, ThroughputSample

BEYOND = 5
"""Sizes are planned up to this many times the largest sampled one: the paper goes from 24 to 128 machines."""
FEWEST_SAMPLES, FEWEST_SIZES = 3, 2
_EXACT_TO, _STEP = 512, 1.01
MOST_EXECUTORS = 1_000_000
MOST_SAMPLES = 1_000
"""Models keep this many."""
_CLEAR_FALL = 0.1


@dataclass(frozen=True, eq=False)
class ThroughputTable:
    """What 1, 2, 3, ... executors sustain, by a model.

    Attributes
    ----------
    expected, low, high
        The prediction and its interval, an entry for each number of executors.
    """

    expected: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, model: ThroughputModel, most: int, coverage: float = 0.9, cpu_share: float = 1.0) -> ThroughputTable:
        """Ask a model for all sizes up to `most`.

        Up to 512 executors each is asked for. Beyond, sizes are asked for in steps of 1 %, with straight lines between.
        """
        sizes = list(range(1, min(most, _EXACT_TO) + 1))
        while sizes[-1] < most:
            sizes.append(min(most, math.ceil(sizes[-1] * _STEP)))
        found = [model.predict(Allocation(size, cpu_share), coverage) for size in sizes]
        every = np.arange(1.0, most + 1.0)
        columns = [[p.records_per_second for p in found], [p.low for p in found], [p.high for p in found]]
        expected, low, high = (np.interp(every, sizes, column) for column in columns)
        # A lower end may fall where the model is less sure of larger sizes; a planner goes by the fewest executors.
        return cls(expected, np.maximum.accumulate(low), high)


@dataclass(frozen=True, eq=False)
class CapacityFit:
    """Models trained on samples, and the one that was chosen.

    Attributes
    ----------
    selection
        What all models were worth.
    model
        The chosen one, trained on all samples.
    samples, validation
        What models were trained on, and what they were judged by in addition.
    most
        The most executors that are planned with.
    coverage
        Of intervals.
    cpu_share
        That executors are to have.
    notes
        What was assumed.
    """

    selection: Selection
    model: ThroughputModel
    samples: tuple[ThroughputSample, ...]
    validation: tuple[ThroughputSample, ...]
    most: int
    coverage: float
    cpu_share: float
    notes: tuple[str, ...]

    def predict(self, executors: int) -> ThroughputPrediction:
        """What so many executors sustain."""
        return self.model.predict(Allocation(executors, self.cpu_share), self.coverage)

    @property
    def wanted_sizes(self) -> tuple[int, ...]:
        """Where a measurement would tell the models apart, but for sizes that validation samples are of already."""
        measured = {sample.allocation.executors for sample in self.validation}
        return tuple(size for size in self.selection.validation_sizes if size not in measured)

    @cached_property
    def table(self) -> ThroughputTable:
        """What all sizes sustain."""
        return ThroughputTable.of(self.model, self.most, self.coverage, self.cpu_share)

    def curve(self, points: int = 200) -> list[dict[str, Any]]:
        """At most about so many sizes with their predictions, close together where sizes are small."""
        sizes = np.unique(np.round(np.geomspace(1, self.most, points)).astype(int))
        if self.most <= points:
            sizes = np.arange(1, self.most + 1)
        expected, low, high = self.table.expected, self.table.low, self.table.high
        return [
            {
                "executors": int(m), "throughput": float(expected[m - 1]), "low": float(low[m - 1]),
                "high": float(high[m - 1]),
            }
            for m in sizes
        ]  # fmt: skip


def fit_capacity(
    samples: Sequence[ThroughputSample],
    validation: Sequence[ThroughputSample] = (),
    *,
    models: Sequence[str] = (),
    most: int | None = None,
    coverage: float = 0.9,
    cpu_share: float | None = None,
    threshold: float = 0.10,
) -> CapacityFit:
    """Train models on samples and choose the best.

    It is the one with the least error at validation samples; where there are none, at each size when trained on the
    others. The chosen model is then trained on all samples.

    Parameters
    ----------
    samples, validation
        Measurements to train and to judge on.
    models
        Names of models to choose from; default: all.
    most
        The most executors to plan with; default: five times the largest sampled.
    coverage
        Of intervals.
    cpu_share
        That executors are to have; default: the largest sampled.
    threshold
        How far models must be apart for a size to be worth a measurement.

    Raises
    ------
    ConfigurationError
        There are too few samples or sizes, or an argument is wrong; all mistakes at once.
    """
    faults = _faults(samples, models, most, coverage)
    if faults:
        raise ConfigurationError.of_all("predict", faults)
    chosen = [model_named(name) for name in models] if models else list(MODELS.values())
    largest = max(sample.allocation.executors for sample in (*samples, *validation))
    until = min(BEYOND * largest, MOST_EXECUTORS) if most is None else most
    given, samples, validation = len(samples) + len(validation), evenly_kept(samples), evenly_kept(validation)
    try:
        selection = select(chosen, samples, validation, max_executors=until, threshold=threshold)
        model = selection.model.fit([*samples, *validation]) if validation else selection.model
    except NotReadyError as fault:
        raise ConfigurationError(f"samples: {fault}", field="samples") from fault
    shares = sorted({sample.allocation.cpu_share for sample in samples})
    notes = [f"{name} was left out: {reason}" for name, reason in selection.refused.items()]
    notes += list(getattr(model, "notes", ()))
    if given > len(samples) + len(validation):
        notes.append(f"of {given:,} samples, {len(samples) + len(validation):,} are used: the last ones of each size")
    if validation and {s.allocation for s in validation} <= {s.allocation for s in samples}:
        notes.append("validation samples are of sizes that were trained on: they do not show what models do elsewhere")
    notes += _falls([*samples, *validation])
    if cpu_share is None and len(shares) > 1:
        notes.append(f"samples have several CPU shares; executors are planned with the largest, {shares[-1]:g}")
    if cpu_share is not None and not shares[0] <= cpu_share <= shares[-1]:
        had = f"{shares[0]:g}" if len(shares) == 1 else f"{shares[0]:g} to {shares[-1]:g}"
        notes.append(f"no sample has a CPU share of {cpu_share:g} (they have {had}); what it does is extrapolated")
    if until > 2 * BEYOND * largest:
        notes.append(f"sizes up to {until} are far beyond the largest sample ({largest}); intervals there are a guess")
    return CapacityFit(
        selection, model, tuple(samples), tuple(validation), until, coverage,
        shares[-1] if cpu_share is None else cpu_share, tuple(notes),
    )  # fmt: skip


def evenly_kept(samples: Sequence[ThroughputSample], most: int = MOST_SAMPLES) -> tuple[ThroughputSample, ...]:
    """At most so many samples, the last ones of each size, as evenly over the sizes as they allow.

    A model keeps its newest samples only. In a file that is sorted by size these are those of the largest sizes.
    """
    if len(samples) <= most:
        return tuple(samples)
    places: dict[Allocation, list[int]] = {}
    for place, sample in enumerate(samples):
        places.setdefault(sample.allocation, []).append(place)
    kept: list[int] = []
    for number, own in enumerate(sorted(places.values(), key=len)):  # what a size with few leaves goes to the others
        kept += own[-max(1, (most - len(kept)) // (len(places) - number)) :]
    return tuple(samples[place] for place in sorted(kept))


def _falls(samples: Sequence[ThroughputSample]) -> list[str]:
    """Say where more executors sustained clearly less: models that only rise are then far off."""
    by_size: dict[tuple[float, int], list[float]] = {}
    for sample in samples:
        key = (sample.allocation.cpu_share, sample.allocation.executors)
        by_size.setdefault(key, []).append(sample.records_per_second)
    means = [(share, size, float(np.mean(rates))) for (share, size), rates in sorted(by_size.items())]
    for (share, size, rate), (other, larger, less) in pairwise(means):
        if share == other and less < (1.0 - _CLEAR_FALL) * rate:
            return [
                f"{larger} executors sustained less than {size} ({less:.4g} against {rate:.4g}): measure both again; "
                "if it is so, plan with smaller sizes only"
            ]
    return []


def _faults(samples: Sequence[ThroughputSample], models: Sequence[str], most: int | None, coverage: float) -> list[str]:
    sizes = {sample.allocation for sample in samples}
    faults = []
    if len(samples) < FEWEST_SAMPLES:
        faults.append(f"samples: there are {len(samples)}, and {FEWEST_SAMPLES} are needed; measure more")
    elif len(sizes) < FEWEST_SIZES:
        faults.append(
            f"samples: all are of one size ({next(iter(sizes)).executors} executors), which says nothing of others; "
            "measure another size"
        )
    if len(sizes) > MOST_SAMPLES:
        faults.append(f"samples: there are {len(sizes):,} different sizes; give at most {MOST_SAMPLES:,}")
    twice = sorted({name for name in models if models.count(name) > 1})
    if twice:
        faults.append(f"models: {', '.join(twice)} twice; name each once")
    strange = [name for name in models if name not in MODELS]
    if strange:
        faults.append(f"models: unknown {', '.join(strange)}; known: {', '.join(MODELS)}")
    if most is not None and not 1 <= most <= MOST_EXECUTORS:
        faults.append(f"max: {most} must be from 1 to {MOST_EXECUTORS:,} executors")
    if not 0.0 < coverage < 1.0:
        faults.append(f"coverage: {coverage} must be between 0 and 1; write 0.9 for 90 %")
    return faults


@dataclass(frozen=True, slots=True)
class SizeAnswer:
    """The executors for a rate.

    Attributes
    ----------
    rate
        What is to be sustained.
    executors
        The fewest that will do; the most there are, where none will.
    prediction
        What these sustain.
    is_enough
        Whether they will do.
    is_by_interval
        Whether the interval's lower end was to reach the rate, and not the expected throughput alone.
    expected_executors
        The fewest whose expected throughput reaches the rate; None: none does.
    smaller
        What one executor less sustains; None where there is none.
    """

    rate: float
    executors: int
    prediction: ThroughputPrediction
    is_enough: bool
    is_by_interval: bool
    expected_executors: int | None
    smaller: ThroughputPrediction | None

    @property
    def smaller_falls_short_by(self) -> float | None:
        """What one executor less lacks, as a part of the rate; None where there is none, or it lacks nothing."""
        if self.smaller is None:
            return None
        reached = self.smaller.low if self.is_by_interval else self.smaller.records_per_second
        return (self.rate - reached) / self.rate


def size_for(fit: CapacityFit, rate: float, *, by_interval: bool = True) -> SizeAnswer:
    """Return the fewest executors that sustain a rate (Imai et al., Eq. 11; the interval's lower end is our margin)."""
    if not (math.isfinite(rate) and rate > 0.0):
        raise ConfigurationError(f"rate: {rate} must be a finite number above 0", field="rate")

    def reached(executors: int, interval: bool) -> float:
        found = fit.predict(executors)
        return found.low if interval else found.records_per_second

    def least(interval: bool) -> int | None:
        table = fit.table.low if interval else fit.table.expected
        place = int(np.searchsorted(np.maximum.accumulate(table), rate, side="left"))
        if place >= len(table):
            return None
        # Between sizes that the model was asked for the table is a straight line: ask it about the neighbours.
        while place > 0 and reached(place, interval) >= rate:
            place -= 1
        while place < len(table) and reached(place + 1, interval) < rate:
            place += 1
        return place + 1 if place < len(table) else None

    found, expected = least(by_interval), least(False)
    executors = fit.most if found is None else found
    return SizeAnswer(
        rate, executors, fit.predict(executors), found is not None, by_interval, expected,
        fit.predict(executors - 1) if executors > 1 else None,
    )  # fmt: skip
