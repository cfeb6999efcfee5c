# SPDX-License-Identifier: Apache-2.0
"""Whether this host has more to do than it can: load average, CPU pressure and CPU given to other guests.

A busy host makes batches slow for reasons that no allocation can mend, so `penstock doctor` and the summary of a run
mention it. Nothing is decided by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penstock.adaptors.host_load import HostCpu
from penstock.errors import MetricSourceError
from penstock.measuring.disturbance import DisturbanceLimits, HostReading, load_between

_LOAD_PER_CORE = 2.0
"""From here on about every second thread that could run waits."""
_PRESSURE = 0.5
"""Of the time in which at least one task waited for the CPU."""


@dataclass(frozen=True, slots=True)
class HostState:
    """How busy a host is; None: the kernel does not show it.

    Attributes
    ----------
    cores
        How many it has.
    load_average
        Tasks that ran or waited over the last minute.
    pressure
        The part of the last minute in which some task waited for the CPU.
    steal
        The part of the CPU that went to other guests of the machine while the host was watched.
    """

    cores: int | None
    load_average: float | None
    pressure: float | None
    steal: float | None

    @property
    def busy_text(self) -> str | None:
        """What is too much, in words; None: nothing is."""
        found = []
        if self.cores and self.load_average is not None and self.load_average > _LOAD_PER_CORE * self.cores:
            found.append(f"a load average of {self.load_average:.1f} on {self.cores} cores")
        if self.pressure is not None and self.pressure > _PRESSURE:
            found.append(f"some task waited for the CPU {self.pressure:.0%} of the last minute")
        if self.steal is not None and self.steal > DisturbanceLimits().steal:
            found.append(f"{self.steal:.0%} of the CPU went to other guests of the machine (steal)")
        return "; ".join(found) or None

    @property
    def text(self) -> str:
        """What is known, for people."""
        known = [
            None if self.load_average is None else f"load average {self.load_average:.1f}",
            None if self.cores is None else f"{self.cores} cores",
        ]
        return " on ".join(part for part in known if part) or "the kernel does not show its load"


class HostWatch:
    """Watches the host from now on.

    Parameters
    ----------
    proc
        Where the kernel shows its counters.
    """

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc, self._cpu = proc, HostCpu(proc=proc)
        self._first = self._read()

    def state(self) -> HostState:
        """How busy the host is, and what it gave to others since the watch began."""
        last = self._read()
        load = None if self._first is None or last is None else load_between(self._first, last)
        return HostState(
            cores=None if last is None else last.cores,
            load_average=self._number("loadavg", 0),
            pressure=None if (share := self._number("pressure/cpu", 2)) is None else share / 100,
            steal=None if load is None else load.steal,
        )

    def _read(self) -> HostReading | None:
        try:
            return self._cpu.read()
        except MetricSourceError:
            return None

    def _number(self, file: str, place: int) -> float | None:
        """A word of a file as a number: ``0.52`` or ``avg60=0.52``."""
        try:
            return float((self._proc / file).read_text(encoding="ascii").split()[place].rpartition("=")[2])
        except (OSError, IndexError, ValueError):
            return None
