# SPDX-License-Identifier: Apache-2.0
"""Samples of throughput as columns of numbers: what all models fit on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.errors import ConfigurationError
from penstock.ports import FloatArray
from penstock.records import Allocation, ThroughputSample

_FAINTEST = 1e-6
"""However old, a sample counts this much, so that a size that was sampled long ago alone is not lost."""
_SAME_DELAY_SECONDS, _SAME_DELAY_PART = 0.002, 0.1
"""Measured round trips of one pair differ by as much: what looks like two delays may be one."""


def longest_alike(delay: float) -> float:
    """The longest delay that measurements cannot tell from this one."""
    return (1.0 + _SAME_DELAY_PART) * delay + _SAME_DELAY_SECONDS


def speed_of(allocation: Allocation) -> float:
    """How fast one executor works on parallel work, in whole executors of the operator's own size.

    Raises
    ------
    ConfigurationError
        The allocation has no executor, or no CPU.
    """
    if not allocation.executors >= 1:
        raise ConfigurationError(
            f"allocation: {allocation.executors} executors process nothing; a throughput needs at least 1",
            field="allocation",
        )
    speed = allocation.cpu_share * allocation.worth
    if not (np.isfinite(speed) and speed > 0.0):
        raise ConfigurationError(
            f"allocation: a CPU share of {allocation.cpu_share!r} of an executor worth {allocation.worth!r} is no "
            "speed; give both as positive numbers",
            field="allocation",
        )
    return float(speed)


@dataclass(frozen=True, eq=False, slots=True)
class SampleTable:
    """Samples as columns.

    Attributes
    ----------
    executors
        How many there were.
    speed
        CPU share times worth: how fast each executor works on parallel work.
    rate
        The throughput, in records a second.
    weight
        What each sample counts: 1 for the newest, half after each half-life.
    delay
        The largest network delay between the nodes, in seconds; 0 where a model does not ask for it.
    """

    executors: FloatArray
    speed: FloatArray
    rate: FloatArray
    weight: FloatArray
    delay: FloatArray

    @classmethod
    def of(
        cls,
        samples: Sequence[ThroughputSample],
        half_life_seconds: float | None = None,
        delays: Sequence[float] | None = None,
    ) -> SampleTable:
        """The columns of some samples."""
        known = [sample.at for sample in samples if sample.at is not None]
        newest = max(known, default=0.0)
        ages = np.array([0.0 if sample.at is None else newest - sample.at for sample in samples])
        return cls(
            np.array([float(sample.allocation.executors) for sample in samples]),
            np.array([speed_of(sample.allocation) for sample in samples]),
            np.array([sample.records_per_second for sample in samples]),
            np.ones(len(samples))
            if half_life_seconds is None
            else np.maximum(0.5 ** (ages / half_life_seconds), _FAINTEST),
            np.zeros(len(samples)) if delays is None else np.asarray(delays, dtype=float),
        )

    @property
    def delay_groups(self) -> NDArray[np.intp]:
        """Which delay each sample has, as a number from 0: those that measurements cannot tell apart share one."""
        ends: list[float] = []
        for delay in np.unique(self.delay):
            if not ends or delay > ends[-1]:
                ends.append(longest_alike(float(delay)))
        return np.searchsorted(ends, self.delay)

    @property
    def several_delays(self) -> bool:
        """Whether there were delays that measurements can tell apart."""
        return len(self) > 0 and bool(np.ptp(self.delay_groups) > 0)

    def __len__(self) -> int:
        return len(self.rate)

    @property
    def capacity(self) -> FloatArray:
        """Executors times speed."""
        return self.executors * self.speed

    @property
    def sizes(self) -> int:
        """How many different capacities were sampled; capacities closer than a millionth count as one."""
        return len(np.unique(np.round(np.log(self.capacity), 6))) if len(self) else 0

    @property
    def configurations(self) -> int:
        """How many were sampled that differ in executors, speed or delay."""
        if not len(self):
            return 0
        return len(np.unique(np.column_stack((self.executors, np.round(self.speed, 9), self.delay_groups)), axis=0))

    def without_largest(self) -> SampleTable:
        """The samples of all capacities but the largest."""
        below = self.capacity < self.capacity.max() * (1.0 - 1e-6)
        columns = (self.executors, self.speed, self.rate, self.weight, self.delay)
        return SampleTable(*(column[below] for column in columns))

    @property
    def effective_count(self) -> float:
        """How many equally weighted samples these are worth (Kish 1965)."""
        return float(self.weight.sum() ** 2 / (self.weight**2).sum())
