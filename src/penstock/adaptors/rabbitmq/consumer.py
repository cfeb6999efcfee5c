# SPDX-License-Identifier: Apache-2.0
"""Receives messages from a queue into a spool. A background thread keeps the connection alive between batches."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from penstock.adaptors.rabbitmq.connection import RabbitMQConnection, close_quietly
from penstock.adaptors.rabbitmq.message import Message
from penstock.adaptors.rabbitmq.poison_file import PoisonFile
from penstock.adaptors.rabbitmq.spool import Spool
from penstock.adaptors.rabbitmq.spool_files import Slice
from penstock.errors import AdaptorError

if TYPE_CHECKING:
    from pika import BlockingConnection
    from pika.adapters.blocking_connection import BlockingChannel

log = logging.getLogger(__name__)

ROWS_PER_SEGMENT = 5_000
_FLUSH_SECONDS = 1.0
_TURN_SECONDS = 0.2
_ANSWER_SECONDS = 10.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 10.0


POISON_FILE = "poison.jsonl"
"""In the folder of the spool."""


class SpoolingConsumer:
    """Consumes a queue with bounded prefetch, and acknowledges messages after Spark is done with them.

    Nothing is acknowledged before `done`. Messages received and not acknowledged count against `prefetch`, so a query
    that lags leaves its messages in the broker. A lost connection is restored, however long it takes. `check` raises
    if trying again does not help.

    Parameters
    ----------
    connection, queue, spool
        The source and the destination.
    prefetch
        Most messages received and not yet acknowledged.
    max_bytes
        Size of the bodies held above which no more are taken until batches are done.
    """

    def __init__(
        self, connection: RabbitMQConnection, queue: str, spool: Spool, *, prefetch: int, max_bytes: int
    ) -> None:
        self._connection = connection
        self._queue = queue
        self._spool = spool
        self._prefetch = prefetch
        self._max_bytes = max_bytes
        self._guard = threading.RLock()  # guards the spool and the fields below
        self._received: list[Message] = []
        self._oldest_at = 0.0
        self._done = 0
        self._acknowledged = 0
        self._fault: AdaptorError | None = None
        self._link: BlockingConnection | None = None
        self._tag: str | None = None
        self._is_cancelled = False
        self._wakes: list[threading.Event] = []
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._poison = PoisonFile(spool.folder / POISON_FILE)
        self.unreadable = 0
        """Messages received with a property that no row can hold; they are in the stream, without that property."""

    # --- asked by the reader -----------------------------------------------------------------------------------

    def start(self, number: int) -> None:
        """Connect, and number messages from `number` on. Raises if that fails."""
        link, channel = self._connection.consuming(self._consume)
        with self._guard:
            self._spool.begin(number)
            self._done = self._acknowledged = number
        self._thread = threading.Thread(
            target=self._run, args=(link, channel), name="penstock-rabbitmq-consumer", daemon=True
        )
        self._thread.start()

    @property
    def next_number(self) -> int:
        """One more than the newest row's number in the spool."""
        with self._guard:
            return self._spool.next_number

    @property
    def is_full(self) -> bool:
        """Whether no more messages come before a batch is done."""
        with self._guard:
            return self._spool.rows >= self._prefetch or self._spool.bytes >= self._max_bytes

    def flush(self) -> None:
        """Write everything received so far to the spool, and acknowledge what is done.

        A query may end right after it has asked for this, and its process with it. What is acknowledged later may then
        be lost. Without a connection there is nothing to wait for.
        """
        with self._guard:
            link = self._link
        if link is None:
            return
        flushed = threading.Event()
        with self._guard:
            self._wakes.append(flushed)
        self._wake(link)
        flushed.wait(_ANSWER_SECONDS)

    def done(self, number: int) -> None:
        """Mark the rows below `number` as done. They are acknowledged soon."""
        with self._guard:
            if number <= self._done:
                return
            self._done = number
            link = self._link
        if link is not None:
            self._wake(link)

    def find(self, start: int, stop: int) -> list[Slice]:
        """Return where the rows `start` to `stop` are."""
        with self._guard:
            return self._spool.find(start, stop)

    def check(self) -> None:
        """Raise the error that ended the consumer, if any: the query would wait for ever."""
        with self._guard:
            fault = self._fault
        if fault is not None:
            raise fault
        if self._thread is not None and not self._thread.is_alive() and not self._stopping.is_set():
            raise AdaptorError("the RabbitMQ consumer has died; the driver's log says why", target="RabbitMQ")

    def stop(self) -> None:
        """Acknowledge what is done, close the connection and the spool."""
        self._stopping.set()
        with self._guard:
            link = self._link
        if link is not None:
            self._wake(link)
        if self._thread is not None:
            self._thread.join(_ANSWER_SECONDS)
        self._spool.close()

    # --- the thread --------------------------------------------------------------------------------------------

    def _run(self, link: BlockingConnection, channel: BlockingChannel) -> None:
        pause, lost_at = _FIRST_PAUSE_SECONDS, 0.0
        while True:
            try:
                with self._connection.explained():
                    if lost_at:
                        link = self._connection.open()
                        channel = self._consume(link)
                        log.warning("RabbitMQ is back after %.1f s; resuming", time.monotonic() - lost_at)
                    lost_at, pause = 0.0, _FIRST_PAUSE_SECONDS
                    self._serve(link, channel)
                    return
            except AdaptorError as fault:
                if not fault.retryable:
                    self._end(fault)
                    return
                if not lost_at:
                    log.warning("%s; waiting until it is back", fault)
                    lost_at = time.monotonic()
            finally:
                with self._guard:
                    self._link = None
                    self._answer()
                close_quietly(link)
            with self._guard:
                self._received = []  # the broker delivers them again
                self._spool.lose_channel()
            if self._stopping.wait(pause):
                return
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _serve(self, link: BlockingConnection, channel: BlockingChannel) -> None:
        with self._guard:
            self._link = link
        while not self._stopping.is_set():
            link.process_data_events(_TURN_SECONDS)
            if self._is_cancelled or not channel.is_open:
                self._is_cancelled, self._tag = False, None
                channel.queue_declare(self._queue, passive=True)  # raises the reason: closed, or the queue is gone
            with self._guard:
                # Only these: who asks while this turn writes has to wait for the next.
                asked, self._wakes = self._wakes, []
            try:
                self._write(is_asked=bool(asked))
                self._acknowledge(channel)
            finally:
                for answered in asked:
                    answered.set()
            self._hold_or_go_on(channel)
        self._acknowledge(channel)

    def _write(self, *, is_asked: bool) -> None:
        with self._guard:
            is_due = self._received and time.monotonic() - self._oldest_at >= _FLUSH_SECONDS
            if is_asked or is_due or len(self._received) >= ROWS_PER_SEGMENT:
                messages, self._received = self._received, []
                with self._on_disk():
                    self._spool.append(messages)

    def _acknowledge(self, channel: BlockingChannel) -> None:
        with self._guard:
            end = self._done
            tag = self._spool.last_tag(end) if end > self._acknowledged else None
            is_new = end > self._acknowledged
        if not is_new:
            return
        if tag is not None:
            channel.basic_ack(tag, multiple=True)
            # A reply on the same channel shows that the broker has seen the acknowledgement before it.
            channel.queue_declare(self._queue, passive=True)
        with self._guard, self._on_disk():
            self._spool.release(end)
            self._acknowledged = end

    def _hold_or_go_on(self, channel: BlockingChannel) -> None:
        with self._guard:
            size = self._spool.bytes + sum(len(m.body) for m in self._received)
        if self._tag is not None and size >= self._max_bytes:
            channel.basic_cancel(self._tag)
            self._tag = None
        elif self._tag is None and size < self._max_bytes / 2:
            self._tag = channel.basic_consume(self._queue, self._on_message)

    def _consume(self, link: BlockingConnection) -> BlockingChannel:
        channel = link.channel()
        channel.queue_declare(self._queue, passive=True)
        channel.add_on_cancel_callback(self._on_cancel)
        channel.basic_qos(prefetch_count=self._prefetch)
        self._tag = channel.basic_consume(self._queue, self._on_message)
        return channel

    def _on_message(self, _channel: BlockingChannel, method: Any, properties: Any, body: bytes) -> None:
        if not self._received:
            self._oldest_at = time.monotonic()
        message = Message.of(method, properties, body)
        self._received.append(message)
        if message.unreadable:
            self.unreadable += 1
            self._poison.add(message)
            if str(self.unreadable).strip("0") == "1":  # 1, 10, 100, ...: a producer does so in every message
                log.warning(
                    "%d messages of %s have properties that cannot be read and count as absent, such as %s; the first "
                    "ones stand in %s",
                    self.unreadable, self._queue, ", ".join(message.unreadable), self._poison.path,
                )  # fmt: skip

    def _on_cancel(self, _frame: Any) -> None:
        self._is_cancelled = True  # the broker cancelled the consumer: the queue was deleted or moved

    def _answer(self) -> None:
        for event in self._wakes:
            event.set()
        self._wakes.clear()

    def _wake(self, link: BlockingConnection) -> None:
        from pika.exceptions import ConnectionWrongStateError

        try:
            link.add_callback_threadsafe(_nothing)
        except ConnectionWrongStateError:
            with self._guard:
                self._answer()  # the connection was just lost: the thread handles that

    @contextmanager
    def _on_disk(self) -> Iterator[None]:
        """Distinguish a full disk from a broker that is away: both raise OSError."""
        try:
            yield
        except OSError as fault:
            raise AdaptorError(
                f"spoolDir: {self._spool.folder} is not writable ({fault}); what was not acknowledged is still in "
                "RabbitMQ",
                target="RabbitMQ spool",
            ) from fault

    def _end(self, fault: AdaptorError) -> None:
        log.error("the RabbitMQ source stops: %s", fault)
        with self._guard:
            self._fault = fault


def _nothing() -> None:
    """Wake the connection's thread, so that it checks for work."""
