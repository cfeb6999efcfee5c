# SPDX-License-Identifier: Apache-2.0
"""Messages received and not yet acknowledged, on disk under numbers. A queue has no offsets; the spool adds them.

A row's life: received, appended (synced to disk), taken by a batch, the batch is committed, acknowledged, removed.
If a row was appended but the broker never saw its acknowledgement, the broker sends it again on another channel, marked
`redelivered`. The spool remembers such rows, across restarts too, and marks the copy with the number of the row it
repeats (`duplicate_of`). A producer that lost its connection may send a message twice. Where producers are known never
to give a number to two messages (`marks_resent`), such copies are recognised too.
"""

from __future__ import annotations

import fcntl
import time
import uuid
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from penstock.adaptors.rabbitmq.message import Message, as_batch, identity
from penstock.adaptors.rabbitmq.spool_arrivals import cut_copies, cut_times, write_copies, write_times
from penstock.adaptors.rabbitmq.spool_files import Segment, Slice, load, segments_in, slices, sync_folder, write_segment
from penstock.errors import AdaptorError, ConfigurationError

_LOCK_SECONDS = 15.0  # the reader of a driver that was just killed needs a moment to notice
_REMEMBER_SECONDS = 3600.0  # by then a broker has long since delivered again whatever it will


_RECENT_ROWS = 100_000  # a producer sends at most so many again (publisher.MOST_UNCONFIRMED)


class _Live:
    """A segment of the current channel, with what is needed to acknowledge it."""

    def __init__(self, segment: Segment, messages: Sequence[Message]) -> None:
        self.segment = segment
        self.tags = [message.delivery_tag for message in messages]
        self.identities = [message.identity for message in messages]
        self.bytes = sum(len(message.body) for message in messages)


