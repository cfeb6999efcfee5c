# SPDX-License-Identifier: Apache-2.0
"""What an allocation sustains, by the best that is known of it.

In this order: a declared demand; measurements of this very allocation; the model, once two allocations were measured,
moved by what it is wrong by at those near (`CurveBelief`); in proportion to the nearest measured allocation; in
proportion to the CPU that a record uses.

Two things hold whatever a model says, since executors do not help each other: a part of the capacity does at least
that part of the work, and more capacity does at most in proportion more (a concave curve through the origin). They keep
an interval of a model that knows two sizes only from being useless.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri, stdtrit

from penstock.errors import NotReadyError
from penstock.performance.demand import BatchDemand, RecordDemand
from penstock.performance.throughput.curve_belief import CurveBelief
from penstock.policies.elastic.samples import FreeSamples, throughput_of_batches
from penstock.ports import Look, OperatorSite, ThroughputModel
from penstock.records import Allocation, ThroughputPrediction, ThroughputSample

_MEASURED = 2
"""Samples of an allocation from which on they are taken instead of a model."""
_LEAST_SPREAD = 0.04
"""A relative standard deviation of samples is never taken to be smaller: few of them agree by chance."""
_AHEAD = 4
"""What is counted on is not one batch but the mean over the next half minute: about as long as four samples."""
_FIRST_SPREAD = 0.1
"""That of samples of which there are too few to see it."""
_PER_DOUBLING = 0.05
"""What a proportion loses for every doubling or halving: nothing scales quite evenly."""
_CPU_SPREAD = 0.2
"""Relative standard deviation of what CPU per record says about throughput; the driver's time is not in it."""


@dataclass(frozen=True, slots=True)
class Sustained:
    """What an allocation is predicted to sustain, and by what.

    Attributes
    ----------
    prediction
        With its interval.
    basis
        What it rests on, for people.
    is_proven
        Whether it, or something smaller, was measured.
    """

    prediction: ThroughputPrediction
    basis: str
    is_proven: bool

    @property
    def low(self) -> float:
        """The lower end: what is counted on."""
        return self.prediction.low

    def __str__(self) -> str:
        p = self.prediction
        return f"{p.records_per_second:,.0f} records/s ({p.low:,.0f} to {p.high:,.0f})"


