# SPDX-License-Identifier: Apache-2.0
"""Inter-arrival times of a trace: one window without reading further, or all of them with random access.

They are computed from the file's own numbers, not from times in seconds, so no digit is lost far from the start.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol, cast

import numpy as np

from penstock.arrivals.count_files import load_counts
from penstock.arrivals.count_series import CountSeries
from penstock.arrivals.file_cache import cached_file, fingerprint
from penstock.arrivals.trace import write_npy
from penstock.arrivals.trace_files import Progress
from penstock.arrivals.trace_times import Reading, read_gaps
from penstock.errors import ConfigurationError
from penstock.ports import FloatArray

_ROWS_PER_BLOCK = 1 << 18
_TOO_FEW_ARRIVALS = "has fewer than two arrivals, so no time between them; give a longer trace"


class Gaps(Protocol):
    """Inter-arrival times in order, in seconds. Time zero is the first one's start."""

    @property
    def total(self) -> int:
        """The number of inter-arrival times."""
        ...

    def window(self, start: int, stop: int) -> FloatArray:
        """Return those from `start` to `stop` (not included)."""
        ...

    def edges(self, size: int) -> FloatArray:
        """Return when each `size`-th of them starts, and when the last ends."""
        ...


class MappedGaps:
    """Inter-arrival times in an array, which may be memory-mapped."""

    def __init__(self, gaps: FloatArray) -> None:
        self._gaps = gaps

    @property
    def total(self) -> int:
        """The number of inter-arrival times."""
        return len(self._gaps)

    def window(self, start: int, stop: int) -> FloatArray:
        """Return those from `start` to `stop` (not included)."""
        return np.array(self._gaps[start:stop])

    def edges(self, size: int) -> FloatArray:
        """Return when each `size`-th of them starts, and when the last ends."""
        sums = [float(np.sum(self._gaps[start : start + size])) for start in range(0, self.total, size)]
        return np.concatenate([[0.0], np.cumsum(sums)])


class CountedGaps:
    """Inter-arrival times of a series of counts, computed on demand."""

    def __init__(self, series: CountSeries) -> None:
        self._series = series

    @property
    def total(self) -> int:
        """The number of inter-arrival times."""
        return self._series.total - 1

    def window(self, start: int, stop: int) -> FloatArray:
        """Return those from `start` to `stop` (not included)."""
        return np.diff(self._series.times(start, min(stop, self.total) + 1))

    def edges(self, size: int) -> FloatArray:
        """Return when each `size`-th of them starts, and when the last ends."""
        places = [*range(0, self.total, size), self.total]
        times = np.array([float(self._series.times(i, i + 1)[0]) for i in places])
        since: FloatArray = times - times[0]
        return since


def open_gaps(
    path: str | Path, reading: Reading, *, cache_dir: Path | None = None, progress: Progress | None = None
) -> Gaps:
    """Return all inter-arrival times of a file, with random access in little memory.

    Parameters
    ----------
    cache_dir
        The folder that keeps them as an array for the next call and for other processes. None: deleted with the result.
    """
    path = Path(path)
    identity = (*fingerprint(path, "trace"), reading, "gaps")
    source = reading.of(path)
    nothing = ConfigurationError(f"trace: {path} {_TOO_FEW_ARRIVALS}", field="trace")
    if source.kind == "counts":
        return CountedGaps(load_counts(source, progress))

    def write(file: BinaryIO) -> None:
        write_npy(read_gaps(source, progress), file, nothing)

    if cache_dir is not None:
        npy = cached_file(cache_dir, "gaps.npy", identity, write)
        return MappedGaps(np.load(npy, mmap_mode="r", allow_pickle=False))
    with tempfile.TemporaryFile() as file:  # unnamed: deleted with the mapping, even after a kill
        offset, count = write_npy(read_gaps(source, progress), cast("BinaryIO", file), nothing)
        return MappedGaps(np.memmap(file, dtype=np.float64, mode="r", offset=offset, shape=(count,)))


def read_window(
    path: str | Path, reading: Reading, *, skip: int = 0, size: int | None = None, progress: Progress | None = None
) -> FloatArray:
    """Return `size` inter-arrival times after the first `skip`, or as many as there are. The file is read no further.

    Raises
    ------
    ConfigurationError
        The file has no more than `skip`.
    """
    path = Path(path)
    source = reading.of(path)
    parts: list[FloatArray] = []
    stop, seen = None if size is None else skip + size, 0
    counted = source.kind == "counts"
    for gaps in _blocks(CountedGaps(load_counts(source, progress))) if counted else read_gaps(source, progress):
        parts.append(gaps[max(0, skip - seen) : None if stop is None else stop - seen])
        seen += len(gaps)
        if stop is not None and seen >= stop:
            break
    window = np.concatenate(parts) if parts else np.empty(0)
    if not len(window):
        what = f"has {seen} inter-arrival times, none after the first {skip}; skip fewer" if seen else _TOO_FEW_ARRIVALS
        raise ConfigurationError(f"trace: {path} {what}", field="trace")
    return window


def _blocks(gaps: Gaps) -> Iterator[FloatArray]:
    for start in range(0, gaps.total, _ROWS_PER_BLOCK):
        yield gaps.window(start, min(start + _ROWS_PER_BLOCK, gaps.total))
