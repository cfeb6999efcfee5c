# SPDX-License-Identifier: Apache-2.0
"""When the records of a file stream arrived, for an operator that reads the Parquet folder another query writes.

A record arrives downstream when the upstream query commits the batch that wrote it. Three logs give that exactly:

- ``<checkpoint>/sources/<i>/<n>`` of the reader: the files of log offset n (a batch's offsets are
  ``{"logOffset": n}``; the start is exclusive, a batch's files are those of the offsets after it up to its end);
- ``<folder>/_spark_metadata/<b>`` of the writer: the files of its batch b; the time it was written is the commit;
- the footers of the Parquet files: how many records each holds.

Every tenth entry of both logs is a ``<n>.compact`` that repeats all before it, and the single entries are removed some
ten minutes later. In it the reader's entries keep their offset, but the writer's lose their batch. So files compacted
before the first look have no known commit time, and the answer for them is None.
"""

from __future__ import annotations

import json
import os
import re
import threading
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote, urlsplit

import numpy as np

from penstock.errors import ConfigurationError, MetricSourceError
from penstock.ports import FloatArray
from penstock.records import SourceProgress

_LOG_FILE = re.compile(r"^(\d+)(\.compact)?$")
_DESCRIPTION = re.compile(r"^FileStreamSource\[(.*)\]$", re.DOTALL)
_REMEMBERED_FILES = 50_000
_REMEMBERED_BATCHES = 100_000
_REMEMBERED_DONE = 10_000
_BLOCK_BYTES = 1 << 16


class FileStreamArrivals:
    """Exact arrival times of a query's file source (the `ArrivalTimes` port), read from the logs on disk.

    Parameters
    ----------
    checkpoint_folder
        The reading query's checkpoint, on this machine's file system (a path or a ``file:`` URI).
    source_index
        Which source of the query, counted from 0.
    folder
        The folder that the query reads. None: it is taken from the first progress, and until then nothing is known to
        have arrived.
    """

    def __init__(
        self, checkpoint_folder: str | Path, source_index: int = 0, *, folder: str | Path | None = None
    ) -> None:
        self._log = local_path(checkpoint_folder, "checkpoint") / "sources" / str(source_index)
        self._sink = None if folder is None else _SinkLog(local_path(folder, "folder"))
        self._done_offset = -1
        self._done_rows: int | None = 0
        """Of all files up to `_done_offset`; None: one of them is gone, which no later look changes."""
        self._done_at: OrderedDict[SourceProgress, int | None] = OrderedDict()
        """What was said of batches, for others who ask for the same ones a little later."""
        self._lock = threading.Lock()
        """The loop asks, and so does an agent that reports to a master."""

    def of(self, source: SourceProgress) -> FloatArray | None:
        """Return the arrival times of a batch's records, in order, or None for other sources and forgotten files."""
        with self._lock:
            files = self._files(source)
        if files is None:
            return None
        times = [file.committed_at for file in files]
        rows = [file.rows for file in files]
        if None in times or None in rows:
            return None
        return np.sort(np.repeat(np.array(times, dtype=np.float64), np.array(rows, dtype=np.int64)))

    def arrived_by(self, at: float) -> int | None:
        """Return the records in files that the upstream query committed up to `at`, or None if not known."""
        with self._lock:
            return None if self._sink is None else self._sink.rows_by(at)

    def done_index(self, source: SourceProgress) -> int | None:
        """Return the records in all files up to the batch's end, also those of earlier runs; None if not known."""
        with self._lock:
            end = _log_offset(source.end_offset)
            if end is None or not self._is_own(source):
                return None
            if source not in self._done_at and self._count_done(end):
                self._done_at[source] = self._done_rows
                if len(self._done_at) > _REMEMBERED_DONE:
                    self._done_at.popitem(last=False)
            return self._done_at.get(source)

    def _count_done(self, end: int) -> bool:
        """Count up to an offset; False: its log is not there yet."""
        if end < self._done_offset:  # the reader began anew with an older offset
            self._done_offset, self._done_rows = -1, 0
        paths = self._paths(self._done_offset, end)
        if paths is None or self._sink is None:
            return False
        rows = None if self._done_rows is None else self._sink.rows_of(paths)
        self._done_offset, self._done_rows = end, _sum((self._done_rows, rows))
        return True

    def upstream_batches(self, source: SourceProgress) -> list[int] | None:
        """Return the ids, rising, of the upstream batches whose records a batch carried, or None if one is not known.

        Together with the upstream arrivals of those batches they give the latency along a path.
        """
        with self._lock:
            files = self._files(source)
        if files is None:
            return None
        batches = {file.batch_id for file in files}
        return None if None in batches else sorted(batch for batch in batches if batch is not None)

    def _files(self, source: SourceProgress) -> list[_CommittedFile] | None:
        end = _log_offset(source.end_offset)
        if end is None or not self._is_own(source):
            return None
        start = _log_offset(source.start_offset)
        paths = self._paths(-1 if start is None else start, end)
        return None if paths is None or self._sink is None else self._sink.files(paths)

    def _is_own(self, source: SourceProgress) -> bool:
        """Return whether the source reads the folder; the first one seen does where none was given."""
        described = _DESCRIPTION.match(source.description)
        if described is None:
            return False
        folder = local_path(described.group(1), "source", is_encoded=False)
        if self._sink is None:
            self._sink = _SinkLog(folder)
        return self._sink.folder == folder

    def _paths(self, start: int, end: int) -> list[Path] | None:
        """Return the paths of the files of log offsets above `start`, up to `end`."""
        numbers = _listing(self._log)
        rising = sorted(numbers)
        read: dict[str, dict[int, list[Path]]] = {}
        paths = []
        for offset in range(start + 1, end + 1):
            # The entry itself, or the first compact one that repeats it.
            held_by = next((n for n in rising if n == offset or (n > offset and numbers[n])), None)
            if held_by is None:
                return None
            name = f"{held_by}.compact" if numbers[held_by] else str(held_by)
            if name not in read:
                # The newest stand last, and a compact entry has all there ever were: no more is read than is needed.
                entries = entries_from_end(self._log / name, lambda entry: entry["batchId"] <= start)
                if entries is None:
                    return None
                read[name] = {}  # by offset: after a resume there may be very many of both
                for entry in entries:
                    read[name].setdefault(entry["batchId"], []).append(local_path(entry["path"], "path"))
            paths += read[name].get(offset, [])
        return paths


