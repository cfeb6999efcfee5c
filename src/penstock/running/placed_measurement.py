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
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.clock import Clock, SystemClock
from penstock.errors import PenstockError
from penstock.measuring.calm_turns import calmest
from penstock.measuring.disturbance import DisturbanceLimits
from penstock.measuring.placed_turns import PlacedJob, PlacedThroughput, PlacedTurn, TurnTaking
from penstock.measuring.warm_up import WarmUp
from penstock.records import Mode, decode
from penstock.running.measured_source import ReplayedAtOnce
from penstock.running.operator_job import JobOutput
from penstock.running.placed_application import NAME, PlacedApplication, executors_there, one_on_each
from penstock.running.starting import embedded_cluster, make_job
from penstock.settings import ClusterSettings, OperatorSettings

if TYPE_CHECKING:
    from penstock.adaptors.geo.cluster import GeoCluster
    from penstock.adaptors.process.children import Warden

_CAP_FILE = "cap.txt"


def _settings(job: PlacedJob) -> tuple[ClusterSettings, OperatorSettings]:
    """The cluster and the operator, as the parts that start them want them."""
    cluster = {"geo": {"nodes": dict.fromkeys(job.nodes, job.cores_per_node)}}
    operator = {
        **job.operator, "name": NAME, "executors": [1, len(job.nodes)], "cpu_shares": [1.0],
        # As many tasks at every size, also behind a shuffle.
        "spark": {"spark.sql.shuffle.partitions": str(job.tasks), **job.operator.get("spark", {})},
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
    from penstock.adaptors.host_load import HostCpu
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
                application.warm_up(say)
                for place, turn in enumerate(job.turns):
                    take(
                        place,
                        calmest(
                            partial(application.measured, turn),
                            HostCpu().read,
                            most=job.rules.most_takes,
                            limits=DisturbanceLimits(),
                            say=say,
                        ),
                    )
        finally:
            cluster.release()


class _Application(PlacedApplication):
    """The measured application; the most records of its batches can be changed while it runs."""

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
        source = ReplayedAtOnce(job.source)
        self._job = job
        own = folder / "application"
        own.mkdir(parents=True)
        self._cap_file, self._cap = own / _CAP_FILE, job.warm_up_cap
        made = make_job(
            operator,
            source.reads(job.tasks, self._cap, self._cap_file),
            JobOutput(is_dropped=True),
            master=cluster.master_url,
            folder=own,
            socket_path=warden.temporary_folder() / f"{NAME}.sock",
            mode=Mode.ACT,
            streams=source.spark,
            is_embedded=True,
            driver_host=cluster.driver_host,
            limits=one_on_each(operator, job.nodes),
        )
        super().__init__(made, operator, job.nodes, cluster=cluster, warden=warden, folder=folder, clock=clock)

    def warm_up(self, say: Callable[[str], None]) -> None:
        """Start it with all executors, and let them warm up: their nodes have no cap on CPU meanwhile, and no delay."""
        job = self._job
        say("starting the application")
        self.start()
        warm_up = WarmUp(len(job.nodes), job.warm_up_seconds, job.warm_up_most_seconds)
        say("warming up")
        records = 0
        while not warm_up.is_over(self.looks.now()):
            look = self.look()
            for batch in () if look is None else look.batches:
                records += batch.rows
                warm_up.see(batch.ended_at, records, self.cpu_seconds())
            self.wait()
        self.cluster.quotas.cap()

    def measured(self, turn: PlacedTurn) -> PlacedThroughput:
        """Ask for what a turn has, wait until that is in force, and count."""
        self.place(turn.executors, turn.round_trip_seconds)
        taking = TurnTaking(turn, self._job.rules, self.looks.now(), first_cap=self._cap)
        while True:
            self._set_cap(taking.cap)
            look = self.look()
            if look is not None and (found := taking.see(look.at, look.batches, executors_there(look))) is not None:
                return found
            self.cluster.check()
            self.wait()

    def _set_cap(self, cap: int) -> None:
        from penstock.adaptors.replay.max_rows_file import write_max_rows

        if cap != self._cap:
            self._cap = cap
            write_max_rows(self._cap_file, cap)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the job in the file named on the command line; everything it leaves is put beside that file."""
    path = Path((sys.argv[1:] if arguments is None else arguments)[0]).absolute()
    job = decode(PlacedJob, path.read_bytes())
    return print_turns(lambda take, say: measure_placed(job, path.parent, take, say))


def print_turns(measure: Callable[[Take, Callable[[str], None]], None]) -> int:
    """Print a line of JSON for each turn that a measurement takes; returns the process's exit code."""

    def take(place: int, found: PlacedThroughput) -> None:
        line = {
            "place": place, "records_per_second": found.records_per_second, "batches": found.batches,
            "load_average": os.getloadavg()[0], "steal": found.steal,
        }  # fmt: skip
        print(json.dumps(line), flush=True)

    try:
        measure(take, lambda text: print(text, file=sys.stderr, flush=True))
    except PenstockError as fault:
        print(fault, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
