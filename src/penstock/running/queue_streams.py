# SPDX-License-Identifier: Apache-2.0
"""MEAD's own set-up: RabbitMQ's fanout feeds the first operators and the monitor, folders join the others.

::

    producer ──> exchange NAME.arrivals ──> NAME.arrivals.pipeline.OPERATOR ──> each first operator
                                       ├──> NAME.arrivals.monitor ──> tap, which plans are made from
                                       └──> NAME.arrivals.newest ──> how far the load came, for a resumed run
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.adaptors.produce.sent_load import SentRecord, SentRecords
from penstock.errors import AdaptorError, ConfigurationError
from penstock.running.arrival_load import ArrivalLoad
from penstock.running.folder_streams import FolderJoins
from penstock.running.operator_job import ExchangeEnd, JobInput, JobOutput, QueueEnd
from penstock.running.operator_streams import OperatorInput
from penstock.running.producer import ProducerJob, ProducerProcess, end_earlier_producer
from penstock.running.sending import begin_sending
from penstock.running.topic_load import ProducedLoad, TopicLoad, epoch_of
from penstock.settings import BrokerSettings, OperatorSettings, RunSettings
from penstock.settings.broker import EMBEDDED
from penstock.topology import ARRIVALS

if TYPE_CHECKING:
    import threading

    from penstock.adaptors.process.children import Warden
    from penstock.adaptors.rabbitmq.arrival_log import ArrivalLog
    from penstock.adaptors.rabbitmq.connection import RabbitMQConnection
    from penstock.adaptors.rabbitmq.fanout import Fanout
    from penstock.adaptors.rabbitmq.server import RabbitMQServer
    from penstock.adaptors.rabbitmq.tapped_arrivals import TappedArrivals

_SPOOL = "spool"
_QUICK = {"socket_timeout": "2", "stack_timeout": "4"}
"""For connections of the loop, which must not wait long for a server that is away."""
_SETTLE_SECONDS = 0.5


class QueueStreams:
    """Feeds the first operators of a run by queues of a RabbitMQ of the run's own, or of an existing one.

    Exchange and queues are called after the pipeline. Those that the run makes are removed at its end; a queue that
    holds messages of another run is refused.

    Parameters
    ----------
    settings
        Of the run; with RabbitMQ.
    folder, folder_of
        The run's folder and each operator's own.
    warden
        Keeps the server and the producer.
    say
        Takes what is being done, and what the user should know.
    clock
        Gives the present instant.
    resume
        Whether the queues are expected to be there.
    stop
        Ends the wait for a server of the run's own.
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
        self._say, self._clock = say, clock
        self._resume, self._stop = resume, stop
        self._joins = FolderJoins(settings, folder_of)
        self._server: RabbitMQServer | None = None
        self._url = "" if self._wanted.is_embedded else str(self._wanted.rabbitmq)
        self._is_ours = False
        """Whether `close` removes the exchange and its queues."""
        self._log: ArrivalLog | None = None
        self._arrivals: dict[str, TappedArrivals] = {}
        self._producer: ProducerProcess | None = None
        self._sent: SentRecords | None = None
        """What the producer of a resumed run has sent; None: nothing, or the run is new."""
        self.spark: Mapping[str, str] = {}
        self.load: ArrivalLoad
        if settings.arrivals.is_replayed:
            from penstock.adaptors.replay.options import replay_arrivals

            self._replay = replay_arrivals(settings.arrivals.replay_options())
            self.load = ProducedLoad(self._replay, rows_before)
        else:
            self.load = TopicLoad(lambda: next(iter(self._arrivals.values())), clock, rows_before)

    # --- their life ---

    def start(self) -> None:
        """Start the server where the run has one of its own, and make the exchange and its queues."""
        from penstock.adaptors.rabbitmq import fanout
        from penstock.adaptors.rabbitmq.arrival_log import ArrivalLog
        from penstock.adaptors.rabbitmq.queue_tap import QueueTap

        if self._wanted.is_embedded:
            from penstock.adaptors.rabbitmq.server import RabbitMQServer

            self._say("starting RabbitMQ")
            self._server = RabbitMQServer(self._warden, self._folder / "rabbitmq", stop=self._stop)
            self._server.start()
            self._url = self._server.url
        connection = self._connection()
        if not self._resume:
            taken = [fanout.why_not_free(connection, each.pipeline_queue_name) for each in self._fanouts()]
            if any(taken):
                raise ConfigurationError(
                    f"broker: {'; '.join(filter(None, taken))}: another run of this pipeline is there, or was; delete "
                    "its queues, or give the pipeline another name",
                    field="broker",
                )
        elif self._settings.arrivals.is_replayed:  # before anything is ours: where this fails, all stays as it is
            end_earlier_producer(self._folder)
            self._sent = self._find_sent(connection)
            if self._sent is not None:
                epoch_of(self._sent, self._replay)
        self._declare()
        self._is_ours = not self._resume
        monitored = self._fanouts()[0].monitor_queue_name
        self._log = ArrivalLog(lambda: QueueTap(self._connection(_QUICK), monitored), self._clock)
        self._log.start()

    def begin(self) -> None:
        """Start the producer of a trace or shape; all operators wait for its records, and are this run's now."""
        self._is_ours = True
        if not self._settings.arrivals.is_replayed:
            return
        to = ExchangeEnd(self._url, self._options, self._exchange)
        job = ProducerJob(self._settings.arrivals.replay_options(), to)
        self._producer = begin_sending(job, self._sent, self._replay, (self._folder, self._warden), self._say)

    def faults(self) -> tuple[str, ...]:
        """What is wrong now; a server of the run's own that died is started again, and so is a tap."""
        faults = []
        if self._server is not None and not self._server.is_running:
            faults.append("RabbitMQ died; starting it again")
            try:
                self._server.stop()
                self._server.start()
            except (AdaptorError, ConfigurationError) as fault:
                faults.append(f"RabbitMQ cannot be started: {fault}")
        if self._log is not None and self._log.fault is not None:
            faults.append(f"arrivals are not watched: {self._log.fault}; watching again")
            try:
                self._declare()  # the monitor's queue does not outlive a restart of the server
                self._log.start()
            except (AdaptorError, ConfigurationError) as fault:
                faults.append(f"arrivals cannot be watched, so no plan is made: {fault}")
        elif self._log is not None and self._log.lost is not None:
            faults.append(f"neither arrivals nor backlog are known: {self._log.lost}")
        if self._producer is not None and (why := self._producer.fault()) is not None:
            faults.append(why)
        return tuple(faults)

    def close(self, *, is_left: bool = False) -> None:
        """End producer and tap, remove the exchange and queues that were made, and end the run's own server.

        With `is_left` the exchange and its queues stay.
        """
        from penstock.adaptors.rabbitmq import fanout

        if self._producer is not None:
            self._producer.stop()
        if self._log is not None:
            self._log.close()
        for arrivals in self._arrivals.values():
            arrivals.close()
        if self._server is not None:
            self._server.stop()
        elif self._is_ours and not is_left:
            for each in self._fanouts():
                try:
                    fanout.remove(self._connection(), each)
                except AdaptorError as fault:
                    self._say(f"exchange {each.exchange} and its queues could not be removed: {fault}")
        self._is_ours = False

    # --- both sides of a stream ---

    def ends(self, operator: OperatorSettings) -> tuple[JobInput, JobOutput]:
        """The operator's queue, or the folder above; and its own folder."""
        if operator.input != ARRIVALS:
            return self._joins.reads(operator), JobOutput()
        options = {
            **operator.input_options,
            "url": self._url,
            "queue": self._fanout(operator).pipeline_queue_name,
            "spoolDir": str(self._folder_of[operator.name] / _SPOOL),
            "partitions": str(self._wanted.partitions),
            "markResent": str(self._settings.arrivals.is_replayed).lower(),
            **{f"amqp.{name}": value for name, value in self._options.items()},
        }
        queue = QueueEnd(options, is_numbered=self._settings.arrivals.is_replayed)
        return JobInput(queue=queue, partitions=self._wanted.partitions), JobOutput()

    def input_of(self, operator: OperatorSettings, checkpoint: str) -> OperatorInput:
        """The tap, the queue and the spool, or what the sink's log of the operator above says."""
        if operator.input != ARRIVALS:
            return self._joins.input_of(operator, checkpoint)
        from penstock.adaptors.rabbitmq.tapped_arrivals import TappedArrivals

        assert self._log is not None  # started
        self._arrivals[operator.name] = TappedArrivals(
            self._folder_of[operator.name] / _SPOOL,
            self._connection(_QUICK),
            self._fanout(operator).pipeline_queue_name,
            self._log,
        )
        return self._joins.entry(operator, self._arrivals[operator.name])

    def _find_sent(self, connection: RabbitMQConnection) -> SentRecords | None:
        """What the producer had sent: all up to the newest, for it sends in order."""
        from penstock.adaptors.rabbitmq.fanout import newest_message

        queue = self._fanouts()[0].newest_queue
        found: SentRecord | None = newest_message(connection, queue)
        while True:
            time.sleep(_SETTLE_SECONDS)  # what it had passed to the network when it died may come a moment later
            before, found = found, newest_message(connection, queue)
            if found == before:
                return None if found is None else SentRecords(found, found.number + 1, frozenset())

    def _declare(self) -> None:
        from penstock.adaptors.rabbitmq import fanout

        for each in self._fanouts():
            fanout.declare(self._connection(), each)

    def _fanouts(self) -> list[Fanout]:
        return [self._fanout(operator) for operator in self._settings.operators if operator.input == ARRIVALS]

    def _fanout(self, operator: OperatorSettings) -> Fanout:
        from penstock.adaptors.rabbitmq.fanout import Fanout

        own = f"{self._settings.name}.{ARRIVALS}"
        # A server of the run's own ends with it: then nobody resumes.
        is_resumable = self._settings.arrivals.is_replayed and not self._wanted.is_embedded
        return Fanout(
            self._exchange,
            queue=f"{own}.pipeline.{operator.name}",
            monitor_queue=f"{own}.monitor",
            newest_queue=f"{own}.newest" if is_resumable else "",
            is_ours=self._settings.arrivals.is_replayed,
        )

    @property
    def _exchange(self) -> str:
        return self._settings.arrivals.exchange or f"{self._settings.name}.{ARRIVALS}"

    @property
    def _options(self) -> Mapping[str, str]:
        return self._wanted.options

    def _connection(self, more: Mapping[str, str] | None = None) -> RabbitMQConnection:
        from penstock.adaptors.rabbitmq.connection import RabbitMQConnection

        return RabbitMQConnection(self._url, {**(more or {}), **self._options})


def rows_before(checkpoint: Path, text: str | None) -> int | None:
    """How many records of its queue lie before an offset of a query's checkpoint; copies do not count."""
    from penstock.adaptors.rabbitmq.spool_arrivals import SpoolArrivals

    return SpoolArrivals(checkpoint.parent / _SPOOL).records_before(text)


def check_rabbitmq(broker: BrokerSettings) -> None:
    """Find what is wrong with it without connecting: every mistake, with the field below `broker`."""
    try:
        from penstock.adaptors.rabbitmq.connection import RabbitMQConnection

        if broker.rabbitmq == EMBEDDED:
            from penstock.adaptors.rabbitmq.server import find_rabbitmq

            if broker.options:
                raise ConfigurationError(
                    "options: the embedded server needs none; leave them out", field="broker.options"
                )
            find_rabbitmq()
            RabbitMQConnection("amqp://localhost/")
        else:
            RabbitMQConnection(str(broker.rabbitmq), broker.options)
    except ImportError as fault:
        raise ConfigurationError(
            f"rabbitmq: needs the extra `rabbitmq` ({fault}); run: pip install 'penstock[rabbitmq]'",
            field="broker.rabbitmq",
        ) from fault
