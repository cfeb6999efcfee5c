# SPDX-License-Identifier: Apache-2.0
"""CPU shares of all applications that a master scales, on one of their hosts."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Collection
from typing import Unpack

from penstock.adaptors.cgroups.counted_shares import CountedShares
from penstock.adaptors.cgroups.held_group import HoldOptions
from penstock.adaptors.cgroups.hierarchy import Hierarchy
from penstock.adaptors.cgroups.lease import LEASE_SECONDS
from penstock.adaptors.cgroups.members import HostExecutors
from penstock.adaptors.process.identity import place
from penstock.errors import PenstockError
from penstock.records import ExecutorShare, HeldOnHost

_log = logging.getLogger(__name__)
_LOOK_EVERY_SECONDS = 0.2


class HostShares:
    """Holds executors on this host as it was last told, and opens all caps when it is told nothing for a while.

    Parameters
    ----------
    hierarchy
        Where groups are made.
    silence_seconds
        After so long without a word caps are lifted; groups stay.
    here
        The place of this process; executors whose driver is in the same one, and holds them, are left to it.
    """

    def __init__(
        self,
        hierarchy: Hierarchy,
        *,
        silence_seconds: float = LEASE_SECONDS,
        here: str | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        **options: Unpack[HoldOptions],
    ) -> None:
        self._hierarchy = hierarchy
        self._silence_seconds = silence_seconds
        self.place = place() if here is None else here
        self._monotonic = monotonic
        self._options: HoldOptions = {"run": "host", **options}
        self._lock = threading.Lock()
        self._held: dict[str, CountedShares] = {}
        self._executors = HostExecutors(hierarchy.proc, monotonic=monotonic)
        self._failing: dict[str, str] = {}
        self._told_at: float | None = None
        """When it was last told what to hold; None: all caps are lifted."""
        self._end = threading.Event()

    def start(self) -> HostShares:
        """Watch for the silence of who tells it what to hold."""
        threading.Thread(target=self._run, name="penstock-host-shares", daemon=True).start()
        return self

    def hold(self, shares: Collection[ExecutorShare]) -> list[HeldOnHost]:
        """Hold the executors of these applications, and of no others. Raises ValueError where a share is none."""
        for share in shares:
            cores = share.cores_each
            if not share.application_id or (cores is not None and not (math.isfinite(cores) and cores > 0)):
                raise ValueError(f"{share.application_id!r} cannot be held to {cores!r} cores for each executor")
        wanted = {share.application_id: share for share in shares if share.held_at != self.place}
        with self._lock:
            if self._end.is_set():
                return []
            self._told_at = self._monotonic()
            for name in self._held.keys() - wanted.keys():
                self._drop(name)
            self._failing = {name: fault for name, fault in self._failing.items() if name in wanted}
            try:
                self._begin([name for name in wanted if name not in self._held])
            except OSError as fault:  # those that are held already go on
                _log.warning("executors could not be looked for: %s", fault)
            return [self._hold(share) for share in wanted.values()]

    def check_silence(self) -> None:
        """Lift all caps where nothing was heard for too long."""
        # If it is taken, a word is being carried out.
        if not self._lock.acquire(blocking=False):
            return
        try:
            silent = 0.0 if self._told_at is None else self._monotonic() - self._told_at
            if silent <= self._silence_seconds:
                return
            opened = [self._open(name) for name in self._held]
            if all(opened):
                _log.warning("no master said for %.1f s what to hold: executors have no cap", silent)
                self._told_at = None
        finally:
            self._lock.release()

    def close(self) -> None:
        """Put everything back as it was."""
        self._end.set()
        with self._lock:
            for name in list(self._held):
                self._drop(name)

    def _run(self) -> None:
        while not self._end.wait(_LOOK_EVERY_SECONDS):
            try:
                self.check_silence()
            except Exception:  # a defect of ours: without this thread caps would stay
                _log.exception("the silence of masters could not be watched")

    def _begin(self, names: list[str]) -> None:
        """Have a place for applications that have executors here: others need no group and no guard."""
        here = self._executors.find() if names else {}
        for name in names:
            if name in here:
                self._held[name] = CountedShares(name, name, self._hierarchy, **self._options)

    def _hold(self, share: ExecutorShare) -> HeldOnHost:
        name = share.application_id
        held = self._held.get(name)
        if held is None:
            return HeldOnHost(name)
        try:
            held.hold(share.cores_each)
            found = HeldOnHost(name, tuple(sorted(held.joined)), held.read(), held.faults)
        except (PenstockError, OSError) as fault:
            if self._failing.get(name) != str(fault):  # it is tried every second
                _log.warning("%s: its executors here are not held: %s", name, fault)
            self._failing[name] = str(fault)
            if held.is_released:  # it could not be started: the next word tries again
                del self._held[name]
            return HeldOnHost(name, faults=(str(fault),))
        self._failing.pop(name, None)
        return found

    def _open(self, name: str) -> bool:
        """Lift a cap; False: the next check has to try again."""
        try:
            self._held[name].open()
        except (PenstockError, OSError) as fault:
            _log.error("%s: its CPU cap could not be lifted: %s", name, fault)
            return False
        return True

    def _drop(self, name: str) -> None:
        try:
            self._held.pop(name).release()
        except (PenstockError, OSError) as fault:  # it has no cap; what is left goes with this process, or is swept
            _log.warning("%s: not all could be put back: %s", name, fault)