@dataclass(frozen=True, slots=True)
class _CommittedFile:
    """A file of the upstream folder. Batch and time are None if they were compacted before the first look."""

    batch_id: int | None
    committed_at: float | None
    rows: int | None


class _SinkLog:
    """The upstream query's log of committed files, read incrementally."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._log = folder / "_spark_metadata"
        self._last: int | None = None
        self._files: OrderedDict[Path, _CommittedFile] = OrderedDict()
        self._times: deque[float] = deque(maxlen=_REMEMBERED_BATCHES)
        self._totals: deque[int | None] = deque(maxlen=_REMEMBERED_BATCHES)
        self._is_whole = True
        """Whether `_times` goes back to the first commit and leaves none out."""

    def files(self, paths: list[Path]) -> list[_CommittedFile] | None:
        """Return the files under these paths, or None if one is not known to be committed."""
        self._read_on()
        found = [self._files.get(path) for path in paths]
        return None if None in found else [file for file in found if file is not None]

    def rows_of(self, paths: list[Path]) -> int | None:
        """Return the rows of the files under these paths, or None if one is gone."""
        return _sum(self._rows(path) for path in paths)

    def rows_by(self, at: float) -> int | None:
        """Return the rows committed up to `at`."""
        self._read_on()
        place = bisect_right(self._times, at)
        if place == 0:
            return 0 if self._is_whole and self._log.is_dir() else None
        return self._totals[place - 1]

    def _read_on(self) -> None:
        numbers = _listing(self._log)
        for number in sorted(n for n in numbers if self._last is None or n > self._last):
            file = self._log / (f"{number}.compact" if numbers[number] else str(number))
            try:
                committed_at = file.stat().st_mtime
            except FileNotFoundError:
                continue  # removed after the listing: the next compact entry repeats it
            # Where the total is known it goes on with what is new. Otherwise it is counted from the start.
            is_end_enough = self._follows(number) and self._total() is not None
            entries = entries_from_end(file, self._is_known) if is_end_enough else entries_from_end(file)
            if entries is not None:
                paths = [local_path(entry["path"], "path") for entry in entries]
                self._add(number, committed_at, paths, is_compact=numbers[number])

    def _follows(self, number: int) -> bool:
        return number == 0 if self._last is None else number == self._last + 1

    def _total(self) -> int | None:
        return self._totals[-1] if self._totals else 0

    def _is_known(self, entry: Mapping[str, Any]) -> bool:
        return local_path(entry["path"], "path") in self._files

    def _add(self, number: int, committed_at: float, paths: list[Path], *, is_compact: bool) -> None:
        """Add the entry of batch `number`."""
        follows = self._follows(number)
        # A compact entry has its own batch's files last. After a gap, the files of several batches are mixed.
        is_exact = follows or not is_compact
        fresh = list(takewhile(lambda path: path not in self._files, reversed(paths)))[::-1]
        at = max(committed_at, self._times[-1] if self._times else 0.0)
        for path in fresh:
            rows = _row_count(path)
            self._files[path] = _CommittedFile(number, at, rows) if is_exact else _CommittedFile(None, None, rows)
        before = self._total() if follows else None
        if before is None and is_compact:  # it repeats everything: count from the start
            total = _sum(self._rows(path) for path in paths)
        else:
            total = _sum([before, *(self._files[path].rows for path in fresh)])
        if len(self._times) == _REMEMBERED_BATCHES or not follows:
            self._is_whole = False
        self._times.append(at)
        self._totals.append(total)
        self._last = number
        while len(self._files) > _REMEMBERED_FILES:
            self._files.popitem(last=False)

    def _rows(self, path: Path) -> int | None:
        known = self._files.get(path)
        return _row_count(path) if known is None else known.rows


def _sum(counts: Iterable[int | None]) -> int | None:
    """Return the sum, or None if one is not known."""
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total


def _listing(folder: Path) -> dict[int, bool]:
    """Return the numbers of a log's entries, each with whether it is compact."""
    try:
        matches = [_LOG_FILE.match(child.name) for child in folder.iterdir()]
    except FileNotFoundError:
        return {}
    except OSError as fault:
        raise MetricSourceError(f"cannot list {folder}: {fault}", target=str(folder), retryable=True) from fault
    return {int(match.group(1)): match.group(2) is not None for match in matches if match is not None}


