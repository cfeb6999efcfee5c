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
import re
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np

from penstock.errors import ConfigurationError, MetricSourceError
from penstock.ports import FloatArray
from penstock.records import SourceProgress

_LOG_FILE = re.compile(r"^(\d+)(\.compact)?$")
_DESCRIPTION = re.compile(r"^FileStreamSource\[(.*)\]$", re.DOTALL)
_REMEMBERED_FILES = 50_000
_REMEMBERED_BATCHES = 100_000


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
        self._log = _local(checkpoint_folder, "checkpoint") / "sources" / str(source_index)
        self._sink = None if folder is None else _SinkLog(_local(folder, "folder"))

    def of(self, source: SourceProgress) -> FloatArray | None:
        """Return the arrival times of a batch's records, in order, or None for other sources and forgotten files."""
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
        return None if self._sink is None else self._sink.rows_by(at)

    def done_index(self, source: SourceProgress) -> int | None:  # noqa: ARG002 - the port's signature
        """Return None: file offsets number log entries, not records. The rows of the batches are counted instead."""
        return None

    def upstream_batches(self, source: SourceProgress) -> list[int] | None:
        """Return the ids, rising, of the upstream batches whose records a batch carried, or None if one is not known.

        Together with the upstream arrivals of those batches they give the latency along a path.
        """
        files = self._files(source)
        if files is None:
            return None
        batches = {file.batch_id for file in files}
        return None if None in batches else sorted(batch for batch in batches if batch is not None)

    def _files(self, source: SourceProgress) -> list[_CommittedFile] | None:
        described = _DESCRIPTION.match(source.description)
        end = _log_offset(source.end_offset)
        if described is None or end is None:
            return None
        folder = _local(described.group(1), "source", is_encoded=False)
        if self._sink is None:
            self._sink = _SinkLog(folder)
        elif self._sink.folder != folder:
            return None
        start = _log_offset(source.start_offset)
        paths = self._paths(-1 if start is None else start, end)
        if paths is None:
            return None
        return self._sink.files(paths)

    def _paths(self, start: int, end: int) -> list[Path] | None:
        """Return the paths of the files of log offsets above `start`, up to `end`."""
        numbers = _listing(self._log)
        read: dict[str, list[Mapping[str, Any]]] = {}
        paths = []
        for offset in range(start + 1, end + 1):
            # The entry itself, or the first compact one that repeats it.
            held_by = next((n for n in sorted(numbers) if n == offset or (n > offset and numbers[n])), None)
            if held_by is None:
                return None
            name = f"{held_by}.compact" if numbers[held_by] else str(held_by)
            if name not in read:
                entries = _entries(self._log / name)
                if entries is None:
                    return None
                read[name] = entries
            paths += [_local(entry["path"], "path") for entry in read[name] if entry["batchId"] == offset]
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
            entries = _entries(file)
            if entries is not None:
                paths = [_local(entry["path"], "path") for entry in entries]
                self._add(number, committed_at, paths, is_compact=numbers[number])

    def _add(self, number: int, committed_at: float, paths: list[Path], *, is_compact: bool) -> None:
        """Add the entry of batch `number`."""
        follows = number == 0 if self._last is None else number == self._last + 1
        # A compact entry has its own batch's files last. After a gap, the files of several batches are mixed.
        is_exact = follows or not is_compact
        fresh = list(takewhile(lambda path: path not in self._files, reversed(paths)))[::-1]
        at = max(committed_at, self._times[-1] if self._times else 0.0)
        for path in fresh:
            rows = _row_count(path)
            self._files[path] = _CommittedFile(number, at, rows) if is_exact else _CommittedFile(None, None, rows)
        before = (self._totals[-1] if self._totals else 0) if follows else None
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


def _entries(file: Path) -> list[Mapping[str, Any]] | None:
    """Return the lines of one log entry, or None if it was removed."""
    try:
        version, *lines = file.read_text(encoding="utf-8").splitlines()
        if version != "v1":
            raise ValueError(f"its version is {version!r}, not 'v1'")
        return [json.loads(line) for line in lines if line]
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as fault:
        raise MetricSourceError(f"cannot read {file}: {fault}", target=str(file), retryable=True) from fault


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
    except (ValueError, KeyError, TypeError):
        return None
    return value if isinstance(value, int) else None


def _local(location: str | Path, field: str, *, is_encoded: bool = True) -> Path:
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
