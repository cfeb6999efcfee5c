# SPDX-License-Identifier: Apache-2.0
"""The files of a spool: numbered rows in Arrow segments, written whole or not at all, and read by tasks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from penstock.errors import AdaptorError

_SEGMENT_NAME = re.compile(r"(\d{18})-(\d{18})\.arrow")
ROWS_PER_ARROW_BATCH = 10_000


@dataclass(frozen=True, slots=True)
class Segment:
    """One file with the rows from number `first` up to, but not including, `stop`."""

    path: str
    first: int
    stop: int

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.stop - self.first


@dataclass(frozen=True, slots=True)
class Slice:
    """`count` rows of a segment file from row `skip` on. Small enough to send to a task."""

    path: str
    skip: int
    count: int


def segments_in(folder: Path) -> list[Segment]:
    """Return the segments of a spool folder, by number."""
    found = ((path, _SEGMENT_NAME.fullmatch(path.name)) for path in folder.iterdir())
    return sorted(
        (Segment(str(path), int(name[1]), int(name[2])) for path, name in found if name is not None),
        key=lambda segment: segment.first,
    )


def write_segment(folder: Path, first: int, batch: pa.RecordBatch) -> Segment:
    """Write rows to disk durably: after this returns, a crash of the machine does not lose them."""
    segment = Segment(str(folder / f"{first:018d}-{first + batch.num_rows:018d}.arrow"), first, first + batch.num_rows)
    unfinished = folder / "unfinished"
    with unfinished.open("wb") as file:
        with pa.ipc.new_file(file, batch.schema) as writer:
            writer.write_batch(batch)
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(segment.path)
    sync_folder(folder)
    return segment


def sync_folder(folder: Path) -> None:
    """Sync the names of new files to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def load(segment: Segment) -> pa.RecordBatch:
    """Return all rows of a segment."""
    with pa.OSFile(segment.path) as file:
        return pa.ipc.open_file(file).read_all().combine_chunks().to_batches()[0]


def slices(segments: Sequence[Segment], start: int, stop: int) -> list[Slice]:
    """Return where the rows `start` to `stop` are.

    Raises
    ------
    AdaptorError
        Some of them are not in the spool.
    """
    found, at = [], start
    for segment in segments:
        if segment.stop > at and segment.first < stop:
            if segment.first > at:
                break
            end = min(stop, segment.stop)
            found.append(Slice(segment.path, at - segment.first, end - at))
            at = end
    if at < stop:
        raise AdaptorError(
            f"the spool no longer holds the records {at} to {stop} that the checkpoint's last batch took; was its "
            "folder changed? What was not acknowledged is still in RabbitMQ: start the query with a new checkpoint",
            target="RabbitMQ spool",
        )
    return found


def split(found: Sequence[Slice], parts: int) -> list[list[Slice]]:
    """Distribute rows over at most `parts` tasks, evenly and in order.

    Examples
    --------
    >>> split([Slice("a", 0, 3), Slice("b", 0, 2)], 2)
    [[Slice(path='a', skip=0, count=2)], [Slice(path='a', skip=2, count=1), Slice(path='b', skip=0, count=2)]]
    """
    total = sum(part.count for part in found)
    parts = min(parts, total)
    shares: list[list[Slice]] = [[] for _ in range(parts)]
    edges = [total * (i + 1) // parts for i in range(parts)] if parts else []
    at = task = 0
    for piece in found:
        skip, left = piece.skip, piece.count
        while left:
            take = min(left, edges[task] - at)
            if take:
                shares[task].append(Slice(piece.path, skip, take))
            skip, left, at = skip + take, left - take, at + take
            if at == edges[task]:
                task += 1
    return shares


def read(found: Sequence[Slice]) -> Iterator[pa.RecordBatch]:
    """Return the rows of slices as Arrow batches of bounded size."""
    for piece in found:
        try:
            file = pa.memory_map(piece.path)
        except FileNotFoundError as fault:
            raise AdaptorError(
                f"spoolDir: {piece.path} does not exist on this executor; the folder must be at the same path on all "
                "machines (a shared file system)",
                target="RabbitMQ spool",
            ) from fault
        with file:
            rows = pa.ipc.open_file(file).read_all().slice(piece.skip, piece.count)
            yield from rows.to_batches(max_chunksize=ROWS_PER_ARROW_BATCH)
