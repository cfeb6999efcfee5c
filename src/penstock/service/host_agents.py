# SPDX-License-Identifier: Apache-2.0
"""The agents of hosts, as a master has them: what they are to hold, told every second, and what they say they hold."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from penstock.adaptors.agent.wire import MOST_SHARES, HoldShares
from penstock.records import ExecutorShare, HeldOnHost
from penstock.service.agent_connection import AgentConnection

_LOG = logging.getLogger(__name__)
TELL_SECONDS = 1.0
"""A fifth of the agents' lease."""
_FRESH_SECONDS = 5.0
"""What an agent said longer ago is not known any more: its lease is over, and its caps may be lifted."""
_MOST_NAME_BYTES = 200
"""Of an application, and of a place. With as many shares as a message takes, it is within its limit."""


@dataclass(frozen=True, slots=True)
class Said:
    """What the agent of a host said of an application: when it came, by the master's clock, and what it was."""

    at: float
    host: str
    held: HeldOnHost


class HostAgents:
    """Tells the agents of hosts what executors are to be held to. Use as a context manager.

    Nobody waits for an answer: an agent that hangs holds up no other.

    Parameters
    ----------
    connections
        The agents that are there.
    wanted
        What executors are to be held to, application by application.
    fence
        The number of the master's lease; None: it does not lead, and says nothing.
    """

    def __init__(
        self,
        connections: Callable[[], Iterable[AgentConnection]],
        wanted: Callable[[], Iterable[ExecutorShare]],
        fence: Callable[[], int | None],
    ) -> None:
        self._connections, self._wanted, self._fence = connections, wanted, fence
        self._left_out = 0
        self._wake, self._end = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-hosts", daemon=True)

    def __enter__(self) -> HostAgents:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._wake.set()

    def tell_now(self) -> None:
        """Something else is wanted: do not wait for the next second."""
        self._wake.set()

    def tell(self) -> None:
        """Tell all of them what is wanted."""
        holding = [connection for connection in self._connections() if connection.holds_at]
        fence = self._fence() if holding else None
        if fence is None:
            return
        # Without those that drivers hold: nobody there needs to know them, and a request is bounded.
        message = HoldShares(fence, self._bounded([replace(share, held=()) for share in _widest(self._wanted())]))
        for connection in holding:
            try:
                connection.send(message)
            except OSError as fault:  # it has just gone
                _LOG.debug("%s: %s", connection.name, fault)

    def _bounded(self, shares: list[ExecutorShare]) -> list[ExecutorShare]:
        """As many as hosts take: a longer message would be refused as a whole, and all caps would open."""
        found = [share for share in shares if _is_named_in_short(share)][:MOST_SHARES]
        left_out = len(shares) - len(found)
        if left_out > self._left_out:
            _LOG.warning(
                "%d applications are left out of what hosts hold: %d is the most they take", left_out, MOST_SHARES
            )
        self._left_out = left_out
        return found

    def said(self, application_id: str) -> dict[str, Said]:
        """What the agents of hosts said lately of an application, by agent; those that are silent are left out."""
        found = {}
        for connection in self._connections():
            answer = connection.held_within(_FRESH_SECONDS) if connection.holds_at else None
            if answer is None:
                continue
            at, message = answer
            for held in message.held:
                if held.application_id == application_id:
                    found[connection.introduction.agent] = Said(at, connection.name, held)
        return found

    def _run(self) -> None:
        while not self._end.is_set():
            self._wake.wait(TELL_SECONDS)
            self._wake.clear()
            try:
                self.tell()
            except Exception:  # the next second may be better, and without a word the agents open all caps
                _LOG.exception("the agents of hosts were not told what to hold")


def _widest(shares: Iterable[ExecutorShare]) -> Iterable[ExecutorShare]:
    """One share for each application: two queries of one have the same executors, and neither may slow the other."""
    found: dict[str, ExecutorShare] = {}
    for share in shares:
        known = found.get(share.application_id)
        if known is None or (known.cores_each is not None and _cores(share) > _cores(known)):
            found[share.application_id] = share
    return found.values()


def _is_named_in_short(share: ExecutorShare) -> bool:
    return all(len(name.encode()) <= _MOST_NAME_BYTES for name in (share.application_id, share.held_at))


def _cores(share: ExecutorShare) -> float:
    return float("inf") if share.cores_each is None else share.cores_each
