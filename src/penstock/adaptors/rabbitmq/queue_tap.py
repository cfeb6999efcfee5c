# SPDX-License-Identifier: Apache-2.0
"""The monitor's side of the fanout: reads arrival instants from a queue of its own and ignores payloads.

The tap consumes messages without acknowledgement, so the broker forgets them as it sends them. Above a set rate it
watches part of each second and discards the rest, counted but unread. Times between arrivals are exact inside a watched
stretch, and a break marks where something was not watched.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.adaptors.produce.sink import DUE_HEADER, PRODUCER_HEADER, SEQUENCE_HEADER
from penstock.adaptors.rabbitmq.connection import RabbitMQConnection, close_quietly
from penstock.adaptors.rabbitmq.message import instant_us
from penstock.errors import AdaptorError, ConfigurationError
from penstock.ports import FloatArray

if TYPE_CHECKING:
    from pika import BlockingConnection
    from pika.adapters.blocking_connection import BlockingChannel

log = logging.getLogger(__name__)

_PRODUCERS_KEPT = 10_000
"""Producers whose last number is remembered: a producer that is restarted often has a new name each time."""
_TURN_SECONDS = 0.1
_ANSWER_SECONDS = 10.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 10.0


@dataclass(frozen=True, slots=True)
class TapRun:
    """Consecutive arrival instants, in seconds since the epoch. `follows_break`: earlier ones were not seen.

    `missed`: how many were not, by the numbers that producers give their messages; None: nobody knows.
    """

    times: FloatArray
    follows_break: bool
    missed: int | None = 0


@dataclass(slots=True)
class _Run:
    times: list[float]
    follows_break: bool
    missed: int | None = 0


@dataclass(frozen=True, slots=True)
class TapCounts:
    """What the tap saw and missed.

    `received` messages were read. `let_go` messages were seen to pass above the tap's rate, without those in transit
    while it was not watching. `missed` messages were sent by numbered producers between messages that were read: let
    go, or dropped by the queue's limit.
    """

    received: int
    let_go: int
    missed: int
    breaks: int


class QueueTap:
    """Watches a monitor queue in a background thread. Use as a context manager, or call `start` and `stop`.

    To feed a window of times between arrivals::

        for run in tap.take():
            if run.follows_break:
                windows.interrupt()
            windows.add_times(run.times)

    Parameters
    ----------
    connection, queue
        The monitor's queue (`penstock.adaptors.rabbitmq.fanout`), which must exist.
    most_per_second
        Messages read per second. More are let go.
    """

    def __init__(self, connection: RabbitMQConnection, queue: str, *, most_per_second: int = 5_000) -> None:
        if most_per_second < 2:
            raise ConfigurationError(
                f"most_per_second: {most_per_second} is below 2; a time between arrivals needs two messages",
                field="most_per_second",
            )
        self._connection = connection
        self._queue = queue
        self._most = most_per_second
        self._guard = threading.Lock()
        self._runs = [_Run([], follows_break=False)]
        self._received = self._let_go = self._missed = self._breaks = 0
        self._sequences: dict[str, int] = {}
        self._second_ends_at = 0.0
        self._in_second = 0
        self._tag: str | None = None
        self._is_cancelled = False
        self._fault: AdaptorError | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.is_watching = False
        """Whether messages are being read now: not while the broker is away, or more arrives than is read."""
        self.lost: AdaptorError | None = None
        """Why the broker is away; None: it is not."""

    def start(self) -> None:
        """Connect and start watching. Raises AdaptorError if that fails."""
        link, channel = self._connection.consuming(self._consume)
        self._thread = threading.Thread(
            target=self._run, args=(link, channel), name="penstock-rabbitmq-tap", daemon=True
        )
        self._thread.start()

    def take(self) -> list[TapRun]:
        """Return what arrived since the last call.

        Raises
        ------
        AdaptorError
            The tap has ended for good: its queue is gone, or the server refuses its user.
        """
        with self._guard:
            if self._fault is not None:
                raise self._fault
            runs, self._runs = self._runs, [_Run([], follows_break=False)]
            if not runs[-1].times and runs[-1].follows_break:
                self._runs = [runs[-1]]  # the next arrival reports the break
            return [TapRun(np.array(run.times), run.follows_break, run.missed) for run in runs if run.times]

    def counts(self) -> TapCounts:
        """Return the counts so far."""
        with self._guard:
            return TapCounts(self._received, self._let_go, self._missed, self._breaks)

    def stop(self) -> None:
        """Stop watching and close the connection. May be called twice."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(_ANSWER_SECONDS)

    def __enter__(self) -> QueueTap:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # --- the thread --------------------------------------------------------------------------------------------

    def _run(self, link: BlockingConnection, channel: BlockingChannel) -> None:
        pause, is_lost = _FIRST_PAUSE_SECONDS, False
        while True:
            try:
                with self._connection.explained():
                    if is_lost:
                        link = self._connection.open()
                        channel = self._consume(link)
                        log.warning("the RabbitMQ tap is back")
                    is_lost, pause, self.lost = False, _FIRST_PAUSE_SECONDS, None
                    while not self._stopping.is_set():
                        link.process_data_events(_TURN_SECONDS)
                        if self._is_cancelled or not channel.is_open:
                            self._is_cancelled, self._tag = False, None
                            channel.queue_declare(self._queue, passive=True)  # raises the reason
                        self._pace(channel)
                    return
            except AdaptorError as fault:
                with self._guard:
                    self.is_watching, self.lost = False, fault
                    self._break()
                    if not fault.retryable:
                        self._fault = fault
                        return
                if not is_lost:
                    log.warning("%s; the tap waits until it is back", fault)
                is_lost = True
            finally:
                close_quietly(link)
            if self._stopping.wait(pause):
                return
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _consume(self, link: BlockingConnection) -> BlockingChannel:
        channel = link.channel()
        channel.queue_declare(self._queue, passive=True)
        channel.add_on_cancel_callback(self._on_cancel)
        # Messages that wait there came while nobody watched. Only some of them carry their time.
        channel.queue_purge(self._queue)
        self._watch(channel)
        return channel

    def _watch(self, channel: BlockingChannel) -> None:
        self._tag = channel.basic_consume(self._queue, self._on_message, auto_ack=True)
        self.is_watching = True

    def _pace(self, channel: BlockingChannel) -> None:
        now = time.monotonic()
        if self._tag is not None and self._in_second >= self._most and now < self._second_ends_at:
            pending = channel.basic_cancel(self._tag) or []
            self._tag, self.is_watching = None, False
            with self._guard:
                self._let_go += len(pending)
                self._break()
        if now >= self._second_ends_at:
            self._second_ends_at, self._in_second = now + 1.0, 0
            if self._tag is None:
                let_go = channel.queue_purge(self._queue).method.message_count
                with self._guard:
                    self._let_go += let_go
                self._watch(channel)

    def _on_message(self, _channel: BlockingChannel, _method: Any, properties: Any, _body: bytes) -> None:
        headers = properties.headers or {}
        due_us = instant_us(headers.get(DUE_HEADER))
        at = time.time() if due_us is None else due_us / 1e6
        producer, sequence = headers.get(PRODUCER_HEADER), headers.get(SEQUENCE_HEADER)
        with self._guard:
            if isinstance(producer, str) and isinstance(sequence, int):
                gap = sequence - self._sequences.get(producer, sequence - 1) - 1
                if gap > 0:
                    self._missed += gap
                    self._break()
                    self._runs[-1].missed = gap
                elif producer in self._sequences and not self._runs[-1].times:
                    self._runs[-1].missed = 0  # the break hid nothing
                self._sequences.pop(producer, None)
                self._sequences[producer] = sequence  # at the end: the first is the one not heard of for longest
                if len(self._sequences) > _PRODUCERS_KEPT:
                    del self._sequences[next(iter(self._sequences))]
            self._received += 1
            self._in_second += 1
            self._runs[-1].times.append(at)

    def _on_cancel(self, _frame: Any) -> None:
        self._is_cancelled = True

    def _break(self) -> None:
        if self._runs[-1].times or not self._runs[-1].follows_break:
            self._breaks += 1
            self._runs.append(_Run([], follows_break=True, missed=None))
