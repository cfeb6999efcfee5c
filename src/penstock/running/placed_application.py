# SPDX-License-Identifier: Apache-2.0
"""An application on a geo cluster that is measured: its executors come to chosen nodes, delays change while it runs."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Self

from penstock.clock import Clock
from penstock.errors import ClusterError, MetricSourceError
from penstock.measuring.steady_looks import SteadyLooks
from penstock.records import Action, Allocation, Limits
from penstock.running.back_off import BackOff
from penstock.running.operator_launcher import OperatorLauncher
from penstock.running.running_operator import RunningOperator
from penstock.settings import OperatorSettings, RestartSettings
from penstock.settings.geo import HOME

if TYPE_CHECKING:
    from penstock.adaptors.geo.cluster import GeoCluster
    from penstock.adaptors.process.children import Warden
    from penstock.records import Telemetry
    from penstock.running.operator_job import OperatorJob

NAME = "measured"
"""Of the application."""
LOOK_SECONDS = 0.5
_STEP_SECONDS = 0.08
"""Round trips grow by at most this at once: TCP takes an answer that is 0.2 s late for lost, and sends less then."""
_STEP_PAUSE_SECONDS = 0.4
"""Until connections have learnt of it."""


def one_on_each(operator: OperatorSettings, nodes: Sequence[str]) -> Limits:
    """The operator's limits, with at most one executor on each node."""
    return replace(operator.limits(), nodes=tuple(nodes), executors_per_node=1)


class PlacedApplication:
    """Use as a context manager: it is ended in any case.

    Parameters
    ----------
    job, operator
        What its process does, and the operator's settings.
    nodes
        Where its executors may be, the first of them first.
    cluster, warden, clock
        Where it runs, what keeps its process, and the time.
    folder
        Gets its log; the job has a folder of its own.
    """

    def __init__(
        self,
        job: OperatorJob,
        operator: OperatorSettings,
        nodes: Sequence[str],
        *,
        cluster: GeoCluster,
        warden: Warden,
        folder: Path,
        clock: Clock,
    ) -> None:
        from penstock.adaptors.agent.client import RemoteOperator

        self.cluster, self.clock = cluster, clock
        self.looks = SteadyLooks(clock)
        """What instants are counted by."""
        self._nodes, self._stop = tuple(nodes), threading.Event()
        self._round_trip_seconds = 0.0
        self._operator = RunningOperator(
            operator,
            {None: job},
            launcher=OperatorLauncher(
                NAME,
                Path(job.folder),
                folder / "logs",
                cluster.spark_environment(),
                warden,
                command=cluster.driver_command,
            ),
            remote=RemoteOperator(Path(job.socket_path)),
            back_off=BackOff(RestartSettings()),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._operator.end()
        self._operator.close()

    def start(self) -> None:
        """Start it with all executors, without delays and without caps on their nodes' CPU, until it is ready."""
        self.cluster.quotas.lift()
        self.set_round_trips(0.0)
        self._operator.start(self.clock.monotonic())
        while not self._operator.is_ready(self.clock.monotonic()):
            self.wait(0.2)

    def place(self, executors: int, round_trip_seconds: float) -> None:
        """Ask for executors on the first nodes, and have everything so far apart."""
        self.set_round_trips(round_trip_seconds)
        target = Allocation(executors, nodes=tuple((node, 1) for node in self._nodes[:executors]))
        self._operator.remote.request(Action(NAME, self.clock.now(), target, None))

    def set_round_trips(self, seconds: float) -> None:
        """Between all nodes, home included; longer ones step by step."""
        from penstock.adaptors.geo.delays import OneWayDelays

        steps = gradually(self._round_trip_seconds, seconds)
        for step in steps:
            trips = dict.fromkeys(combinations((HOME, *self._nodes), 2), step)
            self.cluster.network.set_delays(OneWayDelays.of_round_trips(trips))
            if step != steps[-1]:
                self.wait(_STEP_PAUSE_SECONDS)
        self._round_trip_seconds = seconds

    def look(self) -> Telemetry | None:
        """What there is to see; None: it does not answer now.

        Raises
        ------
        ClusterError
            It has ended.
        """
        try:
            look = self._operator.remote.collect()
        except MetricSourceError:
            self._operator.is_ready(self.clock.monotonic())  # raises, with its log, if the process has ended
            return None
        if not look.is_running:
            raise ClusterError(f"the application ended: {'; '.join(look.faults) or 'nobody knows why'}", target=NAME)
        return self.looks.steady(look)

    def cpu_seconds(self) -> float | None:
        """What all nodes have used so far; None: it is not known of all."""
        used = [self.cluster.quotas.used_seconds(node) for node in self._nodes]
        known = [seconds for seconds in used if seconds is not None]
        return sum(known) if len(known) == len(used) else None

    def wait(self, seconds: float = LOOK_SECONDS) -> None:
        """Between two looks."""
        self.clock.wait(seconds, self._stop)


def gradually(now: float, wanted: float) -> list[float]:
    """The round trips, in seconds, by which one comes from one to another; shorter ones come at once.

    Examples
    --------
    >>> gradually(0.0, 0.2)
    [0.08, 0.16, 0.2]
    >>> gradually(0.2, 0.05)
    [0.05]
    """
    found = []
    while wanted - now > _STEP_SECONDS + 1e-9:
        now = round(now + _STEP_SECONDS, 6)
        found.append(now)
    return [*found, wanted]


def executors_there(look: Telemetry) -> int | None:
    """The executors that are there, those that drain included: they still use the node and the network."""
    return None if look.executors is None else sum(one.is_active or one.is_draining for one in look.executors)
