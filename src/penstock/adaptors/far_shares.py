# SPDX-License-Identifier: Apache-2.0
"""CPU shares on many hosts, in the driver: says what executors are to be held to, for a master to pass on."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import replace

from penstock.adaptors.cgroups.counted_shares import CountedShares
from penstock.adaptors.process.identity import place
from penstock.errors import ActuationError
from penstock.records import Allocation, CpuReading, ExecutorShare, ExecutorState


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
        Holds the executors of this host; None: this process cannot, and leaves them to the agent of the host.
    """

    def __init__(
        self, application_id: str, top: Allocation, cores_per_executor: float, here: CountedShares | None
    ) -> None:
        self._top, self._cores, self._here = top, cores_per_executor, here
        self._lock = threading.Lock()
        self._share: ExecutorShare | None = ExecutorShare(application_id, None, "" if here is None else place())

    @property
    def share(self) -> ExecutorShare | None:
        """What executors are to be held to; None: nobody is to hold them any more."""
        share, here = self._share, self._here
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
        if self._here is not None:
            self._here.release()

    def read(self) -> CpuReading | None:
        """Return the counters of the executors on this host; None: this process does not hold them."""
        return None if self._here is None else self._here.read()

    def share_refusal(self) -> str | None:
        """Return None: who is not held shows in the telemetry."""
        return None

    def unheld(self, executors: Iterable[ExecutorState], now: float) -> str | None:  # noqa: ARG002
        """Return None: the master knows whose executors the agents of the hosts hold."""
        return None

    @property
    def faults(self) -> tuple[str, ...]:
        """What does not work at present, one line each."""
        return () if self._here is None else self._here.faults

    def _hold(self, cores_each: float | None) -> None:
        with self._lock:
            if self._share is None:
                raise ActuationError("CPU shares were released", target="cpu shares")
            self._share = replace(self._share, cores_each=cores_each)
        if self._here is not None:
            self._here.hold(cores_each)
