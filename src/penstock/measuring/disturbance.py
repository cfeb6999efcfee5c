# SPDX-License-Identifier: Apache-2.0
"""Whether others used the host while a sample was taken.

Three signs, each as a share of the host's CPU time or per core: CPU that the hypervisor gave to others (steal), CPU
that processes other than ours used, and threads that were ready to run. The last is judged only where the second is
not known: our own executors also queue for the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.units import number


@dataclass(frozen=True, slots=True)
class HostReading:
    """Cumulative CPU time of a host in seconds, summed over its cores, and what is ready to run now."""

    at: float
    cores: int
    busy_seconds: float
    """User, system and interrupts."""
    idle_seconds: float
    steal_seconds: float
    runnable: int
    ours_seconds: float | None = None
    """What our own processes used; None: it was not asked for."""


@dataclass(frozen=True, slots=True)
class HostLoad:
    """How a host was used over a time: shares of all its CPU time, from 0 to 1."""

    busy: float
    steal: float
    others: float | None
    """By processes other than ours; None: not known, as where executors run on other hosts."""
    runnable_per_core: float
    """Threads that ran or were ready to, on average."""


def load_between(first: HostReading, last: HostReading, runnable: Sequence[int] = ()) -> HostLoad | None:
    """The host's load from one reading to the other; None where no time has passed between them.

    Parameters
    ----------
    first, last
        The readings.
    runnable
        Threads ready to run, as seen in between.

    Examples
    --------
    >>> first = HostReading(0.0, 2, 10.0, 50.0, 0.0, 3, ours_seconds=5.0)
    >>> load_between(first, HostReading(10.0, 2, 20.0, 59.0, 1.0, 5, ours_seconds=13.0))
    HostLoad(busy=0.5, steal=0.05, others=0.1, runnable_per_core=2.0)
    """
    busy, steal = last.busy_seconds - first.busy_seconds, last.steal_seconds - first.steal_seconds
    whole = busy + steal + last.idle_seconds - first.idle_seconds
    if whole <= 0:
        return None
    others = None
    if first.ours_seconds is not None and last.ours_seconds is not None:
        # Counters of one process are read after those of the host, so the difference may be below 0 by a little.
        others = max(0.0, busy - (last.ours_seconds - first.ours_seconds)) / whole
    seen = [first.runnable, *runnable, last.runnable]
    return HostLoad(busy / whole, steal / whole, others, sum(seen) / len(seen) / last.cores)


@dataclass(frozen=True, slots=True)
class DisturbanceLimits:
    """Above which a sample counts as disturbed: shares of the host's CPU, and threads for each core."""

    others: float = 0.1
    steal: float = 0.05
    runnable_per_core: float = 3.0

    def __post_init__(self) -> None:
        number("others", self.others, least=0, most=1)
        number("steal", self.steal, least=0, most=1)
        number("runnable_per_core", self.runnable_per_core, above=0)

    def exceeded_by(self, load: HostLoad) -> str | None:
        """What is too much, in words; None: nothing is."""
        faults = []
        if load.steal > self.steal:
            faults.append(f"{_percent(load.steal)} of the CPU went to other guests of the machine (steal)")
        if load.others is not None and load.others > self.others:
            faults.append(f"other processes used {_percent(load.others)} of the CPU")
        if load.others is None and load.runnable_per_core > self.runnable_per_core:
            faults.append(f"{load.runnable_per_core:.1f} threads a core were ready to run")
        return "; ".join(faults) or None


def excess(load: HostLoad | None) -> float:
    """How disturbed a sample was, to find the least disturbed of several."""
    if load is None:
        return float("inf")
    return load.steal + (load.others if load.others is not None else load.runnable_per_core)


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")
