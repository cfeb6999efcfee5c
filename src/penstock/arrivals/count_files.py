# SPDX-License-Identifier: Apache-2.0
"""Reads counts from files: one count per line, or a table of periods and counts."""

from __future__ import annotations

import numpy as np

from penstock.arrivals.count_series import CountSeries, IntArray, check_counts
from penstock.arrivals.trace_files import Progress
from penstock.arrivals.trace_times import TraceSource
from penstock.errors import ConfigurationError
from penstock.units import parse_seconds

_MOST_PERIODS = 100_000_000


def load_counts(source: TraceSource, progress: Progress | None = None) -> CountSeries:
    """Return the series of counts in a file.

    Periods that a table omits had no arrivals, as where a log was counted by grouping. A note says how many there are.
    """
    name = str(source.path)
    if source.format is not None and source.format.period_at is not None:
        counts, period, notes = _table(source, progress)
    else:
        parts = [check_counts(name, c.values, c.places, c.word) for c in source.chunks(progress) if len(c.values)]
        if not parts:
            raise ConfigurationError(f"trace: {name} has no counts; give at least one", field="trace")
        counts, notes = np.concatenate(parts), ()
        period = source.period_seconds or parse_seconds(f"1{source.unit}", field="unit")
    return CountSeries(counts, period, spread=source.spread, seed=source.seed, name=name, notes=notes)


def _table(source: TraceSource, progress: Progress | None) -> tuple[IntArray, float, tuple[str, ...]]:
    if source.format is None:
        raise AssertionError("a table of periods has a format")
    name, counts, starts, places = str(source.path), [], [], []
    for chunk, periods in source.format.read_periods(source.path, progress):
        counts.append(check_counts(name, chunk.values, chunk.places))
        starts.append(periods)
        places.append(np.asarray(chunk.places))
    if not counts or sum(map(len, counts)) < 2:
        raise ConfigurationError(f"trace: {name} has fewer than two periods; give at least two", field="trace")
    start, line = np.concatenate(starts), np.concatenate(places)
    steps = np.diff(start)
    wrong = np.flatnonzero(steps <= 0)
    period = int(steps[steps > 0].min()) if (steps > 0).any() else 1
    if not len(wrong):
        wrong = np.flatnonzero(steps % period)
    if len(wrong):
        raise ConfigurationError(
            f"trace: {name}: line {line[wrong[0] + 1]}: this period does not start a whole number of periods "
            f"({period} s) after the one before; sort the periods and give each once",
            field="trace",
        )
    index = (start - start[0]) // period
    length = int(index[-1]) + 1
    if length > _MOST_PERIODS:
        raise ConfigurationError(f"trace: {name} spans {length} periods; cut it first", field="trace")
    filled = np.zeros(length, dtype=np.int64)
    filled[index] = np.concatenate(counts)
    left_out = length - len(index)
    notes = (
        (f"{left_out} of {length} periods are missing from the file: counted as periods without arrivals",)
        if left_out
        else ()
    )
    return filled, float(period), notes
