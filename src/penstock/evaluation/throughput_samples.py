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
from penstock.records import LEAST_THROUGHPUT, MOST_THROUGHPUT, Allocation, ThroughputSample

EXECUTORS, THROUGHPUT, CPU_SHARE, APPLICATION = "executors", "throughput", "cpu_share", "application"
MARKS = "marks"
"""What `penstock measure` has to say of a sample, parted by spaces."""
MOST_EXECUTORS = 1_000_000
"""Beyond it, models lose their digits."""
MOST_COST_PER_HOUR = 1e12
"""Of an executor: more than that in any currency is a slip, and sums over executors and hours stay finite."""
_MOST_NAMED = 20
_MEANS = {
    "source-bound": "the source was measured, and the application may do more",
    "not-converged": "the throughput still changed",
    "disturbed": "others used the machine",
    "CPU-left": "something else than the executors' CPU bounds them, such as the driver",
}


def load_samples(path: Path, field: str = "samples") -> dict[str, list[ThroughputSample]]:
    """Return the samples of each application; without a column `application` there is one, with an empty name.

    The file has the columns `executors` and `throughput`, and may have `cpu_share` and `application`. Other columns are
    left alone. A size may have several rows. `field` is what errors call the file.

    Raises
    ------
    ConfigurationError
        The file cannot be read, a column is missing or a value is wrong; all mistakes, with their lines.
    """
    header, filled = _table(path, field)
    faults = [f"line {filled[0][0]}: {text}" for text in _header_faults(header)]
    if faults:
        raise ConfigurationError.of_all(f"{field}: {path}", faults)
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
        raise ConfigurationError.of_all(f"{field}: {path}", faults[:_MOST_NAMED] + more)
    return found


def mark_notes(path: Path, application: str, field: str = "samples") -> tuple[str, ...]:
    """Say which marks the samples of an application carry and what they mean; nothing where none is marked.

    A marked throughput may be less than what the application sustains, and what is planned with it says so.
    """
    header, filled = _table(path, field)
    if MARKS not in header:
        return ()
    rows = [dict(zip(header, row, strict=True)) for _, row in filled[1:]]
    marks = [row[MARKS].split() for row in rows if row.get(APPLICATION, "") == application]
    every = dict.fromkeys(mark for of_sample in marks for mark in of_sample)
    counts = {mark: sum(mark in of_sample for of_sample in marks) for mark in every}
    return tuple(
        f"{field}: {count} of {len(marks)} {'is' if count == 1 else 'are'} marked {mark}"
        + (f": {_MEANS[mark]}" if mark in _MEANS else "")
        for mark, count in counts.items()
    )


def _table(path: Path, field: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The names of the columns in small letters, and all filled rows, the names among them, with their lines."""
    if not path.is_file():
        raise ConfigurationError(f"{field}: {path} is not a file; give a CSV file", field=field)
    try:
        with io.TextIOWrapper(open_bytes(path), encoding="utf-8-sig", newline="") as file:
            table = csv.reader(file, strict=True)
            rows = [(table.line_num, [cell.strip() for cell in row]) for row in table]
    except UnicodeDecodeError as fault:
        raise ConfigurationError(
            f"{field}: {path} cannot be read as CSV: it is not UTF-8; save it so", field=field
        ) from fault
    except (OSError, EOFError, csv.Error) as fault:
        raise ConfigurationError(f"{field}: {path} cannot be read as CSV: {fault}", field=field) from fault
    filled = [(line, row) for line, row in rows if any(row)]
    if not filled:
        raise ConfigurationError(
            f"{field}: {path} is empty; its first line is to name the columns, such as executors,throughput",
            field=field,
        )
    return [name.lower() for name in filled[0][1]], filled


def _header_faults(header: Sequence[str]) -> list[str]:
    if len(header) == 1 and any(mark in header[0] for mark in ";\t"):
        return ["the columns are parted by semicolons or tabs; part them by commas, and write decimals with a point"]
    if all(_number(cell) is not None for cell in header):
        return ["there are numbers in place of names of columns; write executors,throughput above them"]
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
        return (
            [f"{_count(len(row), 'value')}, and {_count(len(header), 'column')} are named; write one for each"],
            "",
            None,
        )
    cells = dict(zip(header, row, strict=True))
    faults: list[str] = []
    executors, throughput, share = _number(cells[EXECUTORS]), _number(cells[THROUGHPUT]), 1.0
    if executors is None or not 1 <= executors <= MOST_EXECUTORS or executors != math.floor(executors):
        faults.append(f"executors: {cells[EXECUTORS]!r} is not a whole number from 1 to {MOST_EXECUTORS:,}")
    if throughput is None or not (math.isfinite(throughput) and throughput > 0.0):
        hint = "; write decimals with a point, and thousands without a mark" if "," in cells[THROUGHPUT] else ""
        faults.append(f"throughput: {cells[THROUGHPUT]!r} is not a finite number above 0{hint}")
    elif not LEAST_THROUGHPUT <= throughput <= MOST_THROUGHPUT:
        faults.append(
            f"throughput: {cells[THROUGHPUT]!r} is not from {LEAST_THROUGHPUT:g} to {MOST_THROUGHPUT:g}; "
            "give all of them in another unit"
        )
    if CPU_SHARE in cells:
        read = _number(cells[CPU_SHARE])
        if read is None or not 0.0 < read <= 1.0:
            faults.append(
                f"cpu_share: {cells[CPU_SHARE]!r} is not a number above 0 and at most 1; write 0.5 for half a core"
            )
        else:
            share = read
    name = cells.get(APPLICATION, "")
    if APPLICATION in cells and not name:
        faults.append("application: there is no name")
    if faults or executors is None or throughput is None:
        return faults, name, None
    return [], name, ThroughputSample(Allocation(int(executors), share), throughput)


def _number(text: str) -> float | None:
    """The number, or None. Python would also read 1_000 and the digits of other scripts: in a file they are slips."""
    try:
        return float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        return None


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


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
