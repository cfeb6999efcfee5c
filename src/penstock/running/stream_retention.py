# SPDX-License-Identifier: Apache-2.0
"""Removes files of folder streams that every reader has done with, so that a run of weeks does not fill the disk.

What a reader has done is in its checkpoint: the committed offset, and the log of its source, which names the files of
each offset. A file goes when all readers are past it and have been for some time. That time is counted by a clock that
nobody sets: a wall clock that jumps removes nothing.
"""

from __future__ import annotations

import json
import logging
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.adaptors.spark.file_stream import local_path
from penstock.running.checkpoint_files import committed_offsets

_LOG = logging.getLogger(__name__)
_MOST_REMOVED = 5_000
"""In one sweep, so that it does not hold up the passes."""


class ReadFiles:
    """The files that one query has done with, in order, each once.

    Parameters
    ----------
    checkpoint
        Of the query; it reads one folder.
    retention_seconds
        How long after the query has done with them.
    """

    def __init__(self, checkpoint: Path, retention_seconds: float) -> None:
        self._checkpoint, self._retention = checkpoint, retention_seconds
        self._done: deque[tuple[int, float]] = deque()
        """Offsets that were committed, and when that was first seen."""
        self._place = 0
        """In the newest compact entry: how many bytes name files that were given. Each repeats the one before."""

    def due(self, now: float, most: int = _MOST_REMOVED) -> list[Path]:
        """Return files that are due and were not given before. `now`: by a clock that nobody sets."""
        committed = _log_offset(committed_offsets(self._checkpoint))
        if committed is not None and (not self._done or committed > self._done[-1][0]):
            self._done.append((committed, now))
        while len(self._done) > 1 and now - self._done[1][1] >= self._retention:
            self._done.popleft()
        if not self._done or now - self._done[0][1] < self._retention:
            return []
        return self._files_up_to(self._done[0][0], most)

    def _files_up_to(self, offset: int, most: int) -> list[Path]:
        log = self._checkpoint / "sources" / "0"
        numbers = [int(path.name.removesuffix(".compact")) for path in log.glob("[0-9]*.compact")]
        if not numbers:
            return []
        found: list[Path] = []
        with (log / f"{max(numbers)}.compact").open("rb") as opened:
            opened.seek(self._place)
            while len(found) < most and (line := opened.readline()):
                entry = _entry(line)
                if entry is not None:
                    if entry["batchId"] > offset:
                        break
                    found.append(local_path(entry["path"], "path"))
                self._place = opened.tell()
        return found


class StreamRetention:
    """Removes what was read from the folders that join operators.

    Parameters
    ----------
    readers
        For each folder, the checkpoints of the queries that read it. A folder that nobody reads is a result: it stays.
    retention_seconds
        How long a file stays after its last reader has done with it.
    """

    def __init__(self, readers: Mapping[Path, Sequence[Path]], retention_seconds: float) -> None:
        self._readers = {
            folder: [ReadFiles(checkpoint, retention_seconds) for checkpoint in checkpoints]
            for folder, checkpoints in readers.items()
            if checkpoints
        }
        self._passed: dict[Path, Counter[Path]] = {folder: Counter() for folder in self._readers}
        """How many readers are done with a file that others still need."""

    def sweep(self, now: float) -> list[str]:
        """Remove what is due. Return what could not be done, a line each."""
        faults = []
        for folder, readers in self._readers.items():
            try:
                removed = self._sweep(folder, readers, now)
            except (OSError, ValueError) as fault:
                faults.append(f"files of {folder} that were read cannot be removed: {fault}")
            else:
                if removed:
                    _LOG.info("removed %d files of %s that were read", removed, folder)
        return faults

    def _sweep(self, folder: Path, readers: Sequence[ReadFiles], now: float) -> int:
        passed, removed = self._passed[folder], 0
        for reader in readers:
            passed.update(reader.due(now))
        for path in [path for path, times in passed.items() if times >= len(readers)]:
            del passed[path]
            # Whatever a log says, nothing outside is touched.
            if folder in path.parents and ".." not in path.parts:
                path.unlink(missing_ok=True)
                path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
                removed += 1
        return removed


def _entry(line: bytes) -> Mapping[str, Any] | None:
    """What a line of the log says of a file; None for the version and empty lines."""
    if not line.startswith(b"{"):
        return None
    entry = json.loads(line)
    if not (isinstance(entry, dict) and isinstance(entry.get("batchId"), int) and isinstance(entry.get("path"), str)):
        raise ValueError("a line of the reader's log names no file")
    return entry


def _log_offset(text: str | None) -> int | None:
    """The n of ``{"logOffset": n}``."""
    if text is None:
        return None
    found = json.loads(text)
    offset = found.get("logOffset") if isinstance(found, dict) else None
    return offset if isinstance(offset, int) else None
