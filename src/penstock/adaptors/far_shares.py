# SPDX-License-Identifier: Apache-2.0
"""CPU shares on many hosts, in the driver: says what executors are to be held to, for a master to pass on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from dataclasses import replace

from penstock.adaptors.cgroups.counted_shares import CountedShares
from penstock.adaptors.process.identity import place
from penstock.errors import ActuationError, PenstockError
from penstock.records import Allocation, CpuReading, ExecutorShare, ExecutorState

_log = logging.getLogger(__name__)


class FarShares:
    """Says what each executor may use, and holds those of this host itself where it can.

    The telemetry carries `share` to the master, which tells the agents of all hosts (`cgroups.host_shares`).

    Parameters
    ----------
    application_id
        Whose executors.
    top, cores_per_executor
        The largest allocation of the limits, and the cores that Spark gave each executor.
    here
        Holds the executors of this host; None: this process cannot, and leaves them to the agent of the host. It also
        does where it finds that it may not move all of them, or that somebody else holds some.
    """

    def __init__(
        self, application_id: str, top: Allocation, cores_per_executor: float, here: CountedShares | None
    ) -> None:
        self._top, self._cores = top, cores_per_executor
        self._here = here
        self._is_leaving = False
        self._lock = threading.Lock()
        self._share: ExecutorShare | None = ExecutorShare(application_id, None, "" if here is None else place())

    @property
    def share(self) -> ExecutorShare | None:
        """What executors are to be held to; None: nobody is to hold them any more."""
        with self._lock:
            share, here = self._share, self._here
        if here is not None and (here.lacks_rights or here.held_elsewhere):
            self._leave(here)
        return share if share is None or here is None else replace(share, held=tuple(sorted(here.joined)))

    def apply(self, allocation: Allocation) -> None:
        """Have the executors held to the allocation's share."""
        is_top = allocation.executors >= self._top.executors and allocation.cpu_share >= 1.0
        self._hold(None if is_top else allocation.cpu_share * self._cores)

    def widen(self, allocation: Allocation) -> None:  # noqa: ARG002 - it holds for every executor alike
        """Let executors have the largest share of the limits while some of them start."""
        self.apply(self._top)

    def open(self) -> None:
        """Lift the caps, on all hosts."""
        self._hold(None)

    def release(self) -> None:
        """Lift the caps, and have no executor held any more. May be called twice."""
        with self._lock:
            self._share = None
            here = self._here
        if here is not None:
            here.release()

    def read(self) -> CpuReading | None:
        """Return the counters of the executors on this host; None: this process does not hold them."""
        here = self._held_here()
        return None if here is None else here.read()

    def share_refusal(self) -> str | None:
        """Return None: who is not held shows in the telemetry."""
        return None

    def unheld(self, executors: Iterable[ExecutorState], now: float) -> str | None:  # noqa: ARG002
        """Return None: the master knows whose executors the agents of the hosts hold."""
        return None

    @property
    def faults(self) -> tuple[str, ...]:
        """What does not work at present, one line each."""
        here = self._held_here()
        return () if here is None else here.faults

    def _hold(self, cores_each: float | None) -> None:
        with self._lock:
            if self._share is None:
                raise ActuationError("CPU shares were released", target="cpu shares")
            self._share = replace(self._share, cores_each=cores_each)
        here = self._held_here()
        if here is not None:
            here.hold(cores_each)

    def _held_here(self) -> CountedShares | None:
        return None if self._is_leaving else self._here

    def _leave(self, here: CountedShares) -> None:
        """Leave the executors of this host to its agent: it may have all of them, and two must not hold the same."""
        with self._lock:
            if self._is_leaving or self._share is None:
                return
            self._is_leaving = True
        # Whoever asks for the share is not to wait for that, and the place is ours until it is done.
        try:
            threading.Thread(target=self._give_up, args=(here,), name="penstock-far-shares", daemon=True).start()
        except RuntimeError:  # the machine allows no further thread: the cap must still follow, until it does
            self._is_leaving = False
            return
        _log.warning("executors of this host are left to the penstock agent of the host: %s", "; ".join(here.faults))

    def _give_up(self, here: CountedShares) -> None:
        try:
            here.release()
        except (PenstockError, OSError) as fault:  # there is no cap, and the agent moves whom it finds
            _log.warning("not all executors of this host could be put back: %s", fault)
        with self._lock:
            self._here = None
            if self._share is not None:
                self._share = replace(self._share, held_at="")