class Capacity:
    """What is known about the throughput of one operator.

    Parameters
    ----------
    site
        How it was introduced; a declared demand is believed.
    model
        What predicts allocations that were not measured.
    batch_seconds
        How long a batch may be.
    confidence
        Coverage of the intervals.
    given
        Samples from before the run.
    """

    def __init__(
        self,
        site: OperatorSite,
        model: ThroughputModel,
        *,
        batch_seconds: float,
        confidence: float,
        given: Sequence[ThroughputSample] = (),
    ) -> None:
        self.free = FreeSamples(site, batch_seconds)
        self._site, self._model, self._batch_seconds = site, model, batch_seconds
        self._confidence, self._given = confidence, tuple(given)
        self._fitted: ThroughputModel | None = None
        self._samples: tuple[ThroughputSample, ...] = ()
        self._fitted_with = -1
        self._beliefs: dict[Allocation, ThroughputPrediction] = {}
        """Of allocations that were asked for since the last fit."""

    def watch(self, look: Look) -> None:
        """Learn from one look."""
        self.free.watch(look)

    @property
    def samples(self) -> tuple[ThroughputSample, ...]:
        """All that predictions rest on: those of this run, and given ones where it has none or only rough ones.

        Those that were given say how sizes compare; how fast the machine is now, the run says.
        """
        sure, speed = self.free.sure, self._speed()
        given = [
            replace(sample, records_per_second=speed * sample.records_per_second)
            for sample in self._given
            if sample.allocation not in sure
        ]
        better = {sample.allocation for sample in given}
        return (*given, *(sample for sample in self.free.samples if sample.allocation not in better))

    def _speed(self) -> float:
        """How many times as much sizes do in this run as was given for them: the mean of those known both ways."""
        given, found = _means(self._given), _means(self.free.samples)
        ratios = [math.log(found[size] / given[size]) for size in given.keys() & self.free.sure]
        return math.exp(sum(ratios) / len(ratios)) if ratios else 1.0

    def sustained(self, allocation: Allocation) -> Sustained:
        """What an allocation sustains.

        Raises
        ------
        NotReadyError
            Nothing is known yet.
        """
        declared = self._declared(allocation)
        if declared is not None:
            return Sustained(declared, "its declared demand", is_proven=True)
        self._fit()
        if not self._samples:
            return self._by_cpu(allocation)
        is_proven = any(_is_within(sample.allocation, allocation) for sample in self._samples)
        measured = self._measured(allocation)
        if measured is not None:
            count = sum(sample.allocation == allocation for sample in self._samples)
            return Sustained(measured, f"{count} measurements of it", is_proven)
        near = self._in_proportion(allocation)
        if self._fitted is None:
            return Sustained(near[1], f"in proportion to {near[0]}", is_proven)
        basis = f"the model {self._fitted.name} on {len(self._samples)} samples"
        return Sustained(self._kept_concave(self._believed(self._fitted, allocation), allocation), basis, is_proven)

    # --- what it is found by -----------------------------------------------------------------------------------

    def _fit(self) -> None:
        """Fit to all samples, where there are new ones; a model that is not ready yet leaves the proportion."""
        if self._fitted_with == self.free.taken:
            return
        self._fitted_with, self._samples = self.free.taken, self.samples
        self._fitted, self._beliefs = None, {}
        if len({sample.allocation for sample in self._samples}) >= 2:
            try:
                self._fitted = self._model.fit(self._samples)
            except NotReadyError:
                return

    def _believed(self, model: ThroughputModel, allocation: Allocation) -> ThroughputPrediction:
        """What a model expects of an allocation, moved by what it is wrong by at those measured near it."""
        if allocation not in self._beliefs:
            expected = model.predict(allocation, self._confidence)
            if not expected.low > 0.0:
                return expected
            rates: dict[Allocation, list[float]] = {}
            for sample in self._samples:
                rates.setdefault(sample.allocation, []).append(sample.records_per_second)
            belief = CurveBelief.of([(model, self._samples)], [*rates, allocation])
            for place, measured in enumerate(rates.values()):
                belief.learn_one(0, place, float(np.mean(measured)), len(measured))
            low, high = (float(curve(self._confidence, 1.0 / _AHEAD)[0, -1]) for curve in (belief.low, belief.high))
            expects = float(belief.expected[0, -1])
            self._beliefs[allocation] = ThroughputPrediction(expects, low, high, self._confidence)
        return self._beliefs[allocation]

    def _declared(self, allocation: Allocation) -> ThroughputPrediction | None:
        demand = self._site.demand
        if isinstance(demand, RecordDemand):
            return self._around(allocation.capacity / demand.service.mean, demand.spread)
        if isinstance(demand, BatchDemand):
            server = demand.at(allocation)
            rate = throughput_of_batches(server.fixed, server.per_record, self._batch_seconds, demand.cap)
            return self._around(rate, demand.per_record_error_seconds / demand.per_record_seconds)
        return None

    def _measured(self, allocation: Allocation) -> ThroughputPrediction | None:
        rates = [s.records_per_second for s in self._samples if s.allocation == allocation]
        if len(rates) < _MEASURED:
            return None
        mean, count = float(np.mean(rates)), len(rates)
        spread, freedom = self._spread()
        # For the mean of the next few beside the mean of those there are: Student's t.
        quantile = float(stdtrit(freedom, 0.5 + self._confidence / 2.0)) if freedom else self._normal
        return self._around(mean, spread * math.sqrt(1.0 / _AHEAD + 1.0 / count), quantile)

    def _spread(self) -> tuple[float, int]:
        """Relative standard deviation of samples about the mean of their allocation, and its degrees of freedom."""
        squares, freedom = 0.0, 0
        for allocation in {sample.allocation for sample in self._samples}:
            rates = np.array([s.records_per_second for s in self._samples if s.allocation == allocation])
            squares += float(np.sum((rates / rates.mean() - 1.0) ** 2))
            freedom += len(rates) - 1
        if freedom < 2:
            return _FIRST_SPREAD, 0
        return max(math.sqrt(squares / freedom), _LEAST_SPREAD), freedom

    def _in_proportion(self, allocation: Allocation) -> tuple[Allocation, ThroughputPrediction]:
        """By the nearest measured allocation, and which that is."""
        near = min(
            {sample.allocation for sample in self._samples},
            key=lambda a: (abs(math.log(a.capacity / allocation.capacity)), -a.capacity),
        )
        rates = [s.records_per_second for s in self._samples if s.allocation == near]
        doublings = abs(math.log2(allocation.capacity / near.capacity))
        spread, _ = self._spread()
        mean = float(np.mean(rates)) * allocation.capacity / near.capacity
        return near, self._around(
            mean * (1.0 - _PER_DOUBLING) ** doublings, spread * math.sqrt(1.0 / _AHEAD + 1.0 / len(rates))
        )

    def _kept_concave(self, predicted: ThroughputPrediction, allocation: Allocation) -> ThroughputPrediction:
        """A model's prediction within what holds whatever it says."""
        value, low, high = predicted.records_per_second, predicted.low, predicted.high
        known = {other: self._measured(other) for other in {sample.allocation for sample in self._samples}}
        for other, measured in known.items():
            if measured is not None and _is_within(other, allocation):
                value, low = max(value, measured.records_per_second), max(low, measured.low)
                high = min(high, measured.high * allocation.capacity / other.capacity)
        # Last, since it is what is counted on: all of an interval rises, so that it stays one.
        for other, measured in known.items():
            if measured is not None and _is_within(allocation, other) and allocation != other:
                part = allocation.capacity / other.capacity
                part *= (1.0 - _PER_DOUBLING) ** abs(math.log2(part))
                value = max(value, measured.records_per_second * part)
                low, high = max(low, measured.low * part), max(high, measured.high * part)
        high = max(high, low)
        return ThroughputPrediction(min(max(value, low), high), low, high, predicted.coverage)

    def _by_cpu(self, allocation: Allocation) -> Sustained:
        known = self.free.seconds_per_record
        if known is None:
            raise NotReadyError(
                f"no throughput was measured yet, and how much CPU a record uses is not known: {self.free.why_not}"
            )
        seconds, error = known
        rate = allocation.capacity / seconds
        spread = math.hypot(error, _CPU_SPREAD)
        return Sustained(self._around(rate, spread), "the CPU that records use", is_proven=False)

    @property
    def _normal(self) -> float:
        return float(ndtri(0.5 + self._confidence / 2.0))

    def _around(self, rate: float, spread: float, quantile: float | None = None) -> ThroughputPrediction:
        """A rate with its interval; downwards it is divided, so that it never becomes negative."""
        away = (self._normal if quantile is None else quantile) * spread
        return ThroughputPrediction(rate, rate / (1.0 + away), rate * (1.0 + away), self._confidence)


def _means(samples: Sequence[ThroughputSample]) -> dict[Allocation, float]:
    """The mean rate of each allocation."""
    rates: dict[Allocation, list[float]] = {}
    for sample in samples:
        rates.setdefault(sample.allocation, []).append(sample.records_per_second)
    return {allocation: float(np.mean(each)) for allocation, each in rates.items()}


def _is_within(small: Allocation, large: Allocation) -> bool:
    return small.executors <= large.executors and small.cpu_share <= large.cpu_share and small.size == large.size
