# SPDX-License-Identifier: Apache-2.0
"""An application's CPU over all hosts of its executors: added up, or not known, but never too small."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from penstock.adaptors.cgroups.counters import RisingCounter
from penstock.adaptors.cgroups.shares import executors_text, had_time_to_join
from penstock.records import CpuReading, ExecutorState, Telemetry
from penstock.service.host_agents import Said

_MISSED_SECONDS = 20.0
"""An executor of which no agent said for so long that it holds it is one that nobody can hold. Until then its agent may
be on its way: it was started again, or looks for another master."""
_DRIVER = "driver"


class CpuOverHosts:
    """Completes what a driver says of its executors' CPU with what the agents of hosts say.

    While an executor is not held, as far as is known, the sum is not known. If that lasts, executors cannot be held to
    shares: the telemetry says so, and shares are not planned with.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._missing_since: dict[str, float] = {}
        self._used: dict[str, RisingCounter] = {}
        self._throttled: dict[str, RisingCounter] = {}

    def complete(self, telemetry: Telemetry, said: Mapping[str, Said]) -> Telemetry:
        """The telemetry with the CPU of all hosts. One without a share to pass on stays as it is."""
        share = telemetry.share
        if share is None:
            return telemetry
        held = {*share.held, *(one for host in said.values() for one in host.held.executors)}
        missing = _not_among(held, telemetry)
        lost = self._missed_for_long(missing)
        faults = [f"{host.host}: {fault}" for host in said.values() for fault in host.held.faults]
        why = None
        if lost:
            text = "no `penstock agent` says that it holds them; start one that can on their hosts"
            why = f"{executors_text(lost)} have no CPU share: {text}"
            faults.append(why)
        elif missing:
            faults.append(f"the CPU of {executors_text(missing)} is not known: no agent of their hosts says it now")
        readings = {agent: replace(host.held.cpu, at=host.at) for agent, host in said.items() if host.held.cpu}
        if telemetry.cpu is not None:
            readings[_DRIVER] = telemetry.cpu
        is_known = telemetry.executors is not None and not missing and bool(readings)
        is_known = is_known and (telemetry.cpu is not None or not share.held)
        return replace(
            telemetry,
            cpu=self._sum(readings) if is_known else None,
            faults=(*telemetry.faults, *faults),
            why_no_shares=why,
        )

    def _missed_for_long(self, missing: list[ExecutorState]) -> list[ExecutorState]:
        now = self._monotonic()
        before, self._missing_since = self._missing_since, {}
        for executor in missing:
            self._missing_since[executor.executor_id] = before.get(executor.executor_id, now)
        return [one for one in missing if now - self._missing_since[one.executor_id] >= _MISSED_SECONDS]

    def _sum(self, readings: Mapping[str, CpuReading]) -> CpuReading:
        for agent, reading in readings.items():
            # A group that is seen for the first time may have counted for long, under another master.
            _rise(self._used, agent, reading.used_seconds)
            _rise(self._throttled, agent, reading.throttled_seconds)
        occupied = [reading for reading in readings.values() if reading.executors]
        return CpuReading(
            # They were read at different instants, up to a second apart.
            at=sum(reading.at for reading in readings.values()) / len(readings),
            used_seconds=sum(counter.total for counter in self._used.values()),
            throttled_seconds=sum(counter.total for counter in self._throttled.values()),
            quota_cores=_sum_of([reading.quota_cores for reading in occupied]),
            processes=sum(reading.processes for reading in readings.values()),
            parents_quota_cores=_sum_of([reading.parents_quota_cores for reading in occupied]),
            executors=sum(reading.executors or 0 for reading in occupied),
        )


def _not_among(held: set[str], telemetry: Telemetry) -> list[ExecutorState]:
    """The executors that should be held by now and are not."""
    return [
        executor
        for executor in telemetry.executors or ()
        if executor.is_active and executor.executor_id not in held and had_time_to_join(executor, telemetry.at)
    ]


def _rise(counters: dict[str, RisingCounter], agent: str, seconds: float | None) -> None:
    if seconds is not None:
        counters.setdefault(agent, RisingCounter(seconds)).at(seconds)


def _sum_of(caps: list[float | None]) -> float | None:
    """All caps together; None where one of them is none, or there are no executors."""
    known = [cap for cap in caps if cap is not None]
    return sum(known) if known and len(known) == len(caps) else None
