# SPDX-License-Identifier: Apache-2.0
"""An operator behind its agent, as the loop in a master has it: all its instants by the clock of the master's host."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection
from dataclasses import replace

from penstock.adaptors.agent.channel import Channel
from penstock.adaptors.agent.client import RemoteOperator
from penstock.adaptors.agent.followed_path import ReportedPath
from penstock.adaptors.agent.reported_arrivals import reported_arrivals
from penstock.adaptors.agent.wire import FromAgent
from penstock.adaptors.cgroups.lease import LEASE_SECONDS
from penstock.monitor.latency import LatencyTracker
from penstock.monitor.path import PathMonitor
from penstock.records import Action, ExecutorShare, Telemetry
from penstock.service.attached_pipeline import AttachedPipeline
from penstock.service.cpu_over_hosts import CpuOverHosts
from penstock.service.host_agents import HostAgents

SKEW_SECONDS = 1.0
"""Smaller differences of clocks are not told from the time that a message takes."""
_REPLY_SECONDS = 10.0


class FarOperator:
    """Measures and changes an operator through its agent (a `ports.SubscribableSource` and `ports.Actuator`).

    Parameters
    ----------
    attached, operator
        The pipeline, and which operator of it.
    connect
        Gives a channel to its agent; raises OSError while that is away.
    skew
        What the agent's clock is behind ours, in seconds.
    fence
        The number of this master's lease.
    hosts
        The agents of the hosts that its executors may be on.
    """

    def __init__(
        self,
        attached: AttachedPipeline,
        operator: str,
        connect: Callable[[], Channel[FromAgent]],
        skew: Callable[[], float],
        *,
        fence: int,
        hosts: HostAgents,
    ) -> None:
        def shift() -> float:
            return skew() if abs(skew()) > SKEW_SECONDS else 0.0

        known = attached.operators[operator]
        self._shift = shift
        self._hosts, self._cpu = hosts, CpuOverHosts()
        self._share: ExecutorShare | None = None
        self._heard_at = -math.inf
        self.can_set_cpu_share = attached.limits[operator].cpu_shares != (1.0,)
        """Whether there is a choice: its agent has said so, and need not be there to be asked."""
        self.arrivals = reported_arrivals(known.arrivals, shift)
        """When its records arrived; None: its agent does not say it."""
        path = ReportedPath(LatencyTracker(attached.settings.window), shift) if known.follows_path else None
        self.path = None if path is None else PathMonitor(measured=path)
        """When they first arrived at the pipeline; None: that is not said."""
        self.remote = RemoteOperator(
            attached.agent_of(operator),
            connect=connect,
            fence=fence,
            arrivals=self.arrivals,
            path=path,
            timeout_seconds=_REPLY_SECONDS,
        )

    def subscribe(self, metrics: Collection[str], every_seconds: float) -> None:
        """Pass it on."""
        self.remote.subscribe(metrics, every_seconds)

    def collect(self) -> Telemetry:
        """What is new."""
        telemetry, seconds = self.remote.collect(), self._shift()
        self._heard_at = time.monotonic()
        before, self._share = self._share, telemetry.share
        if before != self._share:
            self._hosts.tell_now()
        if telemetry.share is None:
            return telemetry if seconds == 0.0 else shifted(telemetry, seconds)
        said = self._hosts.said(telemetry.share.application_id)
        return self._cpu.complete(telemetry if seconds == 0.0 else shifted(telemetry, seconds), said)

    def beat(self) -> None:
        """Renew the lease that its agent keeps."""
        self.remote.beat()
        self._heard_at = time.monotonic()

    @property
    def share(self) -> ExecutorShare | None:
        """What its executors are to be held to on all hosts; None: nobody is to hold them.

        Its own agent opens its shares when the master is silent. So the other hosts open theirs when that agent is.
        """
        share, is_heard = self._share, time.monotonic() - self._heard_at <= LEASE_SECONDS
        return share if share is None or is_heard else replace(share, cores_each=None)

    def request(self, action: Action) -> None:
        """Request the allocation in `action`."""
        self.remote.request(action)

    def open_shares(self) -> None:
        """Lift the CPU cap and leave the executors as they are."""
        self.remote.open_shares()

    def release(self) -> None:
        """Put everything back as it was."""
        self.remote.release()


def shifted(telemetry: Telemetry, seconds: float) -> Telemetry:
    """Telemetry with every instant moved."""
    return replace(
        telemetry,
        at=telemetry.at + seconds,
        batches=tuple(
            replace(batch, started_at=batch.started_at + seconds, ended_at=batch.ended_at + seconds)
            for batch in telemetry.batches
        ),
        executors=None
        if telemetry.executors is None
        else tuple(
            replace(one, added_at=None if one.added_at is None else one.added_at + seconds)
            for one in telemetry.executors
        ),
        cpu=None if telemetry.cpu is None else replace(telemetry.cpu, at=telemetry.cpu.at + seconds),
    )
