# SPDX-License-Identifier: Apache-2.0
"""Publishes prepared messages to an exchange in slices, with publisher confirms, from one thread.

After a lost connection it connects again and sends again what was not confirmed. The broker may then hold a message
twice, under the same sequence number.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from penstock.adaptors.produce.sink import Delivery
from penstock.adaptors.rabbitmq.amqp_frames import FrameTemplate
from penstock.adaptors.rabbitmq.confirms import Confirms
from penstock.adaptors.rabbitmq.connection import RabbitMQConnection
from penstock.errors import AdaptorError

if TYPE_CHECKING:
    from pika import SelectConnection
    from pika.channel import Channel

MOST_UNCONFIRMED = 100_000
_CHANNEL = 1
_OPEN_SECONDS = 20.0
_CLOSE_SECONDS = 3.0
_PAUSE_SECONDS = 0.5


class RabbitMQSink:
    """An exchange to send to (`penstock.adaptors.produce.sink.Sink`).

    Messages carry producer, sequence and due instant in their headers (`penstock.adaptors.rabbitmq.message`).
    A message that no queue takes is a failure: the broker returns it.

    Parameters
    ----------
    connection, exchange, routing_key
        The destination. The exchange ``""`` delivers to the queue that the routing key names.
    producer
        Identifies this producer's messages.
    is_persistent
        Whether durable queues keep the messages on disk.
    retry_seconds
        How long to try to restore a lost connection.

    Raises
    ------
    AdaptorError
        The server is unreachable or refuses the user, the exchange does not exist, or later the connection is lost for
        longer than `retry_seconds`.
    """

    def __init__(
        self,
        connection: RabbitMQConnection,
        exchange: str,
        routing_key: str,
        producer: str,
        *,
        is_persistent: bool = True,
        retry_seconds: float = 60.0,
    ) -> None:
        self._connection = connection
        self._exchange = exchange
        self._retry_seconds = retry_seconds
        self._waiting: deque[bytes] = deque()  # sent and not confirmed, in the order of their tags
        self._confirms = Confirms()
        self._confirmed = self._failed = self._resent = 0
        self._reasons: Counter[str] = Counter()
        self._link: SelectConnection | None = None
        self._channel: Channel | None = None
        self._fault: BaseException | None = None
        self._open()
        assert self._link is not None
        frame_max = self._link.params.frame_max or 131_072
        self._template: FrameTemplate = FrameTemplate(
            _CHANNEL, exchange, routing_key, producer, frame_max, is_persistent=is_persistent
        )

    def prepare(self, first: int, due_us: NDArray[np.int64], bodies: Sequence[bytes]) -> list[Any]:
        """Return the frames of each message."""
        message = self._template.message
        numbers = range(first, first + len(bodies))
        return [message(n, us, body) for n, us, body in zip(numbers, due_us.tolist(), bodies, strict=True)]

    def send(self, records: Sequence[Any]) -> int:
        """Pass messages to the connection. The next `turn` writes them to the socket."""
        taken = list(islice(records, max(0, MOST_UNCONFIRMED - len(self._waiting))))
        if taken:
            self._waiting.extend(taken)
            self._emit(b"".join(taken))
        return len(taken)

    def turn(self, seconds: float) -> None:
        """Write, read confirmations, answer heartbeats."""
        self._poll(seconds)
        if self._fault is not None:
            self._reconnect()

    def delivery(self) -> Delivery:
        """Return what the broker has confirmed, refused and returned so far."""
        faults = tuple(f"{reason} ({count:,} records)" for reason, count in self._reasons.most_common())
        return Delivery(self._confirmed, self._failed, self._resent, faults)

    def close(self) -> None:
        """Close the connection. Messages not confirmed by now count as lost."""
        self._drop()

    # --- the connection ----------------------------------------------------------------------------------------

    def _open(self) -> None:
        import pika

        self._fault = None
        self._channel = None
        is_ready: list[bool] = []

        def on_open(link: SelectConnection) -> None:
            link.channel(channel_number=_CHANNEL, on_open_callback=on_channel)

        def on_channel(channel: Channel) -> None:
            self._channel = channel
            channel.add_on_close_callback(lambda _channel, why: self._lose(why))
            channel.add_on_return_callback(self._on_return)
            if self._exchange:
                channel.exchange_declare(self._exchange, passive=True, callback=lambda _ok: on_exchange(channel))
            else:
                on_exchange(channel)

        def on_exchange(channel: Channel) -> None:
            channel.confirm_delivery(self._on_confirm, callback=lambda _ok: is_ready.append(True))

        self._link = pika.SelectConnection(
            self._connection.parameters(),
            on_open_callback=on_open,
            on_open_error_callback=lambda _link, why: self._lose(why),
            on_close_callback=lambda _link, why: self._lose(why),
        )
        self._link.ioloop.activate_poller()
        self._until(lambda: bool(is_ready) or self._fault is not None, _OPEN_SECONDS)
        if not is_ready:
            fault = self._fault or TimeoutError(f"no answer within {_OPEN_SECONDS:g} s")
            self._drop()
            with self._connection.explained():
                raise fault
        self._confirms = Confirms()

    def _reconnect(self) -> None:
        give_up_at = time.monotonic() + self._retry_seconds
        tags = range(self._confirms.settled_below + 1, self._confirms.settled_below + 1 + len(self._waiting))
        old = self._confirms
        self._waiting = deque(m for tag, m in zip(tags, self._waiting, strict=True) if not old.is_settled(tag))
        while True:
            self._drop()
            try:
                self._open()
                break
            except AdaptorError as fault:
                if not fault.retryable or time.monotonic() > give_up_at:
                    raise
            time.sleep(_PAUSE_SECONDS)
        if self._waiting:
            self._resent += len(self._waiting)
            self._emit(b"".join(self._waiting))

    def _emit(self, frames: bytes) -> None:
        assert self._link is not None
        if self._link.is_open:
            # pika has no public call for prepared frames. A test checks that this private one stays as it is.
            self._link._output_marshaled_frames([frames])

    def _poll(self, seconds: float) -> None:
        assert self._link is not None
        loop = self._link.ioloop
        loop.call_later(seconds, _nothing)
        loop.poll()
        loop.process_timeouts()

    def _until(self, is_done: Callable[[], bool], seconds: float) -> None:
        give_up_at = time.monotonic() + seconds
        while not is_done() and time.monotonic() < give_up_at:
            self._poll(0.05)

    def _drop(self) -> None:
        link = self._link
        if link is None:
            return
        if link.is_open:  # all is well, or only the channel is closed: the socket would stay open
            link.close()
            self._until(lambda: link.is_closed, _CLOSE_SECONDS)
        link.ioloop.deactivate_poller()
        link.ioloop.close()
        self._link = None

    def _lose(self, why: BaseException) -> None:
        if self._fault is None:
            self._fault = why

    # --- what the broker says ----------------------------------------------------------------------------------

    def _on_confirm(self, frame: Any) -> None:
        from pika import spec

        low = self._confirms.settled_below
        new = self._confirms.settle(frame.method.delivery_tag, multiple=frame.method.multiple)
        if isinstance(frame.method, spec.Basic.Ack):
            self._confirmed += new
        else:
            self._failed += new
            self._reasons["refused by the broker"] += new
        for _ in range(self._confirms.settled_below - low):
            self._waiting.popleft()

    def _on_return(self, _channel: Channel, method: Any, _properties: Any, _body: bytes) -> None:
        # The broker also confirms a returned message, right after. That confirmation is not a delivery.
        self._confirmed -= 1
        self._failed += 1
        self._reasons[f"no queue takes it: {method.reply_text}"] += 1


def _nothing() -> None:
    """Let a poll return in time."""
