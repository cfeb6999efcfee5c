# SPDX-License-Identifier: Apache-2.0
"""Recorded arrivals: sorted times in seconds from the trace's start, in memory or mapped from a file.

Files of any size are read in bounded memory: numbers are checked and written, chunk by chunk, into a ``.npy`` file
that is then mapped.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import ArrayLike

from penstock.arrivals.contract import check_range
from penstock.arrivals.count_files import load_counts
from penstock.arrivals.count_series import CountSeries
from penstock.arrivals.file_cache import cached_file, fingerprint
from penstock.arrivals.trace_files import Chunk, Progress
from penstock.arrivals.trace_times import Reading, TraceSource, check_times, read_times
from penstock.errors import ConfigurationError
from penstock.ports import FloatArray


class Trace:
    """Recorded arrival times (:class:`penstock.arrivals.contract.Arrivals`).

    Parameters
    ----------
    times
        Seconds from the trace's start, none smaller than the one before.
    name
        The name of the trace in errors.
    is_checked
        The times come from `load_trace` or `save_npy` and are not checked again.

    Raises
    ------
    ConfigurationError
        Empty, unsorted, negative, NaN or infinite.
    """

    def __init__(self, times: ArrayLike, *, name: str = "trace", is_checked: bool = False) -> None:
        self.name = name
        self._times: FloatArray = np.asanyarray(times, dtype=np.float64)
        if self._times.ndim != 1 or not len(self._times):
            raise _empty(name)
        if not is_checked:
            last = 0.0
            for start in range(0, len(self._times), 1 << 16):
                part = self._times[start : start + (1 << 16)]
                check_times(name, part, last, Chunk(part, range(start, start + len(part)), "index"))
                last = float(part[-1])

    @property
    def total(self) -> int:
        """The number of records."""
        return len(self._times)

    @property
    def duration_seconds(self) -> float:
        """Seconds from the trace's start to its last arrival."""
        return float(self._times[-1])

    def count_until(self, t: float) -> int:
        """Return how many records have arrived at `t`."""
        return int(np.searchsorted(self._times, t, side="right"))

    def times(self, start: int, stop: int) -> FloatArray:
        """Return when the records `start` to `stop` (not included) arrived."""
        check_range(start, stop, self.total)
        return np.array(self._times[start:stop])

    def save_npy(self, path: str | Path) -> None:
        """Write the times as a ``.npy`` file, which loads without being read through."""
        with Path(path).open("wb") as file:
            np.lib.format.write_array(file, self._times, allow_pickle=False)

    def __repr__(self) -> str:
        return f"Trace({self.name!r}: {self.total} arrivals in {self.duration_seconds:g} s)"


def load_trace(
    path: str | Path,
    *,
    column: str | None = None,
    unit: str | None = None,
    kind: str | None = None,
    origin: str | None = None,
    format: str = "auto",
    period_seconds: float | None = None,
    spread: str = "random",
    seed: int = 0,
    cache_dir: Path | None = None,
    progress: Progress | None = None,
) -> Trace | CountSeries:
    """Load the trace in a text, csv, npy or parquet file. Text and csv may be compressed (``.gz``, ``.xz``).

    Text and csv may hold ISO timestamps (``2026-01-31T12:00:00.123Z``) in place of numbers. They are arrivals that
    count from the first; without an offset they are read as UTC.

    Parameters
    ----------
    column
        The column's name or number (from 0), for csv and parquet with more than one.
    unit
        Unit of the file's numbers: ``s`` (default), ``ms``, ``us``, ``ns``, ``m``, ``h`` or ``d``. For counts, the
        length of a period.
    kind
        ``arrivals`` (default): the numbers are times. ``iats``: the times between arrivals, the first from the start.
        ``counts``: how many arrived in each period.
    origin
        ``zero`` (default): times count from 0. ``first``: from the first arrival, for absolute times.
    format
        ``plain``, or the name of a published trace (`penstock.arrivals.TRACE_FORMATS`), which sets all of the above.
        ``auto``: recognised by the file's header or first row, if that is unique and none of the above contradicts.
    period_seconds
        For counts, the length of a period if it is not one `unit`.
    spread, seed
        For counts, where in their period records arrive (`CountSeries`).
    cache_dir
        The folder that keeps the converted trace for later calls and other processes. None: deleted with the Trace.
    progress
        Receives which part of the file has been read.

    Raises
    ------
    ConfigurationError
        Names the file, the line and the fix.
    """
    path = Path(path)
    reading = Reading(column, unit, kind, origin, format, period_seconds, spread, seed)
    if cache_dir is not None:
        identity = (*fingerprint(path, "trace"), reading)
    source = reading.of(path)
    if source.kind == "counts":
        return load_counts(source, progress)
    if cache_dir is not None:
        npy = cached_file(cache_dir, "trace.npy", identity, partial(_write_npy, source, progress))
        return Trace(np.load(npy, mmap_mode="r", allow_pickle=False), name=str(path), is_checked=True)
    with tempfile.TemporaryFile() as file:  # unnamed: deleted with the mapping, even after a kill
        offset, count = write_npy(read_times(source, progress), cast("BinaryIO", file), _empty(str(path)))
        times = np.memmap(file, dtype=np.float64, mode="r", offset=offset, shape=(count,))
    return Trace(times, name=str(path), is_checked=True)


def _empty(name: str) -> ConfigurationError:
    return ConfigurationError(f"trace: {name} has no arrivals; give at least one time", field="trace")


def _write_npy(source: TraceSource, progress: Progress | None, file: BinaryIO) -> None:
    write_npy(read_times(source, progress), file, _empty(str(source.path)))


def write_npy(parts: Iterable[FloatArray], file: BinaryIO, nothing: ConfigurationError) -> tuple[int, int]:
    """Write the parts as one npy array. Return the offset of its data and its length.

    Raises `nothing` if all parts are empty.
    """
    header = {"descr": "<f8", "fortran_order": False, "shape": (0,)}
    np.lib.format.write_array_header_1_0(file, header)
    offset, count = file.tell(), 0
    for part in parts:
        file.write(np.ascontiguousarray(part, dtype="<f8").data)
        count += len(part)
    if not count:
        raise nothing
    # The length is known only now. The format pads headers so that a longer number fits in place.
    file.seek(0)
    np.lib.format.write_array_header_1_0(file, header | {"shape": (count,)})
    if file.tell() != offset:
        raise AssertionError("the npy header changed its length")
    file.flush()
    return offset, count
