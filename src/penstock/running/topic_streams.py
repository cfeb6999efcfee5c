# SPDX-License-Identifier: Apache-2.0
"""Streams that are topics of Kafka: what arrives, and what each operator gives to those below."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.adaptors.kafka.connection import KafkaConnection
from penstock.errors import ClusterError, ConfigurationError
from penstock.monitor.path import PathMonitor
from penstock.running.arrival_load import ArrivalLoad
from penstock.running.operator_job import JobInput, JobOutput, TopicEnd
from penstock.running.operator_streams import OperatorInput
from penstock.running.producer import ProducerJob, ProducerProcess, end_earlier_producer
from penstock.running.real_time_floor import check_floor
from penstock.running.sending import begin_sending
from penstock.running.topic_load import ProducedLoad, TopicLoad, epoch_of
from penstock.settings import BrokerSettings, OperatorSettings, RunSettings
from penstock.topology import ARRIVALS

if TYPE_CHECKING:
    import threading

    from penstock.adaptors.kafka.arrival_times import KafkaArrivals
    from penstock.adaptors.kafka.broker import KafkaBroker
    from penstock.adaptors.kafka.record_latency import RecordLatency
    from penstock.adaptors.kafka.topic_tap import TopicTap
    from penstock.adaptors.kafka.topics import Topic
    from penstock.adaptors.process.children import Warden
    from penstock.adaptors.produce.sent_load import SentRecords


class TopicStreams:
    """Joins the operators of a run by topics, on a broker of the run's own or an existing one.

    Topics are called after the pipeline and who writes to them, such as ``logs.parser``. Those that the run makes are
    removed at its end; one that holds records of another run is refused.

    Parameters
    ----------
    settings
        Of the run; with a broker.
    folder, folder_of
        The run's folder and each operator's own.
    warden
        Keeps the broker and the producer.
    say
        Takes what is being done, and what the user should know.
    clock
        Gives the present instant.
    resume
        Whether topics are expected to be there.
    stop
        Ends the wait for a broker of the run's own.
    """

    def __init__(
        self,
        settings: RunSettings,
        folder: Path,
        folder_of: Mapping[str, Path],
        warden: Warden,
        *,
        say: Callable[[str], None],
        clock: Callable[[], float],
        resume: bool = False,
        stop: threading.Event | None = None,
    ) -> None:
        assert settings.broker is not None
        self._settings, self._wanted = settings, settings.broker
        self._folder, self._folder_of, self._warden = folder, folder_of, warden
        self._say = say
        self._resume, self._stop = resume, stop
        self._broker: KafkaBroker | None = None
        self._connection: KafkaConnection | None = None
        self._made: tuple[str, ...] = ()
        """What `close` removes."""
        self._taken_over: tuple[str, ...] = ()
        """Topics of a resumed run: its own to remove once its operators are."""
        self._taps: dict[str, TopicTap] = {}
        self._paths: dict[str, PathMonitor] = {}
        self._producer: ProducerProcess | None = None
        self._sent: SentRecords | None = None
        """What the producer of a resumed run has sent; None: nothing, or the run is new."""
        self._partitions: dict[str, int] = {}
        """Of each topic, by who writes to it."""
        self._latencies: dict[str, RecordLatency] = {}
        self._noted: set[str] = set()
        self.spark: Mapping[str, str] = {}
        self.load: ArrivalLoad
        if settings.arrivals.topic is None:
            from penstock.adaptors.replay.options import replay_arrivals

            self._replay = replay_arrivals(settings.arrivals.replay_options())
            self.load = ProducedLoad(self._replay)
        else:
            self.load = TopicLoad(lambda: self._arrivals(ARRIVALS), clock)

    # --- their life ---

    def start(self) -> None:
        """Start the broker where the run has one of its own, and make the topics."""
        from penstock.adaptors.kafka.connector import connector_settings
        from penstock.adaptors.kafka.operator_topics import ensure_topics, records_in
        from penstock.adaptors.kafka.topics import Topics

        self.spark = connector_settings(self._say, stop=self._stop)
        if self._wanted.servers == "embedded":
            from penstock.adaptors.kafka.broker import KafkaBroker, one_login

            self._say("starting the Kafka broker")
            self._broker = KafkaBroker(
                self._warden, self._folder / "kafka", users=one_login(), tell=self._say, stop=self._stop
            ).start()
            self._connection = self._broker.connection
        else:
            self._connection = connection_of(self._wanted)
        outside = self._settings.arrivals.topic
        found = [] if outside is None else Topics(self._connection).check([outside])
        names = [self._topic(operator.name) for operator in self._settings.operators]
        if outside is None:
            names.insert(0, self._topic(ARRIVALS))
        hours = self._wanted.retention / 3600.0
        there = ensure_topics(
            self._connection,
            names,
            self._wanted.partitions,
            retention_hours=hours,
            stamped_by_broker=[self._topic(o.name) for o in self._settings.operators if o.is_real_time],
        )
        if self._resume and outside is None:  # before anything is ours: where this fails, all stays as it is
            from penstock.adaptors.produce.sent_records import find_sent

            end_earlier_producer(self._folder)
            self._sent = find_sent(self._connection, self._topic(ARRIVALS))
            if self._sent is not None:
                epoch_of(self._sent, self._replay)
        self._made = there.made
        self._taken_over = tuple(names) if self._resume else ()
        self._learn_partitions([*there.topics, *found])
        if not self._resume:
            held = {name: count for name, count in records_in(self._connection, names).items() if count}
            if held:
                counts = ", ".join(f"{name} ({count:,})" for name, count in held.items())
                raise ConfigurationError(
                    f"broker: topics of this pipeline hold records of another run: {counts}; remove them, or give the "
                    "pipeline another name",
                    field="broker",
                )

    def begin(self) -> None:
        """Start the producer of a trace or shape; all operators wait for its records, and are this run's now."""
        self._made = tuple(dict.fromkeys((*self._made, *self._taken_over)))
        if self._settings.arrivals.topic is not None:
            return
        job = ProducerJob(self._settings.arrivals.replay_options(), self._end(self._topic(ARRIVALS)))
        self._producer = begin_sending(job, self._sent, self._replay, (self._folder, self._warden), self._say)

    def faults(self) -> tuple[str, ...]:
        """Why topics cannot be read now; a broker of the run's own that died is started again."""
        faults = []
        if self._broker is not None and not self._broker.is_running:
            faults.append("the Kafka broker died; starting it again")
            try:
                self._broker.start()
            except ClusterError as fault:
                faults.append(f"the Kafka broker cannot be started: {fault}")
        for name, latency in self._latencies.items():
            if latency.fault is not None:
                faults.append(f"the latency of {name} cannot be measured: {latency.fault}")
            if latency.note is not None and name not in self._noted:
                self._noted.add(name)
                faults.append(latency.note)
        for topic, tap in self._taps.items():
            if tap.fault is not None:
                faults.append(f"topic {topic} cannot be read, so nothing is decided: {tap.fault}")
        if self._producer is not None and (why := self._producer.fault()) is not None:
            faults.append(why)
        return tuple(faults)

    def close(self, *, is_left: bool = False) -> None:
        """End producer and taps, remove the topics that were made, and end the run's own broker.

        With `is_left` the topics stay.
        """
        from penstock.adaptors.kafka.operator_topics import delete_topics

        if self._producer is not None:
            self._producer.stop()
        for tap in self._taps.values():
            tap.close()
        for latency in self._latencies.values():
            latency.close()
        if self._broker is not None:
            self._broker.stop()
        elif self._connection is not None and self._made and not is_left:
            try:
                delete_topics(self._connection, self._made)
            except (ClusterError, ConfigurationError) as fault:
                self._say(f"topics {', '.join(self._made)} could not be removed: {fault}")
        self._made = ()

    # --- both sides of a stream ---

    def ends(self, operator: OperatorSettings) -> tuple[JobInput, JobOutput]:
        """The topic above, with the schema of who writes it, and its own topic."""
        above = None if operator.input == ARRIVALS else str(self._folder_of[operator.input])
        reads = JobInput(
            above=above,
            topic=self._end(self._topic(operator.input)),
            partitions=self._partitions.get(operator.input),
            options=operator.input_options,
            unique=operator.unique,
            unique_within_seconds=operator.unique_within,
        )
        return reads, JobOutput(topic=self._end(self._topic(operator.name)))

    def input_of(self, operator: OperatorSettings, checkpoint: str) -> OperatorInput:  # noqa: ARG002
        """When records came into the topic, and by which batches above."""
        from penstock.adaptors.kafka.topic_lineage import TopicLineage

        arrivals, window = self._arrivals(operator.input), self._settings.window
        if operator.is_real_time:
            latencies = self._record_latency(operator.name)
            found = OperatorInput(arrivals, PathMonitor(measured=latencies), latencies)
        elif operator.input == ARRIVALS:
            found = OperatorInput(arrivals, PathMonitor(window_seconds=window))
        else:
            above = self._paths[operator.input]
            lineage = TopicLineage(arrivals, above.batches_between)
            found = OperatorInput(lineage, PathMonitor(above=above, lineage=lineage, window_seconds=window))
        self._paths[operator.name] = found.path
        return found

    def _record_latency(self, operator: str) -> RecordLatency:
        from penstock.adaptors.kafka.record_latency import RecordLatency
        from penstock.monitor.latency import LatencyTracker

        assert self._connection is not None  # started
        counted = LatencyTracker(self._settings.window)
        self._latencies[operator] = RecordLatency(self._connection, self._topic(operator), counted).start()
        return self._latencies[operator]

    def _learn_partitions(self, topics: Iterable[Topic]) -> None:
        """Remember how many partitions topics have, and see that real-time operators have cores for them."""
        of_topic = {topic.name: topic.partitions for topic in topics}
        writers = [ARRIVALS, *(operator.name for operator in self._settings.operators)]
        self._partitions = {writer: of_topic[self._topic(writer)] for writer in writers}
        check_floor(self._settings, self._partitions)

    def _arrivals(self, writer: str) -> KafkaArrivals:
        from penstock.adaptors.kafka.arrival_times import KafkaArrivals
        from penstock.adaptors.kafka.topic_tap import TopicTap

        assert self._connection is not None  # started
        topic = self._topic(writer)
        if topic not in self._taps:
            is_ours = topic != self._settings.arrivals.topic
            begin = "beginning" if is_ours else "end"
            self._taps[topic] = TopicTap(self._connection, [topic], begin=begin).start()
        return KafkaArrivals(self._taps[topic])

    def _topic(self, writer: str) -> str:
        if writer == ARRIVALS and self._settings.arrivals.topic is not None:
            return self._settings.arrivals.topic
        return f"{self._settings.name}.{writer}"

    def _end(self, topic: str) -> TopicEnd:
        return TopicEnd(self._servers, self._options, topic)

    @property
    def _servers(self) -> str:
        assert self._connection is not None  # started
        return self._connection.bootstrap_servers

    @property
    def _options(self) -> Mapping[str, str]:
        assert self._connection is not None  # started
        return self._connection.options


def connection_of(broker: BrokerSettings) -> KafkaConnection:
    """How an existing broker is reached; ConfigurationError where that cannot be."""
    from penstock.adaptors.kafka.known_brokers import connection_to

    assert broker.servers is not None
    return connection_to(broker.servers, broker.options)
