# SPDX-License-Identifier: Apache-2.0
"""One agent that has connected to this master: what it reports, and a channel for requests to it."""

from __future__ import annotations

import asyncio
import logging
import math
import queue
import time
from collections.abc import Callable, Collection
from functools import cached_property
from typing import Any

from penstock.adaptors.agent.agent_names import pipeline_of
from penstock.adaptors.agent.wire import (
    Advertise,
    Collect,
    Collected,
    FromAgent,
    Goodbye,
    Introduction,
    MalformedMessageError,
    Message,
    Offer,
    Refusal,
    Reports,
    SharesHeld,
    Subscribe,
    frame_of,
)
from penstock.service.attached_pipeline import AttachedPipeline, read_attached

_LOG = logging.getLogger(__name__)
_MOST_UNSENT_BYTES = 1 << 20
"""An agent that does not read what it is sent is cut off."""
_MOST_WAITING_REPLIES = 200
_STEP_SECONDS = 1.0
"""By how much a clock has to be off what was measured before to count as one that was set."""
_MOST_UNASKED = 10
"""Beyond those: one request waits for its reply at a time, and others may have been given up."""


class AgentConnection:
    """The master's end of a connection. Threads may send and look; the event loop alone calls `take`.

    Parameters
    ----------
    loop, writer
        Where it is served, and how bytes go out.
    introduction
        Who the agent is.
    address
        Where it comes from.
    skew_seconds
        What its clock is behind ours (ahead: below 0).
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        writer: asyncio.StreamWriter,
        introduction: Introduction,
        address: str,
        skew_seconds: float,
    ) -> None:
        self._loop, self._writer = loop, writer
        self.introduction, self.address, self.skew_seconds = introduction, address, skew_seconds
        self.offers: list[Offer] = introduction.metrics
        self.since = time.time()
        self.latest: dict[str, tuple[float, float | None]] = {}
        """By metric: when it was read, by our clock, and its value."""
        self.replies: queue.SimpleQueue[FromAgent | None] = queue.SimpleQueue()
        self.bytes_in = self.bytes_out = self.reports = self.dropped = 0
        self.goodbye: str | None = None
        """Why the agent took leave; None: it has not."""
        self.is_open = True
        self.heard_at = loop.time()
        self._watched: tuple[frozenset[str], float] = (frozenset(), math.inf)
        self._wanted: tuple[frozenset[str], float] = (frozenset(), math.inf)
        self._subscribed: Subscribe | None = None
        self._asked_at: float | None = None
        self._held: tuple[float, float, SharesHeld] | None = None
        self.hold_refusal: str | None = None
        """Why the agent of a host does not hold what it was last told to; None: it does, or was told nothing."""

    @property
    def holds_at(self) -> str:
        """The place whose executors it can hold to CPU shares; empty: it cannot."""
        return self.introduction.holds_at

    def held_within(self, seconds: float) -> tuple[float, SharesHeld] | None:
        """What it last said that it holds, and when that came, by our clock; None: it said nothing lately."""
        held = self._held
        if held is None or not self.is_open or self._loop.time() - held[0] > seconds:
            return None
        return held[1], held[2]

    @property
    def name(self) -> str:
        """The pipeline, the operator of a pipeline, or the host that it speaks for."""
        return self.introduction.name

    @property
    def pipeline(self) -> str:
        """The pipeline whose operator is scaled through it."""
        return pipeline_of(self.name)

    @cached_property
    def attached(self) -> AttachedPipeline:
        """The pipeline as the agent has introduced it, where it scales; the master has looked it through."""
        return read_attached(self.introduction.settings, self.name)

    @property
    def scales(self) -> bool:
        """Whether something can be scaled through it; otherwise it only measures."""
        return bool(self.introduction.settings)

    def send(self, message: Message) -> None:
        """Send a message, from any thread. Raises OSError where the connection has ended."""
        if not self.is_open:
            raise ConnectionResetError(f"the agent of {self.name} has gone")
        try:
            self._loop.call_soon_threadsafe(self.write, frame_of(message))
        except RuntimeError as fault:
            raise ConnectionResetError("the master is ending") from fault

    def write(self, frame: bytes) -> None:
        """Send bytes; for the event loop."""
        transport = self._writer.transport
        if not self.is_open or transport.is_closing():
            return
        if transport.get_write_buffer_size() > _MOST_UNSENT_BYTES:
            transport.abort()
            return
        self.bytes_out += len(frame)
        self._writer.write(frame)

    def close(self) -> None:
        """End the connection, from any thread; the agent will come back."""
        try:
            self._loop.call_soon_threadsafe(self._writer.transport.abort)
        except RuntimeError:
            return  # the loop has ended, and with it every connection

    def watch(self, metrics: Collection[str], every_seconds: float) -> None:
        """Have metrics reported for those who look, as far as the agent has them."""
        self._watched = (frozenset(metrics), every_seconds)
        self._subscribe()

    def want(self, subscription: Subscribe) -> None:
        """Have metrics reported for the policy."""
        self._wanted = (frozenset(subscription.metrics), subscription.every_seconds)
        self._subscribe()

    def asked(self) -> None:
        """Take that the agent is asked for telemetry now."""
        self._asked_at = time.time()

    def _follow_clock(self, clock: float | None) -> None:
        """Notice that a clock was set while the agent was connected: it was read between our question and now."""
        asked, self._asked_at = self._asked_at, None
        if asked is None or clock is None or not math.isfinite(clock):
            return
        least, most = asked - clock, time.time() - clock
        if least <= most and not least - _STEP_SECONDS <= self.skew_seconds <= most + _STEP_SECONDS:
            before, self.skew_seconds = self.skew_seconds, (least + most) / 2.0
            _LOG.warning("%s: a clock was set: its host's is %+.1f s, and was %+.1f s, off ours", self.name,
                         -self.skew_seconds, -before)  # fmt: skip

    def take(self, message: FromAgent) -> None:
        """Take what came: reports are kept, replies wait for who has asked.

        Raises
        ------
        MalformedMessageError
            Nobody has asked for so many.
        """
        match message:
            case Reports(reports, dropped):
                self.dropped += dropped
                for report in reports:
                    self._keep(report.at, report.values)
                if self._wanted[0] and self.replies.qsize() < _MOST_WAITING_REPLIES:
                    self.replies.put(message)
            case Advertise(offers):
                self.offers, offered = offers, {offer.name for offer in offers}
                self.latest = {name: kept for name, kept in self.latest.items() if name in offered}
                self._subscribe()
                if self.replies.qsize() < _MOST_WAITING_REPLIES:
                    self.replies.put(message)
            case Collected():
                self._follow_clock(message.clock)  # before anybody reads its times
                self._reply(message)
            case SharesHeld():
                self._held, self.hold_refusal = (self._loop.time(), time.time(), message), None
            case Refusal(_, error) if self.holds_at:
                if error != self.hold_refusal:
                    _LOG.warning("%s: it does not hold executors: %s", self.name, error)
                self._held, self.hold_refusal = None, error
            case Goodbye(reason):
                self.goodbye = reason or "it has ended"
            case _:
                self._reply(message)

    def _reply(self, message: FromAgent) -> None:
        if self.replies.qsize() >= _MOST_WAITING_REPLIES + _MOST_UNASKED:
            raise MalformedMessageError("replies come without a request")
        self.replies.put(message)

    def ended(self) -> None:
        """Take that the connection has ended; for the event loop."""
        self.is_open = False
        self.replies.put(None)

    def view(self, now: float) -> dict[str, Any]:
        """The agent as plain data."""
        return {
            "name": self.name,
            "host": self.introduction.host,
            "address": self.address,
            "scales": self.scales,
            "shares": self._view_shares(),
            "connected_at": self.since,
            "clock_behind_seconds": round(self.skew_seconds, 3),
            "offers": [{"name": o.name, "unit": o.unit, "meaning": o.meaning} for o in self.offers],
            "subscribed": [] if self._subscribed is None else sorted(self._subscribed.metrics),
            "every_seconds": None if self._subscribed is None else self._subscribed.every_seconds,
            "reports": self.reports,
            "dropped": self.dropped,
            "metrics": {
                name: {"value": value, "age_seconds": round(max(0.0, now - at), 3)}
                for name, (at, value) in sorted(dict(self.latest).items())
            },
        }

    def _view_shares(self) -> dict[str, Any] | None:
        """What it holds, or why it does not; None: it is not the agent of a host."""
        if self.scales:
            return None
        held = () if self._held is None else self._held[2].held
        return {
            "can_hold": bool(self.holds_at),
            "why_not": self.hold_refusal or self.introduction.why_not or None,
            "held": {
                one.application_id: {
                    "executors": list(one.executors),
                    "quota_cores": None if one.cpu is None else one.cpu.quota_cores,
                    "faults": list(one.faults),
                }
                for one in held
            },
        }

    def _keep(self, at: float, values: dict[int, float | None]) -> None:
        self.reports += 1
        ours = at + self.skew_seconds if math.isfinite(at) else time.time()
        for place, value in values.items():
            if 0 <= place < len(self.offers):
                known = None if value is None or not math.isfinite(value) else value
                self.latest[self.offers[place].name] = (ours, known)

    def _subscribe(self) -> None:
        offered = {offer.name for offer in self.offers}
        names = sorted((self._watched[0] | self._wanted[0]) & offered)
        periods = [every for wanted, every in (self._watched, self._wanted) if wanted & offered]
        subscription = Subscribe(names, min(86_400.0, max(0.1, min(periods, default=1.0))))
        if subscription == self._subscribed or (not names and self._subscribed is None):
            return
        self._subscribed = subscription
        if self.is_open:
            self.send(subscription)


class RequestChannel:
    """Requests to the agent behind a connection, for code that may wait (an `adaptors.agent.channel.Channel`).

    Parameters
    ----------
    connection
        The agent's.
    may_speak
        Whether this master still leads: one that does not says nothing more.
    timeout_seconds
        How long a reply may take.
    """

    def __init__(
        self, connection: AgentConnection, may_speak: Callable[[], bool], *, timeout_seconds: float = 10.0
    ) -> None:
        self._connection, self._may_speak, self._timeout = connection, may_speak, timeout_seconds

    def send(self, message: Message) -> None:
        """Send one message."""
        if not self._may_speak():
            raise ConnectionResetError("this master does not lead any more")
        if isinstance(message, Subscribe):
            self._connection.want(message)
            return
        if isinstance(message, Collect):
            self._connection.asked()
        self._connection.send(message)

    def receive(self) -> FromAgent | None:
        """The next reply; None where the agent has gone."""
        try:
            return self._connection.replies.get(timeout=self._timeout)
        except queue.Empty:
            raise TimeoutError from None

    def close(self) -> None:
        """End the connection: a reply that comes late must not be taken for another one."""
        self._connection.close()
