# SPDX-License-Identifier: Apache-2.0
"""The mean rate of each period of a load: from counted or timed arrivals, or from a column of rates."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import numpy as np

from penstock.arrivals import CountSeries, Trace
from penstock.arrivals.trace_files import open_bytes
from penstock.errors import ConfigurationError
from penstock.ports import FloatArray
from penstock.records import MOST_THROUGHPUT

MOST_PERIODS = 10_000_000
_MOST_NAMED = 20


def period_rates(arrivals: Trace | CountSeries, period_seconds: float) -> FloatArray:
    """Return the arrivals per second of each whole period, from the start of the arrivals.

    Raises
    ------
    ConfigurationError
        The period is no multiple of that of the counts, or no whole period fits, or far too many do.
    """
    whole = int(arrivals.duration_seconds / period_seconds + 1e-9)
    if not 1 <= whole <= MOST_PERIODS:
        raise ConfigurationError(
            f"--every: the trace lasts {arrivals.duration_seconds:g} s, in which {period_seconds:g} s fit {whole:,} "
            f"times; give a length that fits at least once and at most {MOST_PERIODS:,} times",
            field="--every",
        )
    if isinstance(arrivals, CountSeries):
        together = round(period_seconds / arrivals.period_seconds)
        if together < 1 or abs(together * arrivals.period_seconds - period_seconds) > 1e-6 * period_seconds:
            raise ConfigurationError(
                f"--every: {period_seconds:g} s is not a multiple of {arrivals.period_seconds:g} s, the period of the "
                "counts; give such a multiple",
                field="--every",
            )
        whole = len(arrivals.counts) // together
        counts = arrivals.counts[: whole * together].reshape(whole, together).sum(axis=1)
    else:
        counts = np.diff([arrivals.count_until(i * period_seconds) for i in range(whole + 1)])
        counts[0] += arrivals.count_until(0.0)
    rates: FloatArray = counts / period_seconds
    return rates


def read_rates(path: Path, column: str) -> FloatArray:
    """Return the rates in a column of a CSV file, one for each period; ConfigurationError with every wrong line."""
    if not path.is_file():
        raise ConfigurationError(f"TRACE: {path} is not a file; give a CSV file", field="TRACE")
    try:
        with io.TextIOWrapper(open_bytes(path), encoding="utf-8-sig", newline="") as file:
            table = csv.reader(file, strict=True)
            header = [name.strip() for name in next(table, [])]
            rows = [(table.line_num, row) for row in table if any(cell.strip() for cell in row)]
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as fault:
        raise ConfigurationError(f"TRACE: {path} cannot be read as CSV: {fault}", field="TRACE") from fault
    if column not in header:
        there = ", ".join(header) or "none"
        raise ConfigurationError(
            f"--rate-column: {path} has no column {column!r}; there are {there}", field="--rate-column"
        )
    if header.count(column) > 1:
        raise ConfigurationError(
            f"--rate-column: {path} has the column {column!r} twice; name them differently", field="--rate-column"
        )
    at, rates, faults = header.index(column), [], []
    for line, row in rows:
        text = row[at].strip() if at < len(row) else ""
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0.0 <= value <= MOST_THROUGHPUT:
            faults.append(f"line {line}: {text!r} is not a rate from 0 to {MOST_THROUGHPUT:g}")
        rates.append(value)
    if not rows:
        faults = ["there is no rate below the names of the columns"]
    if faults:
        more = [f"and {len(faults) - _MOST_NAMED} more"] if len(faults) > _MOST_NAMED else []
        raise ConfigurationError.of_all(f"TRACE: {path}", faults[:_MOST_NAMED] + more)
    return np.array(rates)
