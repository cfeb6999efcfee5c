# SPDX-License-Identifier: Apache-2.0
"""Measures a real-time query at several sizes and delays: one geo cluster, a broker at its home, a topic that is full.

`python -m penstock.running.real_time_measurement JOB.json` prints a line of JSON for each turn as soon as it is taken.
"""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from penstock.clock import Clock, SystemClock
from penstock.errors import ClusterError, MetricSourceError
from penstock.measuring.placed_turns import PlacedThroughput
from penstock.measuring.real_time_turns import Mark, RealTimeJob, RealTimeTaking, RealTimeTurn
from penstock.measuring.warm_up import WarmUp
from penstock.records import BatchProgress, Mode, decode
from penstock.running.operator_job import JobInput, JobOutput, TopicEnd
from penstock.running.placed_application import NAME, PlacedApplication, executors_there, one_on_each
from penstock.running.placed_measurement import Take, print_turns
from penstock.running.starting import embedded_cluster, make_job
from penstock.settings import ClusterSettings, OperatorSettings

if TYPE_CHECKING:
    from penstock.adaptors.geo.cluster import GeoCluster
    from penstock.adaptors.kafka.broker import KafkaBroker
    from penstock.adaptors.kafka.offsets import Partition
    from penstock.adaptors.process.children import Warden

_INPUT = "waiting"
_MARK_SECONDS = 0.2
_GENERATED = 60_000
"""Different records; they come again and again."""
_SEGMENT = {"segment.bytes": str(64 << 20), "retention.bytes": str(256 << 20)}
"""Of topics that are only counted."""


def settings_of(job: RealTimeJob) -> tuple[ClusterSettings, OperatorSettings]:
    """The cluster and the operator, as the parts that start them want them."""
    # A real-time query runs all its tasks at once, so one executor alone must have a slot for each.
    cluster = {"geo": {"nodes": dict.fromkeys(job.nodes, job.cores_per_node), "slots": job.tasks}}
    operator = {
        **job.operator, "name": NAME, "executors": [1, len(job.nodes)], "cpu_shares": [1.0],
        "executor_cores": job.tasks, "trigger": "realtime", "checkpoint_every": job.rules.batch_seconds,
    }  # fmt: skip
    return ClusterSettings.model_validate(cluster), OperatorSettings.model_validate(operator)


def measure_real_time(job: RealTimeJob, folder: Path, take: Take, say: Callable[[str], None]) -> None:
    """Take every turn of the job.

    Raises
    ------
    ConfigurationError
        In one line: not root, or something in the job is wrong.
    ClusterError
        Something could not be started, or cannot be measured. What was taken was handed on before.
    """
    from penstock.adaptors.geo.broker_place import NodePlace
    from penstock.adaptors.geo.cluster import GeoCluster
    from penstock.adaptors.kafka.broker import KafkaBroker
    from penstock.adaptors.process.children import Warden
    from penstock.adaptors.process.leftovers import remove_leftovers

    remove_leftovers()
    cluster_settings, operator = settings_of(job)
    with Warden() as warden:
        cluster = embedded_cluster(cluster_settings, [operator], warden, folder / "cluster", stop=threading.Event())
        assert isinstance(cluster, GeoCluster)
        try:
            say(f"starting a geo cluster of {len(job.nodes)} nodes")
            cluster.start()
            place = NodePlace(cluster.network)
            say("starting a Kafka broker at its home")
            with KafkaBroker(warden, folder / "kafka", place=place, tell=say) as broker, place.entered():
                held = _filled(job, broker, say)
                places = iter(range(len(job.turns)))
                for number, (_, turns) in enumerate(groupby(job.turns, key=lambda turn: turn.fetch_bytes), start=1):
                    of_one = list(turns)
                    with _Query(
                        job, operator, of_one[0], number, held,
                        broker=broker, cluster=cluster, warden=warden, folder=folder, clock=SystemClock(),
                    ) as query:  # fmt: skip
                        query.warm_up(say)
                        for turn in of_one:
                            take(next(places), query.measured(turn))
        finally:
            cluster.release()
            shutil.rmtree(folder / "kafka" / "data", ignore_errors=True)


def _filled(job: RealTimeJob, broker: KafkaBroker, say: Callable[[str], None]) -> Sequence[int]:
    """Fill the topic that all queries read; returns the records of each partition."""
    from penstock.adaptors.kafka.topic_filling import fill_topic
    from penstock.adaptors.kafka.topics import Topics

    say(f"filling a topic with {job.records:,} records")
    Topics(broker.connection).create(_INPUT, partitions=job.tasks)
    return fill_topic(broker.connection, _INPUT, job.tasks, values_of(job.payload, job.records))


