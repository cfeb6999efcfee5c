# SPDX-License-Identifier: Apache-2.0
"""SYNT: a synthetic trace of stretches drawn from MAPs of different variability, with abrupt changes.

The MEAD paper generates its trace SYNT this way and publishes no parameters; `SYNT_STRETCHES` are ours. They keep what
the paper says of it: calm at first, then bursty, rates that jump, and less correlation than in its real traces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock.arrivals.contract import Arrivals, check_range
from penstock.arrivals.from_map import MapArrivals
from penstock.errors import ConfigurationError, InvalidProcessError
from penstock.markov import MAP, map2_from_moments
from penstock.ports import FloatArray

_THIRD_MOMENT = 1.7
"""m3 m1 / m2^2 of the stretches: a little above 1.5, the least of two phases with more variance than Poisson."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of the trace with one process.

    Parameters
    ----------
    share
        Share of the whole duration, in proportion to the others'.
    rate
        Rate relative to the trace's.
    scv
        Squared coefficient of variation of the inter-arrival times, at least 1 (1: Poisson).
    decay
        Decay of the autocorrelation from lag to lag, 0 to below 1.
    """

    share: float
    rate: float
    scv: float
    decay: float = 0.0

    def process(self, rate: float) -> MAP:
        """Return the stretch's process, in a trace of this rate."""
        if self.scv == 1.0:
            return MAP.poisson(self.rate * rate)
        m2 = 1.0 + self.scv
        return map2_from_moments(1.0, m2, _THIRD_MOMENT * m2 * m2, self.decay).with_rate(self.rate * rate)


SYNT_STRETCHES = (
    Stretch(1.0, 0.7, 1.0),
    Stretch(1.0, 0.9, 2.0, 0.30),
    Stretch(1.0, 1.3, 8.0, 0.60),
    Stretch(1.0, 0.6, 2.0, 0.30),
    Stretch(1.0, 1.2, 16.0, 0.80),
    Stretch(1.0, 1.3, 4.0, 0.50),
)
"""Calm, then in turn more and less bursty. The rate of the whole is the requested one."""


@dataclass(frozen=True)
class Joined:
    """Arrivals one after the other (:class:`penstock.arrivals.contract.Arrivals`)."""

    parts: tuple[Arrivals, ...]

    @cached_property
    def _first(self) -> list[int]:
        return [0, *np.cumsum([part.total for part in self.parts]).tolist()]

    @cached_property
    def _starts(self) -> list[float]:
        return [0.0, *np.cumsum([part.duration_seconds for part in self.parts]).tolist()]

    @property
    def total(self) -> int:
        """The number of records."""
        return self._first[-1]

    @property
    def duration_seconds(self) -> float:
        """The duration of all parts together."""
        return self._starts[-1]

    def count_until(self, t: float) -> int:
        """Return how many records have arrived at `t`."""
        # The times decide, as `times` returns them: a part's last and the next one's first may round to the same.
        if t < 0:
            return 0
        part = int(np.searchsorted(self._starts[:-1], t, side="right")) - 1
        count = self._first[part] + self.parts[part].count_until(t - self._starts[part])
        while count < self.total and self.times(count, count + 1)[0] <= t:
            count += 1
        while count > 0 and self.times(count - 1, count)[0] > t:
            count -= 1
        return count

    def times(self, start: int, stop: int) -> FloatArray:
        """Return when the records `start` to `stop` (not included) arrive."""
        check_range(start, stop, self.total)
        found = [np.empty(0)]
        for part, first, began in zip(self.parts, self._first, self._starts, strict=False):
            low, high = max(start - first, 0), min(stop - first, part.total)
            if low < high:
                found.append(began + part.times(low, high))
        return np.concatenate(found)


def synt(rate: float, seconds: float, *, seed: int = 0, stretches: Sequence[Stretch] = SYNT_STRETCHES) -> Joined:
    """Return a synthetic trace with abrupt changes.

    Parameters
    ----------
    rate
        Mean records per second of the whole.
    seconds
        How long it is.
    seed
        Seeds all stretches. Each draws from its own random stream.
    stretches
        The parts, in order.

    Examples
    --------
    >>> trace = synt(100.0, 60.0, seed=1)
    >>> trace.duration_seconds, 0.7 < trace.total / 6000 < 1.4
    (60.0, True)
    """
    if not stretches:
        raise ConfigurationError("stretches: is empty; give at least one", field="stretches")
    for name, value in (("rate", rate), ("duration", seconds)):
        if not (np.isfinite(value) and value > 0):
            raise ConfigurationError(f"{name}: {value} must be above 0", field=name)
    whole = sum(stretch.share for stretch in stretches)
    mean = sum(stretch.share * stretch.rate for stretch in stretches) / whole
    parts = []
    for number, stretch in enumerate(stretches):
        try:
            process = stretch.process(rate / mean)
        except InvalidProcessError as fault:
            raise ConfigurationError(f"stretches[{number}]: {fault}", field="stretches") from fault
        own_seed = int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0])
        parts.append(MapArrivals(process, seconds=seconds * stretch.share / whole, seed=own_seed))
    return Joined(tuple(parts))