def entries_from_end(
    file: Path, is_before: Callable[[Mapping[str, Any]], bool] = lambda _: False
) -> list[Mapping[str, Any]] | None:
    """Return the lines of one log entry in order, or None if it was removed.

    It is read from its end, up to the last line for which `is_before` holds, which is left out. Over weeks a compact
    entry grows to some hundred thousand lines, of which few are new.
    """
    try:
        with file.open("rb") as opened:
            if (version := opened.readline().strip()) != b"v1":
                raise ValueError(f"its version is {version.decode(errors='replace')!r}, not 'v1'")
            found: list[Mapping[str, Any]] = []
            for line in _lines_from_end(opened, opened.tell()):
                if line.strip():
                    entry = json.loads(line)
                    if is_before(entry):
                        break
                    found.append(entry)
            return found[::-1]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as fault:
        raise MetricSourceError(f"cannot read {file}: {fault}", target=str(file), retryable=True) from fault


def _lines_from_end(opened: BinaryIO, begin: int) -> Iterator[bytes]:
    """The lines after the byte `begin`, the last one first."""
    place, rest = opened.seek(0, os.SEEK_END), b""
    while place > begin:
        size = min(_BLOCK_BYTES, place - begin)
        place -= size
        opened.seek(place)
        first, *lines = (opened.read(size) + rest).split(b"\n")
        yield from reversed(lines)
        rest = first
    yield rest


def _row_count(file: Path) -> int | None:
    """Return the records in a Parquet file by its footer, or None if the file is gone or is not a Parquet file."""
    from pyarrow import ArrowInvalid
    from pyarrow.parquet import read_metadata

    try:
        return int(read_metadata(file).num_rows)
    except (FileNotFoundError, ArrowInvalid):
        return None


def _log_offset(offset: str | None) -> int | None:
    """Return the n of ``{"logOffset": n}``, or None without an offset and for other sources' offsets."""
    if offset is None:
        return None
    try:
        value = json.loads(offset)["logOffset"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def local_path(location: str | Path, field: str, *, is_encoded: bool = True) -> Path:
    """Return the path of a local file or ``file:`` URI. `is_encoded`: the URI has %20 for a space."""
    if isinstance(location, Path) or ("://" not in location and not location.startswith("file:")):
        return Path(location)
    scheme, _, rest = location.partition(":")
    if scheme != "file":
        raise ConfigurationError(
            f"{field}: {location!r} is not on this machine's file system; file streams are measured on local "
            "paths only",
            field=field,
        )
    path = "/" + rest.lstrip("/")
    return Path(unquote(urlsplit("file://" + path).path) if is_encoded else path)
