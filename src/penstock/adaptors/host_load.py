# SPDX-License-Identifier: Apache-2.0
"""Reads how this host's CPU is used, in all and by a process with all that it has started."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from penstock.clock import Clock, SystemClock
from penstock.errors import MetricSourceError
from penstock.measuring.disturbance import HostReading

_USED = ("user", "nice", "system", "irq", "softirq")
_IDLE = ("idle", "iowait")
_FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
"""The numbers of a `cpu` line of /proc/stat, in hundredths of a second on every Linux of today (man proc_stat)."""


class HostCpu:
    """The CPU counters of this host.

    Parameters
    ----------
    root
        The process whose CPU, with that of all processes below it, is ours; None: nobody's is counted apart.
    proc
        Where the kernel shows its counters.
    """

    def __init__(self, root: int | None = None, *, proc: Path = Path("/proc"), clock: Clock | None = None) -> None:
        self._root, self._stat = root, proc / "stat"
        self._clock: Clock = clock or SystemClock()
        self._ticks = os.sysconf("SC_CLK_TCK")

    def read(self) -> HostReading:
        """Return the counters now.

        Raises
        ------
        MetricSourceError
            The kernel does not show them.
        """
        words = self._words()
        try:
            spent = dict(zip(_FIELDS, (int(word) / self._ticks for word in words["cpu"]), strict=False))
            return HostReading(
                at=self._clock.now(),
                cores=sum(1 for name in words if name.startswith("cpu") and name != "cpu"),
                busy_seconds=sum(spent[name] for name in _USED),
                idle_seconds=sum(spent[name] for name in _IDLE),
                steal_seconds=spent.get("steal", 0.0),
                runnable=int(words["procs_running"][0]),
                ours_seconds=None if self._root is None else tree_seconds(self._root),
            )
        except (KeyError, IndexError, ValueError) as fault:
            raise MetricSourceError(f"{self._stat} is not as expected: {fault!r}", target=str(self._stat)) from fault

    def runnable(self) -> int:
        """How many threads run or are ready to; cheaper than `read`."""
        try:
            return int(self._words()["procs_running"][0])
        except (KeyError, IndexError, ValueError) as fault:
            raise MetricSourceError(f"{self._stat} is not as expected: {fault!r}", target=str(self._stat)) from fault

    def _words(self) -> dict[str, list[str]]:
        try:
            lines = self._stat.read_text(encoding="ascii").splitlines()
        except OSError as fault:
            raise MetricSourceError(f"{self._stat} cannot be read: {fault}", target=str(self._stat)) from fault
        return {words[0]: words[1:] for words in (line.split() for line in lines) if words}


def tree_seconds(root: int) -> float:
    """CPU time of a process and all below it, with what their ended children had used."""
    try:
        top = psutil.Process(root)
        every = [top, *top.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0.0
    total = 0.0
    for process in every:
        try:
            spent = process.cpu_times()
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue  # it ended meanwhile: its parent has its time
        total += spent.user + spent.system + spent.children_user + spent.children_system
    return total