class Spool:
    """The spool of one query. One process writes it, ensured by a lock. Tasks read its files.

    Parameters
    ----------
    folder
        Its folder, created if it does not exist.
    marks_resent
        Whether a message with the producer and sequence of one of the newest 100,000 is its copy, even if the broker
        delivers it for the first time.
    """

    def __init__(self, folder: Path, *, marks_resent: bool = False) -> None:
        self._marks_resent = marks_resent
        self.folder = folder.absolute()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock_file = self._lock()
        (self.folder / "unfinished").unlink(missing_ok=True)
        self._id_path = self.folder / "id"
        self.is_begun = False
        self._next = 0
        self._live: list[_Live] = []
        self._old: list[Segment] = segments_in(self.folder)
        self._known: dict[str, int] = {}  # rows whose acknowledgement the broker never saw, by identity
        self._old_identities: dict[str, set[str]] = {}  # of each old segment, by path
        self._remembered_at: dict[str, float] = {}  # when each of them was, by path
        self._done = 0  # Spark is done with the rows below this number
        self._recent: OrderedDict[str, int] = OrderedDict()  # the newest rows that their producer has numbered

    @property
    def id(self) -> str:
        """The identity of this spool, part of every offset."""
        if not self._id_path.exists():
            self._set_id(uuid.uuid4().hex)
        return self._id_path.read_text()

    @property
    def next_number(self) -> int:
        """One more than the newest row's number."""
        return self._next

    @property
    def bytes(self) -> int:
        """Size of the bodies held that no batch is done with."""
        return sum(live.bytes for live in self._live)

    @property
    def rows(self) -> int:
        """Number of rows held that no batch is done with."""
        return sum(live.segment.rows for live in self._live)

    def check_id(self, spool_id: str) -> None:
        """Refuse an offset of another spool. An empty spool takes over the offset's identity."""
        if not self._id_path.exists():
            self._set_id(spool_id)
        if spool_id != self.id:
            raise ConfigurationError(
                f"spoolDir: {self.folder} belongs to another checkpoint; give each query its own folder, and "
                "keep it with its checkpoint",
                field="spoolDir",
            )

    def begin(self, start: int) -> None:
        """Continue after the rows below `start`, all of which Spark is done with.

        Rows from `start` on were never in a batch. They are dropped, and the broker delivers them again.
        """
        kept = []
        for segment in self._old:
            if segment.first < start < segment.stop:
                part = load(segment).slice(0, start - segment.first)
                kept.append(write_segment(self.folder, segment.first, part))
            elif segment.stop <= start:
                kept.append(segment)
                continue
            Path(segment.path).unlink()
        sync_folder(self.folder)
        cut_times(self.folder, start)
        cut_copies(self.folder, start)
        self._old = []
        for segment in kept:
            self._remember(segment, load(segment))
        self._next = self._done = start
        self.is_begun = True
        self._forget_old()

    def append(self, messages: Sequence[Message]) -> None:
        """Write messages to disk under the next numbers."""
        if not messages:
            return
        repeats = [self._row_repeated(m, number) for number, m in enumerate(messages, self._next)]
        segment = write_segment(self.folder, self._next, as_batch(messages, self._next, repeats))
        times = [m.arrival_us if m.due_us is None else m.due_us for m in messages]
        write_times(self.folder, self._next, np.array(times, np.int64))
        write_copies(self.folder, [self._next + i for i, repeated in enumerate(repeats) if repeated is not None])
        self._live.append(_Live(segment, messages))
        self._next = segment.stop

    def _row_repeated(self, message: Message, number: int) -> int | None:
        name = message.identity
        if name is None:
            return None
        # The broker marks what it delivers again: anything else is new, unless its producer is known to be careful.
        repeated = self._known.get(name) if message.redelivered else None
        if repeated is None and self._marks_resent and not message.message_id:
            repeated = self._recent.get(name)
            if repeated is None:
                self._recent[name] = number
                if len(self._recent) > _RECENT_ROWS:
                    self._recent.popitem(last=False)
        return repeated

    def last_tag(self, end: int) -> int | None:
        """Return the delivery tag of the last row below `end` from the current channel, or None if there is none."""
        for live in reversed(self._live):
            if live.segment.first < end:
                return live.tags[min(end, live.segment.stop) - live.segment.first - 1]
        return None

    def release(self, end: int) -> None:
        """Forget the rows below `end`. Spark is done with them, and the broker has seen their acknowledgement."""
        self._done = max(self._done, end)
        while self._live and self._live[0].segment.stop <= end:
            live = self._live.pop(0)
            Path(live.segment.path).unlink()
            for name in live.identities:
                if name is not None:
                    self._known.pop(name, None)
        self._forget_old()

    def lose_channel(self) -> None:
        """Treat the rows held as unacknowledged: their delivery tags died with the channel."""
        for live in self._live:
            self._remember(live.segment, load(live.segment))
        self._live = []

    def find(self, start: int, stop: int) -> list[Slice]:
        """Return where the rows `start` to `stop` are."""
        held = [*self._old, *(live.segment for live in self._live)]
        return slices(held, start, stop)

    def close(self) -> None:
        """Release the lock, so that another process can use the spool."""
        self._lock_file.close()

    def _remember(self, segment: Segment, rows: pa.RecordBatch) -> None:
        fields = (rows.column(name).to_pylist() for name in ("message_id", "producer", "sequence"))
        names = [identity(*row) for row in zip(*fields, strict=True)]
        for number, name in enumerate(names, segment.first):
            if name is not None:
                self._known.setdefault(name, number)
        self._remembered_at[segment.path] = time.monotonic()
        self._old.append(segment)
        self._old_identities[segment.path] = {name for name in names if name is not None}

    def _forget_old(self) -> None:
        # Keep an old segment while a batch may still read it, or while a copy of one of its rows may still come.
        now, kept = time.monotonic(), []
        for segment in self._old:
            names = self._old_identities.get(segment.path, set())
            is_late = now - self._remembered_at.get(segment.path, now) > _REMEMBER_SECONDS
            if segment.stop <= self._done and (is_late or self._known.keys().isdisjoint(names)):
                Path(segment.path).unlink()
                self._old_identities.pop(segment.path, None)
                self._remembered_at.pop(segment.path, None)
                for name in names:  # its copies no longer come: else they would be remembered for ever
                    if segment.first <= self._known.get(name, -1) < segment.stop:
                        del self._known[name]
            else:
                kept.append(segment)
        self._old = kept

    def _set_id(self, spool_id: str) -> None:
        self._id_path.write_text(spool_id)
        sync_folder(self.folder)

    def _lock(self) -> BinaryIO:
        file = (self.folder / "lock").open("wb")
        give_up_at = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return file
            except BlockingIOError as fault:
                if time.monotonic() > give_up_at:
                    file.close()
                    raise AdaptorError(
                        f"spoolDir: {self.folder} is in use by another query; give each query its own folder",
                        target="RabbitMQ spool",
                    ) from fault
            time.sleep(0.1)