def values_of(payload: str, records: int) -> Iterator[bytes]:
    """So many records of a payload, the same ones again and again."""
    from penstock.adaptors.replay.options import ReplayOptions
    from penstock.adaptors.replay.payloads import open_payload

    options = ReplayOptions.parse({"shape": "constant:rate=1,duration=1s", "payload": payload, "seed": "1"})
    some = min(records, _GENERATED)
    lines = open_payload(options).column(0, np.arange(some, dtype=np.int64) * 1000).to_pylist()
    values = [line.encode() for line in lines]
    return (values[number % some] for number in range(records))


class _Query(PlacedApplication):
    """One real-time query: it reads the full topic from its beginning, and writes to a topic of its own."""

    def __init__(
        self,
        job: RealTimeJob,
        operator: OperatorSettings,
        first: RealTimeTurn,
        number: int,
        held: Sequence[int],
        *,
        broker: KafkaBroker,
        cluster: GeoCluster,
        warden: Warden,
        folder: Path,
        clock: Clock,
    ) -> None:
        from penstock.adaptors.kafka.connector import connector_settings
        from penstock.adaptors.kafka.ends import PartitionEnds
        from penstock.adaptors.kafka.topics import Topics

        self._job, self._held = job, {(_INPUT, place): count for place, count in enumerate(held)}
        output = f"results-{number}"
        Topics(broker.connection).create(output, partitions=job.tasks, settings=_SEGMENT)
        self._ends = PartitionEnds(broker.connection)
        self._partitions = [(output, place) for place in range(job.tasks)]
        own = folder / f"query-{number}"
        own.mkdir(parents=True)
        servers, login = broker.bootstrap_servers, broker.connection.options
        reads = {**login, "kafka.max.partition.fetch.bytes": str(first.fetch_bytes)}
        writes = {**login, **{f"kafka.{name}": value for name, value in job.sink.items()}}
        made = make_job(
            operator,
            JobInput(topic=TopicEnd(servers, reads, _INPUT), partitions=job.tasks),
            JobOutput(topic=TopicEnd(servers, writes, output)),
            master=cluster.master_url,
            folder=own,
            socket_path=warden.temporary_folder() / f"{NAME}-{number}.sock",
            mode=Mode.ACT,
            streams=connector_settings(lambda _: None),
            is_embedded=True,
            driver_host=cluster.driver_host,
            limits=one_on_each(operator, job.nodes),
        )
        super().__init__(made, operator, job.nodes, cluster=cluster, warden=warden, folder=folder, clock=clock)

    def warm_up(self, say: Callable[[str], None]) -> None:
        """Start it with all executors, and let them warm up: their nodes have no cap on CPU meanwhile, and no delay."""
        job = self._job
        say("starting the query")
        self.start()
        say("warming up")
        warm_up = WarmUp(len(job.nodes), job.warm_up_seconds, job.warm_up_most_seconds)
        records = 0
        while not warm_up.is_over(self.looks.now()):
            mark = self._mark()
            if mark is not None and mark.records > records:
                records = mark.records
                warm_up.see(mark.at, records, self.cpu_seconds())
            look = self.look()
            check_left(() if look is None else look.batches, self._held)
            self.wait()
        self.cluster.quotas.cap()

    def measured(self, turn: RealTimeTurn) -> PlacedThroughput:
        """Ask for what a turn has, wait until that is in force, and count."""
        self.place(turn.executors, turn.round_trip_seconds)
        taking = RealTimeTaking(turn, self._job.rules, self.looks.now())
        while True:
            look, mark = self.look(), self._mark()
            if look is not None and mark is not None:
                check_left(look.batches, self._held)
                if (found := taking.see(mark, look.batches, executors_there(look))) is not None:
                    return found
            self.cluster.check()
            self.wait(_MARK_SECONDS)

    def _mark(self) -> Mark | None:
        """How many records the broker has of the query; None: it does not say now."""
        try:
            ends = self._ends.next(self._partitions)
        except MetricSourceError:
            return None
        return Mark(self.looks.now(), sum(ends.values()))


def check_left(batches: Sequence[BatchProgress], held: Mapping[Partition, int]) -> None:
    """Raise ClusterError when a partition has run out: its task would be idle, and be counted as if it worked."""
    from penstock.adaptors.kafka.offsets import parse_offsets

    for batch in batches:
        for source in batch.sources:
            ends = parse_offsets(source.end_offset) or {}
            if any(end >= held.get(partition, end + 1) for partition, end in ends.items()):
                raise ClusterError(
                    f"the records of the topic have run out; give more than {sum(held.values()):,} (`records`)",
                    target=NAME,
                )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the job in the file named on the command line; everything it leaves is put beside that file."""
    path = Path((sys.argv[1:] if arguments is None else arguments)[0]).absolute()
    job = decode(RealTimeJob, path.read_bytes())
    return print_turns(lambda take, say: measure_real_time(job, path.parent, take, say))


if __name__ == "__main__":
    sys.exit(main())
