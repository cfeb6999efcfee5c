# SPDX-License-Identifier: Apache-2.0
"""Measures an application at several sizes and delays: one geo cluster, one application, everything changed live.

`python -m penstock.running.placed_measurement JOB.json` prints a line of JSON for each turn as soon as it is taken.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.clock import Clock, SystemClock
from penstock.errors import ClusterError, MetricSourceError, PenstockError
from penstock.measuring.placed_turns import PlacedJob, PlacedThroughput, PlacedTurn, TurnTaking
from penstock.measuring.warm_up import WarmUp
from penstock.records import Action, Allocation, Mode, decode
from penstock.running.back_off import BackOff
from penstock.running.measured_source import ReplayedAtOnce
from penstock.running.operator_job import JobOutput
from penstock.running.operator_launcher import OperatorLauncher
from penstock.running.running_operator import RunningOperator
from penstock.running.starting import embedded_cluster, make_job
from penstock.settings import ClusterSettings, OperatorSettings, RestartSettings
from penstock.settings.geo import HOME

if TYPE_CHECKING:
    from penstock.adaptors.geo.cluster import GeoCluster
    from penstock.adaptors.process.children import Warden
    from penstock.records import Telemetry

_NAME = "measured"
_LOOK_SECONDS = 0.5
_CAP_FILE = "cap.txt"


def _settings(job: PlacedJob) -> tuple[ClusterSettings, OperatorSettings]:
    """The cluster and the operator, as the parts that start them want them."""
    cluster = {"geo": {"nodes": dict.fromkeys(job.nodes, job.cores_per_node)}}
    operator = {
        **job.operator, "name": _NAME, "executors": [1, len(job.nodes)], "cpu_shares": [1.0],
        # As many tasks at every size, also behind a shuffle.
        "spark": {"spark.sql.shuffle.partitions": str(job.tasks)},
    }  # fmt: skip
    return ClusterSettings.model_validate(cluster), OperatorSettings.model_validate(operator)


Take = Callable[[int, PlacedThroughput], None]
"""Takes the place of a turn in the job, and what it gave."""


def measure_placed(job: PlacedJob, folder: Path, take: Take, say: Callable[[str], None]) -> None:
    """Take every turn of the job.

    Raises
    ------
    ConfigurationError
        In one line: not root, or something in the job is wrong.
    ClusterError
        Something could not be started, or cannot be measured. What was taken was handed on before.
    """
    from penstock.adaptors.geo.cluster import GeoCluster
    from penstock.adaptors.process.children import Warden
    from penstock.adaptors.process.leftovers import remove_leftovers

    remove_leftovers()
    cluster_settings, operator = _settings(job)
    stop = threading.Event()
    with Warden() as warden:
        cluster = embedded_cluster(cluster_settings, [operator], warden, folder / "cluster", stop=stop)
        assert isinstance(cluster, GeoCluster)
        try:
            say(f"starting a geo cluster of {len(job.nodes)} nodes")
            cluster.start()
            with _Application(
                job, operator, cluster=cluster, warden=warden, folder=folder, clock=SystemClock()
            ) as application:
                application.start(say)
                for place, turn in enumerate(job.turns):
                    take(place, application.measured(turn))
        finally:
            cluster.release()


class _Application:
    """The measured application. Use as a context manager: it is ended in any case."""

    def __init__(
        self,
        job: PlacedJob,
        operator: OperatorSettings,
        *,
        cluster: GeoCluster,
        warden: Warden,
        folder: Path,
        clock: Clock,
    ) -> None:
        from penstock.adaptors.agent.client import RemoteOperator

        source = ReplayedAtOnce(job.source)
        self._job, self._cluster, self._clock, self._stop = job, cluster, clock, threading.Event()
        own = folder / "application"
        own.mkdir(parents=True)
        self._cap_file, self._cap = own / _CAP_FILE, job.warm_up_cap
        limits = replace(operator.limits(), nodes=job.nodes, executors_per_node=1)
        made = make_job(
            operator,
            source.reads(job.tasks, self._cap, self._cap_file),
            JobOutput(is_dropped=True),
            master=cluster.master_url,
            folder=own,
            socket_path=warden.temporary_folder() / f"{_NAME}.sock",
            mode=Mode.ACT,
            streams=source.spark,
            is_embedded=True,
            driver_host=cluster.driver_host,
            limits=limits,
        )
        self._operator = RunningOperator(
            operator,
            {None: made},
            launcher=OperatorLauncher(
                _NAME, own, folder / "logs", cluster.spark_environment(), warden, command=cluster.driver_command
            ),
            remote=RemoteOperator(made.socket_path),
            back_off=BackOff(RestartSettings()),
        )

    def __enter__(self) -> _Application:
        return self

    def __exit__(self, *_: object) -> None:
        self._operator.end()
        self._operator.close()

    def start(self, say: Callable[[str], None]) -> None:
        """Start it with all executors, and let them warm up: their nodes have no cap on CPU meanwhile, and no delay."""
        job, clock = self._job, self._clock
        self._cluster.quotas.lift()
        say("starting the application")
        self._operator.start(clock.monotonic())
        while not self._operator.is_ready(clock.monotonic()):
            clock.wait(0.2, self._stop)
        warm_up = WarmUp(len(job.nodes), job.warm_up_seconds, job.warm_up_most_seconds)
        say("warming up")
        records = 0
        while not warm_up.is_over(clock.now()):
            look = self._look()
            for batch in () if look is None else look.batches:
                records += batch.rows
                warm_up.see(batch.ended_at, records, self._cpu_seconds())
            clock.wait(_LOOK_SECONDS, self._stop)
        self._cluster.quotas.cap()

    def measured(self, turn: PlacedTurn) -> PlacedThroughput:
        """Ask for what a turn has, wait until that is in force, and count."""
        from penstock.adaptors.geo.delays import OneWayDelays

        nodes = self._job.nodes[: turn.executors]
        trips = dict.fromkeys(combinations((HOME, *self._job.nodes), 2), turn.round_trip_seconds)
        self._cluster.network.set_delays(OneWayDelays.of_round_trips(trips))
        target = Allocation(turn.executors, nodes=tuple((node, 1) for node in nodes))
        self._operator.remote.request(Action(_NAME, self._clock.now(), target, None))
        taking = TurnTaking(turn, self._job.rules, self._clock.now(), first_cap=self._cap)
        while True:
            self._set_cap(taking.cap)
            look = self._look()
            if look is not None and (found := taking.see(look.at, look.batches, _there(look))) is not None:
                return found
            self._cluster.check()
            self._clock.wait(_LOOK_SECONDS, self._stop)

    def _set_cap(self, cap: int) -> None:
        from penstock.adaptors.replay.max_rows_file import write_max_rows

        if cap != self._cap:
            self._cap = cap
            write_max_rows(self._cap_file, cap)

    def _look(self) -> Telemetry | None:
        try:
            look = self._operator.remote.collect()
        except MetricSourceError:
            self._operator.is_ready(self._clock.monotonic())  # raises, with its log, if the process has ended
            return None
        if not look.is_running:
            raise ClusterError(f"the application ended: {'; '.join(look.faults) or 'nobody knows why'}", target=_NAME)
        return look

    def _cpu_seconds(self) -> float | None:
        used = [self._cluster.quotas.used_seconds(node) for node in self._job.nodes]
        known = [seconds for seconds in used if seconds is not None]
        return sum(known) if len(known) == len(used) else None


def _there(look: Telemetry) -> int | None:
    """The executors that are there, those that drain included: they still use the node and the network."""
    return None if look.executors is None else sum(one.is_active or one.is_draining for one in look.executors)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the job in the file named on the command line; everything it leaves is put beside that file."""
    path = Path((sys.argv[1:] if arguments is None else arguments)[0]).absolute()
    job = decode(PlacedJob, path.read_bytes())

    def take(place: int, found: PlacedThroughput) -> None:
        line = {
            "place": place, "records_per_second": found.records_per_second, "batches": found.batches,
            "load_average": os.getloadavg()[0],
        }  # fmt: skip
        print(json.dumps(line), flush=True)

    try:
        measure_placed(job, path.parent, take, lambda text: print(text, file=sys.stderr, flush=True))
    except PenstockError as fault:
        print(fault, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
