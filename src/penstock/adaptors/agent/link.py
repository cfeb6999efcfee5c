# SPDX-License-Identifier: Apache-2.0
"""Keeps an agent connected to whichever master leads, for as long as the agent lives."""

from __future__ import annotations

import logging
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from penstock.adaptors.agent.channel import AgentChannel, Channel
from penstock.adaptors.agent.handshake import TOKEN, VERSION, HandshakeError, answer_to, new_greeting
from penstock.adaptors.agent.master_address import MasterAddress
from penstock.adaptors.agent.meters import Meters
from penstock.adaptors.agent.wire import (
    HOLD_LIMIT_BYTES,
    REQUEST_LIMIT_BYTES,
    STRANGER_LIMIT_BYTES,
    Accepted,
    Challenge,
    Goodbye,
    Introduction,
    Refusal,
    ToAgent,
)
from penstock.records import new_id

_log = logging.getLogger(__name__)
_M = TypeVar("_M", Challenge, Accepted)
SILENCE_SECONDS = 5.0
"""A master sends something at least every 1.5 s: one that is silent for so long hangs, or is cut off."""
_CONNECT_SECONDS = 3.0
_LEAST_WAIT_SECONDS, _MOST_WAIT_SECONDS = 0.2, 2.0
_WAIT_OF_STRANGERS_SECONDS = 15.0
"""After a wrong token, another version or settings with mistakes: only people can mend that."""
_REJECTED, NOT_LEADING = "rejected", "not leading"
_MOST_SAID = 100


class ServingAgent(Protocol):
    """Who serves a connection once it stands."""

    @property
    def meters(self) -> Meters:
        """What can be subscribed to."""
        ...

    @property
    def fence(self) -> int:
        """The largest fencing number that it has seen."""
        ...

    def serve(self, channel: Channel[ToAgent]) -> None:
        """Serve the connection until it ends."""
        ...


