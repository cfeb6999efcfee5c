# SPDX-License-Identifier: Apache-2.0
"""What a measurement comes to: for each size the throughput, its spread, and how it grows with the size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any

from penstock.measuring.disturbance import excess
from penstock.measuring.sample import Sample
from penstock.measuring.throughput import speed_up


@dataclass(frozen=True, slots=True)
class SizeSummary:
    """The samples of one size."""

    executors: int
    samples: int
    throughput: float
    """The mean of the samples, in records per second."""
    least: float
    most: float
    spread: float | None
    """The standard deviation of the samples over their mean; None: there is only one."""
    bytes_per_second: float | None
    speed_up: float
    """Against the smallest size."""
    efficiency: float
    cap: int
    batch_seconds: float
    utilisation: float | None
    source_limit: float | None
    marks: tuple[str, ...]
    """Of all its samples, each with how many have it, such as `disturbed (2 of 3)`."""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def kept_samples(samples: Sequence[Sample]) -> list[Sample]:
    """Of all tries of a sample the one that counts: the last undisturbed one, or else the least disturbed."""
    by_sample: dict[tuple[tuple[int, int, bool], int], list[Sample]] = {}
    for sample in samples:
        by_sample.setdefault((sample.turn_key, sample.part), []).append(sample)
    kept = []
    for tries in by_sample.values():
        calm = [sample for sample in tries if not sample.is_disturbed]
        kept.append(calm[-1] if calm else min(tries, key=lambda sample: excess(sample.host)))
    return kept


def summarise(samples: Sequence[Sample]) -> list[SizeSummary]:
    """A summary for each size of which there are samples of the application, the smallest first."""
    by_size: dict[int, list[Sample]] = {}
    for sample in kept_samples(samples):
        if not sample.is_source:
            by_size.setdefault(sample.executors, []).append(sample)
    found: list[SizeSummary] = []
    base: tuple[float, int] | None = None
    for size in sorted(by_size):
        of_size = by_size[size]
        rates = [sample.throughput.mean for sample in of_size]
        mean = fmean(rates)
        base = base or (mean, size)
        gained, efficiency = speed_up(mean, size, *base)
        found.append(
            SizeSummary(
                executors=size,
                samples=len(of_size),
                throughput=mean,
                least=min(rates),
                most=max(rates),
                spread=stdev(rates) / mean if len(rates) > 1 else None,
                bytes_per_second=_mean([sample.bytes_per_second for sample in of_size]),
                speed_up=gained,
                efficiency=efficiency,
                cap=of_size[-1].cap,
                batch_seconds=fmean(sample.batch_seconds for sample in of_size),
                utilisation=_mean([sample.utilisation for sample in of_size]),
                source_limit=of_size[-1].source_limit,
                marks=_counted(of_size),
            )
        )
    return found


def source_limits(samples: Sequence[Sample]) -> dict[int, float]:
    """The throughput of the source alone, by size."""
    return {s.executors: s.throughput.mean for s in kept_samples(samples) if s.is_source}


def caps(samples: Sequence[Sample], *, is_source: bool) -> dict[int, int]:
    """The cap that was found for each size: repeats keep it, so that they can be compared."""
    return {s.executors: s.cap for s in samples if s.is_source == is_source}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _counted(samples: Sequence[Sample]) -> tuple[str, ...]:
    every = [mark for sample in samples for mark in sample.marks]
    return tuple(f"{mark} ({every.count(mark)} of {len(samples)})" for mark in dict.fromkeys(every))
