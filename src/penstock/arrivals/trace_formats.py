# SPDX-License-Identifier: Apache-2.0
"""Public traces in their published form: which column holds the time, in which unit, and which rows count.

A format is one entry of `TRACE_FORMATS`. Formats with a header, or with rows unlike any other's, are recognised. Bare
numbers cannot be recognised, so formats made of them are used only by name.
"""

from __future__ import annotations

import csv
import io
import lzma
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from penstock.arrivals.trace_files import Chunk, Progress, check_is_file, faults_named, inner_suffix, open_bytes
from penstock.errors import ConfigurationError

_CHUNK_ROWS = 1 << 16
_AFTER_THE_TRACE = (1 << 63) - 1
_HEX = re.compile(r"^[0-9A-F]{32}$")
_DATE = re.compile(r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d")


@dataclass(frozen=True, slots=True)
class TraceFormat:
    """How to read a published trace.

    Parameters
    ----------
    name, title
        Its name, and a line that describes it.
    kind, unit, origin
        As in `load_trace`, for the numbers or dates in the column.
    columns
        Number of fields in a row. None: one number per line.
    at
        The field with the time (or the count, for counts), from 0.
    header
        The header line, if there is one.
    is_date
        The field is a date such as ``2013-01-01 00:00:36`` and not a number.
    wanted
        Selects the rows that count. None: all.
    looks_like
        Whether a first row (without the header) is of this format. None: it cannot be recognised.
    period_at
        For counts: the field that holds the start of the period, a date.
    file_name
        How the names of its files begin, in lower case, if the numbers themselves cannot be recognised.
    """

    name: str
    title: str
    kind: str
    unit: str
    origin: str = "first"
    columns: int | None = None
    at: int = 0
    header: str | None = None
    is_date: bool = False
    wanted: Callable[[Sequence[str]], bool] | None = None
    looks_like: Callable[[Sequence[str]], bool] | None = None
    period_at: int | None = None
    file_name: str | None = None

    def read(self, path: Path, progress: Progress | None = None) -> Iterator[Chunk]:
        """Yield the times or counts of the rows that count, in chunks. Only for formats with columns."""
        for places, rows in self._rows(path, progress):
            yield Chunk(self._numbers(path, places, [row[self.at] for row in rows], self.is_date), places)

    def read_periods(self, path: Path, progress: Progress | None = None) -> Iterator[tuple[Chunk, NDArray[np.int64]]]:
        """Return counts, and the start of each one's period in seconds since 1970."""
        if self.period_at is None:
            raise AssertionError(f"{self.name} has no periods")
        for places, rows in self._rows(path, progress):
            starts = self._numbers(path, places, [row[self.period_at] for row in rows], True)
            yield Chunk(self._numbers(path, places, [row[self.at] for row in rows], False), places), starts

    def _rows(self, path: Path, progress: Progress | None) -> Iterator[tuple[NDArray[np.int64], list[list[str]]]]:
        check_is_file(path)
        with (
            faults_named(path),
            io.TextIOWrapper(open_bytes(path, progress), encoding="utf-8-sig", newline="") as file,
        ):
            table = csv.reader(file)
            if self.header is not None and ",".join(next(table, [])) != self.header:
                raise self._fault(path, 1, f"the header is not {self.header!r}")
            while numbered := [(table.line_num, row) for row in islice(table, _CHUNK_ROWS)]:
                for place, row in numbered:
                    if row and len(row) != self.columns:
                        raise self._fault(path, place, f"{len(row)} fields instead of {self.columns}")
                chosen = [(p, row) for p, row in numbered if row and (self.wanted is None or self.wanted(row))]
                if chosen:
                    yield np.array([p for p, _ in chosen], dtype=np.int64), [row for _, row in chosen]

    def _numbers(self, path: Path, places: NDArray[np.int64], cells: Sequence[str], is_date: bool) -> NDArray[np.int64]:
        try:
            if is_date:
                return np.array(cells, dtype="datetime64[s]").astype(np.int64)
            return np.array([int(cell) for cell in cells], dtype=np.int64)
        except (ValueError, OverflowError):
            pass
        for place, cell in zip(places.tolist(), cells, strict=True):
            wrong = _DATE.match(cell) is None if is_date else not cell.lstrip("-").isdecimal()
            if wrong:
                raise self._fault(path, place, f"{cell[:40]!r} is not a {'date' if is_date else 'whole number'}")
        raise self._fault(path, int(places[0]), "a number or date from here on cannot be read")

    def _fault(self, path: Path, place: int, what: str) -> ConfigurationError:
        return ConfigurationError(
            f"trace: {path}: line {place}: {what}, in the format {self.name}; fix the line or give another format",
            field="trace",
        )


def _is_submit(row: Sequence[str]) -> bool:
    # Time 0 stands for all that happened before the trace, the largest number for all that happened after it.
    return row[5] == "0" and row[0] not in ("0", str(_AFTER_THE_TRACE))


def _is_task_event(row: Sequence[str]) -> bool:
    whole = all(row[i].isdecimal() for i in (0, 2, 3, 5, 7, 8))
    return whole and int(row[5]) <= 8 and row[6].endswith("=")


def _is_ride(row: Sequence[str]) -> bool:
    return row[1] in ("START", "END") and bool(_DATE.match(row[2]) and _DATE.match(row[3]))


def _is_trip(row: Sequence[str]) -> bool:
    return bool(_HEX.match(row[0]) and _HEX.match(row[1]) and _DATE.match(row[2]) and _DATE.match(row[3]))


def _is_period(row: Sequence[str]) -> bool:
    return bool(_DATE.match(row[0]))


_PUBLISHED_FORMATS = (
    TraceFormat("bc-paug89", "Bellcore Ethernet packets: arrival times in microseconds", "arrivals", "us", "zero",
                file_name="bc-paug89"),
    TraceFormat(
        "cloudphysics-io", "block I/O requests of a virtual disk", "arrivals", "us",
        columns=4, header="ts_us,op,len_bytes,lbn", looks_like=lambda row: row[0].isdecimal(),
    ),
    TraceFormat(
        "google-2011", "Google cluster trace 2011-2, task_events: the SUBMITs after time 0", "arrivals", "us",
        columns=13, wanted=_is_submit, looks_like=_is_task_event,
    ),
    TraceFormat(
        "google-task-events", "the same, every row: to be replayed with its text", "arrivals", "us", columns=13,
    ),
    TraceFormat(
        "nyc-taxi", "taxi ride events, START and END, stamped to the second", "arrivals", "s",
        columns=11, at=2, is_date=True, looks_like=_is_ride,
    ),
    TraceFormat(
        "debs-2015", "taxi trips of the DEBS 2015 Grand Challenge, by the time of the drop-off", "arrivals", "s",
        columns=17, at=3, is_date=True, looks_like=_is_trip,
    ),
    TraceFormat(
        "worldcup98", "requests per period: columns period (a date) and count", "counts", "s",
        columns=2, at=1, header="period,count", looks_like=_is_period, period_at=0,
    ),
    TraceFormat("ms-livemaps", "Live Maps back end: times in microseconds, one after the other", "iats", "us", "zero"),
)  # fmt: skip

TRACE_FORMATS: dict[str, TraceFormat] = {format.name: format for format in _PUBLISHED_FORMATS}


def find_format(name: str) -> TraceFormat | None:
    """Return the format of this name, or None for ``plain``: numbers alone or in a column."""
    if name == "plain":
        return None
    if name not in TRACE_FORMATS:
        known = ", ".join(("auto", "plain", *TRACE_FORMATS))
        raise ConfigurationError(f"format: unknown {name!r}; known: {known}", field="format")
    return TRACE_FORMATS[name]


def recognise(path: Path) -> TraceFormat | None:
    """Return the format whose header, first row or name this file has, or None if it has none of them.

    Unreadable files are not reported here, but when they are read.
    """
    if inner_suffix(path) in (".npy", ".parquet"):
        return None
    for format in TRACE_FORMATS.values():
        if format.file_name is not None and path.name.lower().startswith(format.file_name):
            return format
    try:
        with open_bytes(path) as file:
            lines = [file.readline(4096).removeprefix(b"\xef\xbb\xbf").decode() for _ in range(2)]
    except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error):
        return None
    first, second = (next(csv.reader([line.replace("\r", " ").rstrip("\n")]), []) for line in lines)
    for format in TRACE_FORMATS.values():
        row = first if format.header is None else second
        has_header = format.header is None or ",".join(first) == format.header
        if format.looks_like is not None and has_header and len(row) == format.columns and format.looks_like(row):
            return format
    return None
