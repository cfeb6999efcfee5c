# SPDX-License-Identifier: Apache-2.0
"""CPU used against CPU allowed over a sliding window, from cumulative counters."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from penstock.records import ExecutorState, Telemetry


@dataclass(frozen=True, slots=True)
class CpuUse:
    """CPU over a window. `utilisation` is used over allowed; `source` says from which counters."""

    utilisation: float
    used_cores: float | None
    throttled_fraction: float | None
    source: str


@dataclass(frozen=True, slots=True)
class _Sample:
    at: float
    used_seconds: float
    allowed_seconds: float  # integral of the allowed cores up to here
    throttled_seconds: float | None


class CpuWindow:
    """Utilisation over the last `window_seconds`.

    With cgroups: CPU seconds used over the integral of the quota (no quota: the executors' cores). Without: time
    in tasks over core time, which counts waiting inside a task as work. Cgroups that could be read once and fail now
    are waited for: time in tasks knows of no quota, and would make a capped operator look idle. Where executors cannot
    be held any more there is no quota.
    """

    def __init__(self, window_seconds: float) -> None:
        self._window_seconds = window_seconds
        self._samples: deque[_Sample] = deque()
        self._source = ""
        self._has_cgroup = False
        self._task_seconds: dict[str, float] = {}
        self._task_total = 0.0

    def add(self, telemetry: Telemetry) -> None:
        """Take the counters of one look; a change of counters starts the window anew."""
        cores = _active_cores(telemetry.executors)
        cpu = telemetry.cpu
        if cpu is not None and (cpu.used_seconds is None or telemetry.why_no_shares is not None):
            # A cap whose use nobody can see, as on Kubernetes, or counters that lack executors: those on other hosts,
            # or that somebody else holds. Time in tasks has to do.
            cpu = None
        self._has_cgroup = self._has_cgroup or cpu is not None
        if cpu is not None and cpu.used_seconds is not None and (cpu.quota_cores is not None or cores is not None):
            own = cpu.quota_cores if cpu.quota_cores is not None else cores
            allowed = min(cap for cap in (own, cpu.parents_quota_cores) if cap is not None)
            self._append("cgroup", cpu.at, cpu.used_seconds, allowed, cpu.throttled_seconds)
        elif (not self._has_cgroup or telemetry.why_no_shares) and telemetry.executors is not None and cores:
            self._append("task time", telemetry.at, self._count_task_seconds(telemetry.executors), cores, None)

    def use(self, now: float) -> CpuUse | None:
        """Utilisation over the window; None without two samples in it."""
        while len(self._samples) > 2 and self._samples[1].at <= now - self._window_seconds:
            self._samples.popleft()
        if len(self._samples) < 2 or self._samples[-1].at < now - self._window_seconds:
            return None
        first, last = self._samples[0], self._samples[-1]
        seconds, allowed = last.at - first.at, last.allowed_seconds - first.allowed_seconds
        if seconds <= 0 or allowed <= 0:
            return None
        used = last.used_seconds - first.used_seconds
        throttled = None
        if first.throttled_seconds is not None and last.throttled_seconds is not None:
            # Summed over the processors of the group, so it may exceed the time that passed.
            throttled = min(1.0, (last.throttled_seconds - first.throttled_seconds) / seconds)
        if self._source == "cgroup":
            return CpuUse(used / allowed, used / seconds, throttled, self._source)
        # A task is counted when it ends, also for the time before the window: there is no more than all of the cores.
        return CpuUse(min(1.0, used / allowed), None, throttled, self._source)

    def _append(self, source: str, at: float, used: float, allowed: float | None, throttled: float | None) -> None:
        assert allowed is not None
        if source != self._source or (self._samples and not self._continues(self._samples[-1], at, used)):
            self._samples.clear()
            self._source = source
        if self._samples and at <= self._samples[-1].at:
            return
        last = self._samples[-1] if self._samples else None
        integral = last.allowed_seconds + allowed * (at - last.at) if last else 0.0
        self._samples.append(_Sample(at, used, integral, throttled))

    def _continues(self, last: _Sample, at: float, used: float) -> bool:
        """Whether a sample goes on from the last: no counter reset, no clock set back, no gap longer than the window.

        An average over a gap would speak of a time nobody watched.
        """
        return used >= last.used_seconds and -1.0 < at - last.at <= self._window_seconds

    def _count_task_seconds(self, executors: tuple[ExecutorState, ...]) -> float:
        # Executors come and go: add up what each gained, so that the sum never falls when one leaves.
        for executor in executors:
            before = self._task_seconds.get(executor.executor_id)
            if before is not None:
                self._task_total += max(0.0, executor.task_seconds - before)
        self._task_seconds = {e.executor_id: e.task_seconds for e in executors}
        return self._task_total


def _active_cores(executors: tuple[ExecutorState, ...] | None) -> float | None:
    if executors is None:
        return None
    return float(sum(e.cores for e in executors if e.is_active))