class MasterLink:
    """Connects an agent to a master in a thread of its own, and again after every loss, with back-off and jitter.

    Nothing that happens here reaches the query.

    Parameters
    ----------
    agent
        Serves the connection.
    address
        Where the masters are.
    name
        The pipeline or the host that the agent speaks for.
    settings
        Of the pipeline, as JSON text; empty: nothing is scaled through the agent.
    holds_at, why_not
        The place whose executors the agent of a host can hold to CPU shares; empty: it cannot, and why.
    silence_seconds
        How long a master may be silent before another one is tried.
    """

    def __init__(
        self,
        agent: ServingAgent,
        address: MasterAddress,
        name: str,
        *,
        settings: str = "",
        holds_at: str = "",
        why_not: str = "",
        silence_seconds: float = SILENCE_SECONDS,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._agent, self._address, self._name, self._settings = agent, address, name, settings
        self._holds_at, self._why_not = holds_at, why_not
        self._silence_seconds, self._draw = silence_seconds, draw
        self._identity = new_id()
        self._encryption = address.encryption()
        self._end = threading.Event()
        self._channel: AgentChannel | None = None
        self._said: set[str] = set()
        self._served_by: tuple[str, int] | None = None
        self._thread = threading.Thread(target=self._run, name="penstock-agent-link", daemon=True)
        self.connected_to: str | None = None
        """The master that serves now; None: none does."""
        self.fault: str | None = None
        """Why there is no connection; None: there is one, or none was tried."""
        self.connections = 0
        """How often a master has accepted the agent."""

    def start(self) -> MasterLink:
        """Begin to connect."""
        self._thread.start()
        return self

    def close(self, reason: str = "") -> None:
        """Take leave of the master, and end."""
        self._end.set()
        channel = self._channel
        if channel is not None:
            try:
                channel.send(Goodbye(reason))
            except OSError as fault:
                _log.info("%s: no leave was taken: %s", self._name, fault)
            channel.close()
        if self._thread.is_alive():
            self._thread.join(_CONNECT_SECONDS + 2.0)

    def _run(self) -> None:
        failures = 0
        while not self._end.is_set():
            was_served, longest = False, _MOST_WAIT_SECONDS
            for place in self._in_turn():
                if self._end.is_set():
                    return
                try:
                    was_served = self._once(place)
                except HandshakeError as fault:
                    # Of several masters all but one say that another leads: that is how it should be.
                    is_expected = fault.refusal.kind == NOT_LEADING and len(self._address.places) > 1
                    self._note(place, str(fault), logging.INFO if is_expected else logging.WARNING)
                    if fault.refusal.kind in (VERSION, TOKEN, _REJECTED):
                        longest = _WAIT_OF_STRANGERS_SECONDS
                except (OSError, ValueError) as fault:
                    self._note(place, str(fault) or type(fault).__name__)
                except Exception as fault:  # the query goes on, and so does the attempt
                    _log.exception("%s: the connection to a master failed", self._name)
                    self._note(place, f"{type(fault).__name__}: {fault}")
                if was_served:
                    break
            failures = 0 if was_served else failures + 1
            wait = min(longest, _LEAST_WAIT_SECONDS * 2.0 ** min(failures, 10))
            self._end.wait(wait * (0.5 + 0.5 * self._draw()))

    def _in_turn(self) -> list[tuple[str, int]]:
        """The masters, the one that served last at the end: it has just gone, or hangs."""
        places = self._address.places
        return sorted(places, key=lambda place: place == self._served_by)

    def _once(self, place: tuple[str, int]) -> bool:
        """Connect and serve; returns when the connection has ended. Raises where none came about."""
        channel = self._connect(place)
        try:
            self._shake_hands(channel)
            channel.set_patience(self._silence_seconds)
            self._said.clear()
            self.connected_to, self.fault, self._served_by = f"{place[0]}:{place[1]}", None, place
            self.connections += 1
            self._channel = channel
            _log.info("%s: the master at %s serves", self._name, self.connected_to)
            self._agent.serve(channel)
            return True
        finally:
            self._channel, self.connected_to = None, None
            channel.close()

    def _connect(self, place: tuple[str, int]) -> AgentChannel:
        connection = socket.create_connection(place, timeout=_CONNECT_SECONDS)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._encryption is not None:
                connection = self._encryption.wrap_socket(connection, server_hostname=place[0])
            connection.settimeout(_CONNECT_SECONDS)
        except (OSError, ssl.SSLError):
            connection.close()
            raise
        return AgentChannel(connection, STRANGER_LIMIT_BYTES)

    def _shake_hands(self, channel: AgentChannel) -> None:
        greeting = new_greeting()
        channel.send(greeting)
        challenge = _expect(channel.receive(), Challenge)
        proof = answer_to(challenge, greeting, self._address.token)
        offers = self._agent.meters.offers
        introduction = Introduction(
            proof,
            self._identity,
            self._name,
            socket.gethostname() or "host",
            time.time(),
            offers,
            self._settings,
            self._holds_at,
            self._why_not,
        )
        channel.send(introduction)
        accepted = _expect(channel.receive(), Accepted)
        if accepted.fence < self._agent.fence:
            raise HandshakeError(
                Refusal("deposed", f"fencing number {accepted.fence} is older than {self._agent.fence}: another leads")
            )
        channel.raise_limit(HOLD_LIMIT_BYTES if self._holds_at else REQUEST_LIMIT_BYTES)

    def _note(self, place: tuple[str, int], text: str, level: int = logging.WARNING) -> None:
        self.fault = f"{place[0]}:{place[1]}: {text}"
        if self.fault not in self._said:  # the same faults come at every attempt
            if len(self._said) >= _MOST_SAID:  # texts may hold ports and numbers, and a master may be away for weeks
                self._said.clear()
            self._said.add(self.fault)
            _log.log(level, "%s: no master: %s; it goes on without", self._name, self.fault)


def _expect(message: ToAgent | None, kind: type[_M]) -> _M:
    if isinstance(message, Refusal):
        raise HandshakeError(message)
    if message is None:
        raise ConnectionResetError("the master closed the connection")
    if not isinstance(message, kind):
        raise ValueError(f"{type(message).__name__} came in place of {kind.__name__}")
    return message
