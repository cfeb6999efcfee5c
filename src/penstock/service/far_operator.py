# SPDX-License-Identifier: Apache-2.0
"""An operator behind its agent, as the loop in a master has it: all its instants by the clock of the master's host."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from penstock.adaptors.agent.channel import Channel
from penstock.adaptors.agent.client import RemoteOperator
from penstock.adaptors.agent.followed_path import ReportedPath
from penstock.adaptors.agent.reported_arrivals import reported_arrivals
from penstock.adaptors.agent.wire import FromAgent
from penstock.monitor.latency import LatencyTracker
from penstock.monitor.path import PathMonitor
from penstock.records import Action, Telemetry
from penstock.service.attached_pipeline import AttachedPipeline

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
    """

    def __init__(
        self,
        attached: AttachedPipeline,
        operator: str,
        connect: Callable[[], Channel[FromAgent]],
        skew: Callable[[], float],
        fence: int,
    ) -> None:
        def shift() -> float:
            return skew() if abs(skew()) > SKEW_SECONDS else 0.0

        known = attached.operators[operator]
        self._shift = shift
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
        return telemetry if seconds == 0.0 else shifted(telemetry, seconds)

    def request(self, action: Action) -> None:
        """Request the allocation in `action`."""
        self.remote.request(action)

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
