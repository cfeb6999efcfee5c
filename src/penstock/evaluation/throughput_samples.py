# SPDX-License-Identifier: Apache-2.0
"""Reads measured throughputs from a CSV file. Every mistake in it is reported at once, with its line."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path

from penstock.arrivals.trace_files import open_bytes
from penstock.errors import ConfigurationError
from penstock.records import Allocation, ThroughputSample

EXECUTORS, THROUGHPUT, CPU_SHARE, APPLICATION = "executors", "throughput", "cpu_share", "application"
MOST_EXECUTORS = 1_000_000
_MOST_NAMED = 20


def load_samples(path: Path) -> dict[str, list[ThroughputSample]]:
    """Return the samples of each application; without a column `application` there is one, with an empty name.

    The file has the columns `executors` and `throughput`, and may have `cpu_share` and `application`. Other columns are
    left alone. A size may have several rows.

    Raises
    ------
    ConfigurationError
        The file cannot be read, a column is missing or a value is wrong; all mistakes, with their lines.
    """
    if not path.is_file():
        raise ConfigurationError(f"samples: {path} is not a file; give a CSV file", field="samples")
    try:
        with io.TextIOWrapper(open_bytes(path), encoding="utf-8-sig", newline="") as file:
            table = csv.reader(file, strict=True)
            rows = [(table.line_num, [cell.strip() for cell in row]) for row in table]
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as fault:
        raise ConfigurationError(f"samples: {path} cannot be read as CSV: {fault}", field="samples") from fault
    filled = [(line, row) for line, row in rows if any(row)]
    if not filled:
        raise ConfigurationError(
            f"samples: {path} is empty; its first line is to name the columns, such as executors,throughput",
            field="samples",
        )
    header = [name.lower() for name in filled[0][1]]
    faults = [f"line {filled[0][0]}: {text}" for text in _header_faults(header)]
    if faults:
        raise ConfigurationError.of_all(f"samples: {path}", faults)
    found: dict[str, list[ThroughputSample]] = {}
    for line, row in filled[1:]:
        wrong, name, sample = _sample(header, row)
        faults += [f"line {line}: {text}" for text in wrong]
        if sample is not None:
            found.setdefault(name, []).append(sample)
    if not faults and not found:
        faults = ["there is no sample below the names of the columns; write one line for each measurement"]
    if faults:
        more = [f"and {len(faults) - _MOST_NAMED} more"] if len(faults) > _MOST_NAMED else []
        raise ConfigurationError.of_all(f"samples: {path}", faults[:_MOST_NAMED] + more)
    return found


def _header_faults(header: Sequence[str]) -> list[str]:
    faults = [
        f"there is no column {name!r}; there are {', '.join(header)}"
        for name in (EXECUTORS, THROUGHPUT)
        if name not in header
    ]
    known = (EXECUTORS, THROUGHPUT, CPU_SHARE, APPLICATION)
    return faults + [f"the column {name!r} is there twice" for name in known if header.count(name) > 1]


def _sample(header: Sequence[str], row: Sequence[str]) -> tuple[list[str], str, ThroughputSample | None]:
    """What is wrong with a row, its application, and its sample where nothing is."""
    if len(row) != len(header):
        return [f"{len(row)} fields, and {len(header)} columns are named"], "", None
    cells = dict(zip(header, row, strict=True))
    faults: list[str] = []
    executors, throughput, share = _number(cells, EXECUTORS), _number(cells, THROUGHPUT), 1.0
    if executors is None or not 1 <= executors <= MOST_EXECUTORS or executors != math.floor(executors):
        faults.append(f"executors: {cells[EXECUTORS]!r} is not a whole number from 1 to {MOST_EXECUTORS:,}")
    if throughput is None or not (math.isfinite(throughput) and throughput > 0.0):
        faults.append(f"throughput: {cells[THROUGHPUT]!r} is not a finite number above 0")
    if CPU_SHARE in cells:
        read = _number(cells, CPU_SHARE)
        if read is None or not 0.0 < read <= 1.0:
            faults.append(f"cpu_share: {cells[CPU_SHARE]!r} is not a number above 0 and at most 1")
        else:
            share = read
    name = cells.get(APPLICATION, "")
    if APPLICATION in cells and not name:
        faults.append("application: it has no name")
    if faults or executors is None or throughput is None:
        return faults, name, None
    return [], name, ThroughputSample(Allocation(int(executors), share), throughput)


def _number(cells: dict[str, str], name: str) -> float | None:
    try:
        return float(cells[name])
    except ValueError:
        return None


def of_one_application(
    samples: dict[str, list[ThroughputSample]], wanted: str | None, field: str = "--application"
) -> tuple[str, list[ThroughputSample]]:
    """Return the application that is wanted, or the only one; ConfigurationError if it is not clear which."""
    there = ", ".join(samples)
    if wanted is not None:
        if wanted not in samples:
            names = there or "no names: the file has no column `application`"
            raise ConfigurationError(f"{field}: there are no samples of {wanted!r}; there are {names}", field=field)
        return wanted, samples[wanted]
    if len(samples) > 1:
        raise ConfigurationError(f"{field}: the file has samples of {there}; say of which", field=field)
    return next(iter(samples.items()))
