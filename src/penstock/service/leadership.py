# SPDX-License-Identifier: Apache-2.0
"""Which of the masters that share a store leads: by a lease that has to be renewed, with a fencing number."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from penstock.errors import AdaptorError
from penstock.ports import Lease, LeaseStore
from penstock.records import new_id

_LOG = logging.getLogger(__name__)
HEARD_SECONDS = 2.0
LEADER, KNOCKED = "leader", "knocked"
"""The lease of who leads, and that of who was asked by agents although it does not lead."""
LEASE_SECONDS, RENEW_SECONDS = 4.0, 1.0
_UNSEEN_SECONDS = 3.0
"""So long may a leader hear of no agent while they knock at another before it gives up: it seems to be cut off."""
_BETWEEN = " as "
"""In the holder of a lease: between the address of a master and what tells its process from others."""
_STEP_BACK_SECONDS = 10.0
"""How long it does not lead then."""


def shown(lease: Lease | None) -> Lease | None:
    """A lease of who leads, with the address alone for its holder."""
    return None if lease is None else replace(lease, holder=lease.holder.partition(_BETWEEN)[0])


class Leadership:
    """Takes the lead when it is free, and renews it for as long as this process lives. Use as a context manager.

    Whoever leads measures the lease by its own clock too, from before it asked: a process that was stopped and goes on
    knows at once that its time is over, whatever the store says later.

    Parameters
    ----------
    leases
        Where masters agree.
    holder
        The name of this one: its address, which the others show. Masters of several hosts may listen at the same one,
        such as 0.0.0.0:7071, and one that was killed may come back at its own before its lease has run out: each
        process holds the lease as itself.
    on_lead, on_lost
        Called with the fencing number when the lead begins, and when it has ended.
    count_agents
        How many agents this master has heard of in the last two seconds.
    """

    def __init__(
        self,
        leases: LeaseStore,
        holder: str,
        *,
        on_lead: Callable[[int], None],
        on_lost: Callable[[], None],
        count_agents: Callable[[], int],
        lease_seconds: float = LEASE_SECONDS,
        renew_seconds: float = RENEW_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._leases, self.holder = leases, holder
        self._identity = f"{holder}{_BETWEEN}{new_id()}"
        self._on_lead, self._on_lost, self._count_agents = on_lead, on_lost, count_agents
        self._lease_seconds, self._renew_seconds, self._monotonic = lease_seconds, renew_seconds, monotonic
        self._fence: int | None = None
        self._until = float("-inf")
        self._had_agents_at = float("-inf")
        self._not_before = float("-inf")
        self._knocks = 0
        self._has_said = False
        self.trouble: str | None = None
        """Why the store could not be asked last; None: it could."""
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-leadership", daemon=True)

    @property
    def is_leading(self) -> bool:
        """Whether this master leads, by its own clock."""
        return self._fence is not None and self._monotonic() < self._until

    @property
    def fence(self) -> int:
        """The fencing number of the lead; 0: it does not lead."""
        return self._fence or 0

    @property
    def why_not(self) -> str:
        """Why this master does not lead, where it does not."""
        return "another master leads" if self.trouble is None else f"this master cannot lead: {self.trouble}"

    def leader(self) -> Lease | None:
        """Who leads; None: nobody, or that cannot be found out."""
        try:
            return shown(self._leases.lease(LEADER))
        except AdaptorError as fault:  # the next step says so, once
            _LOG.info("who leads is not known: %s", fault)
            return None

    def knock(self) -> None:
        """Take note that an agent came although this master does not lead."""
        self._knocks += 1

    def __enter__(self) -> Leadership:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        if self._thread.ident is not None:
            self._thread.join(10.0)
        self._lose("this master ends")
        self._give_back()

    def step(self) -> None:
        """Take or renew the lead, or find that it is lost."""
        asked = self._monotonic()
        if self._fence is not None and asked >= self._until:
            self._lose("the lease was not renewed in time")
        try:
            if self._is_cut_off(asked):
                self._lose("agents knock at another master, and none comes here")
                self._not_before = asked + _STEP_BACK_SECONDS
                self._give_back()
            if asked < self._not_before:
                return
            lease = self._leases.take_lease(LEADER, self._identity, self._lease_seconds)
            if lease is None and self._knocks:
                self._leases.take_lease(KNOCKED, self._identity, 2 * self._renew_seconds + 1.0)
        except AdaptorError as fault:
            if self.trouble != str(fault):  # the same comes every second, for as long as nobody mends it
                _LOG.warning("the lead cannot be renewed: %s", fault)
            self.trouble = str(fault)
            return
        if self.trouble is not None:
            _LOG.warning("leases can be read and written again")
        self.trouble, self._knocks = None, 0
        if lease is None:
            self._lose("another master leads")
            self._say_who_leads()
        elif self._fence != lease.fence:
            self._lose("the lease had run out")
            self._until, self._had_agents_at = asked + self._lease_seconds, asked
            self._fence = lease.fence
            self._has_said = True
            _LOG.warning("%s leads, with fencing number %d", self.holder, lease.fence)
            self._on_lead(lease.fence)
        else:
            self._until = asked + self._lease_seconds

    def _is_cut_off(self, now: float) -> bool:
        if self._fence is None:
            return False
        if self._count_agents() > 0:
            self._had_agents_at = now
            return False
        if now - self._had_agents_at < _UNSEEN_SECONDS:
            return False
        knocked = self._leases.lease(KNOCKED)
        return knocked is not None and knocked.holder != self._identity

    def _say_who_leads(self) -> None:
        """Once, at the start: who starts a second master wants to see that it waits."""
        if not self._has_said and (leader := self.leader()) is not None:
            self._has_said = True
            _LOG.warning("%s waits: %s leads", self.holder, leader.holder)

    def _lose(self, why: str) -> None:
        if self._fence is None:
            return
        _LOG.warning("%s does not lead any more: %s", self.holder, why)
        self._fence, self._until = None, float("-inf")
        self._on_lost()

    def _give_back(self) -> None:
        try:
            self._leases.release_lease(LEADER, self._identity)
        except AdaptorError as fault:  # it ends by itself
            _LOG.info("the lead was not given back: %s", fault)

    def _run(self) -> None:
        while not self._end.is_set():
            try:
                self.step()
            except Exception:  # the lease runs out where it cannot be renewed; the next step may succeed
                _LOG.exception("a step of leadership failed")
            self._end.wait(self._renew_seconds)
