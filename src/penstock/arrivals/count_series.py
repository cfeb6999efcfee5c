# SPDX-License-Identifier: Apache-2.0
"""Arrivals of which only the number per period is known. The number is recorded; the exact times are assumed.

Within its period a record arrives at random (uniform, which is a Poisson process given its count) or evenly spaced.
Both have random access: memory holds one number per period, whatever the number of records.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from penstock.arrivals.contract import check_range
from penstock.errors import ConfigurationError
from penstock.ports import FloatArray

SPREADS = ("random", "even")
IntArray = npt.NDArray[np.int64]
_MOST_AT_ONCE = 100_000_000


class CountSeries:
    """Counts per period as arrivals (:class:`penstock.arrivals.contract.Arrivals`).

    Parameters
    ----------
    counts
        Records in each period, in order.
    period_seconds
        Length of a period.
    spread
        Where in their period records arrive: ``random`` (uniform, by the seed) or ``even`` (equally spaced).
    seed
        A whole number from 0, for ``random``.
    name
        The name of the series in errors.
    notes
        What was assumed while reading it.

    Raises
    ------
    ConfigurationError
        A count is negative or not a whole number, or all are 0.

    Examples
    --------
    >>> CountSeries([2, 0, 1], 60.0, spread="even").times(0, 3).tolist()
    [15.0, 45.0, 150.0]
    """

    def __init__(
        self,
        counts: npt.ArrayLike,
        period_seconds: float,
        *,
        spread: str = "random",
        seed: int = 0,
        name: str = "counts",
        notes: tuple[str, ...] = (),
    ) -> None:
        if not (np.isfinite(period_seconds) and period_seconds > 0):
            raise ConfigurationError(f"period: {period_seconds} is not a duration above 0", field="period")
        if spread not in SPREADS:
            raise ConfigurationError(f"spread: unknown {spread!r}; known: {', '.join(SPREADS)}", field="spread")
        if not 0 <= seed < 1 << 64:
            raise ConfigurationError(f"seed: {seed} is not a whole number from 0 to 2^64 - 1", field="seed")
        self.counts = check_counts(name, counts)
        self.period_seconds, self.spread, self.seed = float(period_seconds), spread, seed
        self.name, self.notes = name, notes
        self._first: IntArray = np.concatenate([[0], np.cumsum(self.counts)])
        self._edges: FloatArray = np.arange(len(self.counts) + 1, dtype=np.float64) * self.period_seconds
        if not self.total:
            raise ConfigurationError(f"trace: {name}: every count is 0; give a trace with arrivals", field="trace")

    @property
    def total(self) -> int:
        """The number of records."""
        return int(self._first[-1])

    @property
    def duration_seconds(self) -> float:
        """Seconds from the first period's start to the last one's end."""
        return float(self._edges[-1])

    def count_until(self, t: float) -> int:
        """Return how many records have arrived at `t`."""
        period = int(np.searchsorted(self._edges, t, side="right")) - 1
        if period < 0:
            return 0
        if period >= len(self.counts):
            return self.total
        return int(self._first[period] + np.searchsorted(_period_times(self, period), t, side="right"))

    def times(self, start: int, stop: int) -> FloatArray:
        """Return when the records `start` to `stop` (not included) arrive."""
        check_range(start, stop, self.total)
        if start == stop:
            return np.empty(0)
        low, high = (int(np.searchsorted(self._first, index, side="right")) - 1 for index in (start, stop - 1))
        parts = [_period_times(self, p) for p in range(low, high + 1) if self.counts[p]]
        skipped = start - int(self._first[low])
        return np.concatenate(parts)[skipped : skipped + stop - start]

    def __repr__(self) -> str:
        return f"CountSeries({self.name!r}: {self.total} arrivals in {len(self.counts)} x {self.period_seconds:g} s)"


@lru_cache(maxsize=64)
def _period_times(series: CountSeries, period: int) -> FloatArray:
    count = int(series.counts[period])
    if count > _MOST_AT_ONCE:
        raise ConfigurationError(
            f"trace: {series.name}: {count} records in one period are more than the {_MOST_AT_ONCE} that can be placed "
            "one by one; give counts of shorter periods",
            field="trace",
        )
    if series.spread == "even":
        places = (np.arange(count) + 0.5) / count
    else:
        key = np.array([series.seed, period], dtype=np.uint64)  # an independent random stream for each period
        places = np.sort(np.random.Generator(np.random.Philox(key=key)).random(count))
    start, end = series._edges[period : period + 2]
    times: FloatArray = np.clip(start + places * series.period_seconds, start, end)
    times.setflags(write=False)
    return times


def check_counts(
    name: str, counts: npt.ArrayLike, places: npt.ArrayLike | None = None, word: str = "index"
) -> IntArray:
    """Return counts as whole numbers. Raise for any other value; `places` are their lines, for the message."""
    values = np.asarray(counts)
    if values.ndim != 1 or not len(values):
        raise ConfigurationError(f"trace: {name} has no counts; give at least one", field="trace")
    with np.errstate(invalid="ignore"):
        wrong = np.flatnonzero(~(np.isfinite(values) & (values >= 0) & (values == np.floor(values)) & (values < 2**53)))
    if len(wrong):
        at = np.arange(len(values)) if places is None else np.asarray(places)
        shown = ", ".join(f"{word} {at[i]}: {values[i]}" for i in wrong[:5])
        more = ", ..." if len(wrong) > 5 else ""
        raise ConfigurationError(
            f"trace: {name}: {shown}{more}: not a whole number of at least 0; counts say how many records arrived in "
            "each period (if these are times, give kind=iats or kind=arrivals)",
            field="trace",
        )
    return values.astype(np.int64)
