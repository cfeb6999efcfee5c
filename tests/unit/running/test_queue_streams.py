# SPDX-License-Identifier: Apache-2.0
"""How a run is wired to RabbitMQ, without a server: queues, jobs, the tap, and what a resumed run sends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import pytest

pytest.importorskip("pika", reason="needs the extra [rabbitmq]")

from penstock.adaptors.process.children import Warden
from penstock.adaptors.produce.sent_load import SentRecord
from penstock.adaptors.rabbitmq import fanout, queue_tap
from penstock.adaptors.rabbitmq.connection import RabbitMQConnection
from penstock.adaptors.rabbitmq.fanout import Fanout
from penstock.adaptors.rabbitmq.source_options import RabbitMQOptions
from penstock.adaptors.rabbitmq.spool_arrivals import write_copies, write_times
from penstock.adaptors.rabbitmq.tapped_arrivals import TappedArrivals
from penstock.errors import AdaptorError, ConfigurationError
from penstock.records import decode, encode
from penstock.running import queue_streams, sending
from penstock.running.operator_job import ExchangeEnd, TopicEnd
from penstock.running.producer import ProducerJob
from penstock.running.queue_streams import QueueStreams
from penstock.settings import parse_settings

RECORDS = 300


class Server:
    """What a RabbitMQ was asked to do."""

    def __init__(self) -> None:
        self.declared: list[Fanout] = []
        self.removed: list[Fanout] = []
        self.taken: dict[str, str] = {}
        self.newest: list[SentRecord | None] = [None]
        self.is_away = False

    def declare(self, connection: RabbitMQConnection, wanted: Fanout) -> None:
        """Make an exchange with its queues."""
        assert connection.user == "ada"
        if self.is_away:
            raise AdaptorError("cannot be reached", target="RabbitMQ", retryable=True)
        self.declared.append(wanted)

    def newest_message(self, _: RabbitMQConnection, queue: str) -> SentRecord | None:
        """Give the newest message; the last of the list stays."""
        assert queue == "logs.arrivals.newest"
        return self.newest.pop(0) if len(self.newest) > 1 else self.newest[0]


class Tap:
    """A tap that sees nothing."""

    made: ClassVar[list[Tap]] = []

    def __init__(self, _: RabbitMQConnection, queue: str) -> None:
        self.queue, self.is_watching, self.is_stopped = queue, True, False
        self.fault: AdaptorError | None = None
        self.lost: AdaptorError | None = None
        Tap.made.append(self)

    def start(self) -> None:
        """Nothing to do."""

    def take(self) -> list[Any]:
        """Nothing, or why."""
        if self.fault is not None:
            raise self.fault
        return []

    def stop(self) -> None:
        """Note it."""
        self.is_stopped = True


class Producer:
    """A producer that only keeps its job."""

    jobs: ClassVar[list[ProducerJob]] = []

    def __init__(self, job: ProducerJob, *_: Any) -> None:
        Producer.jobs.append(job)

    def start(self) -> None:
        """Nothing to do."""

    def await_epoch(self) -> float:
        """Time zero."""
        return 1000.0

    def fault(self) -> str | None:
        """None."""
        return None

    def stop(self) -> None:
        """Nothing to do."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    """A server by hand in place of a real one, with tap and producer."""
    found = Server()
    monkeypatch.setattr(fanout, "declare", found.declare)
    monkeypatch.setattr(fanout, "remove", lambda _, wanted: found.removed.append(wanted))
    monkeypatch.setattr(fanout, "why_not_free", lambda _, queue: found.taken.get(queue))
    monkeypatch.setattr(fanout, "newest_message", found.newest_message)
    monkeypatch.setattr(queue_tap, "QueueTap", Tap)
    monkeypatch.setattr(sending, "ProducerProcess", Producer)
    monkeypatch.setattr(queue_streams, "end_earlier_producer", lambda _: None)
    monkeypatch.setattr(queue_streams, "_SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(Tap, "made", [])
    monkeypatch.setattr(Producer, "jobs", [])
    return found


def streams(folder: Path, *, resume: bool = False, say: list[str] | None = None, **others: Any) -> QueueStreams:
    """The streams of a pipeline with two operators behind the exchange, and one behind the first of them."""
    app = "penstock.apps.log_analysis:parser"
    settings = parse_settings(
        {
            "name": "logs",
            "broker": {"rabbitmq": "amqp://ada:abra@host/", "options": {"heartbeat": 30}, "partitions": 3},
            "arrivals": {"shape": f"constant:rate=10,duration={RECORDS // 10}s"},
            "operators": [
                {"name": "parser", "app": app, "input_options": {"maxRowsPerBatch": 50}},
                {"name": "counter", "app": app, "input": "parser"},
                {"name": "archive", "app": app},
            ],
            **others,
        }
    )
    folder_of: Mapping[str, Path] = {o.name: folder / "operators" / o.name for o in settings.operators}
    told = [] if say is None else say
    warden = cast("Warden", None)  # nothing is started
    return QueueStreams(settings, folder, folder_of, warden, say=told.append, clock=lambda: 1000.0, resume=resume)


def test_each_first_operator_has_a_queue_and_the_monitor_one(server: Server, tmp_path: Path) -> None:
    """The fanout of the paper: one exchange, a queue for each that reads it, one for the tap, one for a resume."""
    made = streams(tmp_path)
    made.start()
    assert [f.pipeline_queue_name for f in server.declared] == [
        "logs.arrivals.pipeline.parser",
        "logs.arrivals.pipeline.archive",
    ]
    assert {(f.exchange, f.monitor_queue_name, f.newest_queue, f.is_ours) for f in server.declared} == {
        ("logs.arrivals", "logs.arrivals.monitor", "logs.arrivals.newest", True)
    }
    assert [tap.queue for tap in Tap.made] == ["logs.arrivals.monitor"]
    made.close()
    assert server.removed == server.declared
    assert Tap.made[0].is_stopped


def test_jobs_read_their_queue_with_a_spool_of_their_own_and_folders_below(server: Server, tmp_path: Path) -> None:
    """The source takes the job's options as they are; the address is in them, and survives the job's file."""
    made = streams(tmp_path)
    made.start()
    parser, counter, archive = (made.ends(o)[0] for o in made._settings.operators)
    assert parser.queue is not None
    assert archive.queue is not None
    options = RabbitMQOptions.parse(decode(type(parser), encode(parser)).queue.options)  # type: ignore[union-attr]
    assert (options.queue, options.partitions, options.max_rows_per_batch) == ("logs.arrivals.pipeline.parser", 3, 50)
    assert options.spool_dir == str(tmp_path / "operators" / "parser" / "spool")
    assert options.mark_resent
    assert options.connection_options == {"heartbeat": "30"}
    assert parser.tasks == 3
    assert archive.queue.options["spoolDir"] != parser.queue.options["spoolDir"]
    assert counter.queue is None
    assert counter.above == str(tmp_path / "operators" / "parser")


def test_the_loop_follows_first_operators_by_the_tap(server: Server, tmp_path: Path) -> None:
    """Arrivals of both come from one tap, each with its own spool; the one below has a path through the first."""
    made = streams(tmp_path)
    made.start()
    found = [made.input_of(o, str(tmp_path / "operators" / o.name / "checkpoint")) for o in made._settings.operators]
    assert [isinstance(f.arrivals, TappedArrivals) for f in found] == [True, False, True]
    assert len(Tap.made) == 1


def test_a_load_is_sent_to_the_exchange(server: Server, tmp_path: Path) -> None:
    """The producer gets the exchange and login; its job is read back from its file as it was."""
    made = streams(tmp_path)
    made.start()
    made.begin()
    (job,) = Producer.jobs
    assert job.to == ExchangeEnd("amqp://ada:abra@host/", {"heartbeat": "30"}, "logs.arrivals")
    assert (job.epoch, job.parts) == (None, None)
    assert decode(ProducerJob, encode(job)) == job
    to_topic = ProducerJob(job.replay, TopicEnd("h:1", {}, "t"))
    assert decode(ProducerJob, encode(to_topic)) == to_topic
    assert made.load.span() == (1000.0, 1030.0)


def test_a_resumed_load_goes_on_after_the_newest_message(server: Server, tmp_path: Path) -> None:
    """Nothing is sent again, nothing left out: what was still on its way at the first look is waited for."""
    said: list[str] = []
    due_us = 500_000_000
    server.newest = [SentRecord(118, due_us), SentRecord(120, due_us), SentRecord(120, due_us)]
    made = streams(tmp_path, resume=True, say=said)
    made.start()
    made.begin()
    (job,) = Producer.jobs
    assert job.parts == ((121, RECORDS),)
    assert job.epoch == pytest.approx(500.0 - float(made._replay.arrivals.times(120, 121)[0]))
    assert f"the load goes on: {RECORDS - 121:,} records are left to send" in said


def test_a_resumed_load_that_was_sent_whole_needs_no_producer(server: Server, tmp_path: Path) -> None:
    """After the last record there is nothing to send."""
    server.newest = [SentRecord(RECORDS - 1, 500_000_000)]
    made = streams(tmp_path, resume=True)
    made.start()
    made.begin()
    assert Producer.jobs == []


def test_a_run_that_was_not_resumed_yet_leaves_queues_alone(server: Server, tmp_path: Path) -> None:
    """Where a resume fails before its operators are taken over, close removes nothing: another may try."""
    made = streams(tmp_path, resume=True)
    made.start()
    made.close()
    assert server.removed == []


def test_a_queue_with_messages_of_another_run_is_refused(server: Server, tmp_path: Path) -> None:
    """Before anything is declared; nothing is removed either."""
    server.taken = {"logs.arrivals.pipeline.archive": "queue logs.arrivals.pipeline.archive holds 7 messages"}
    made = streams(tmp_path)
    with pytest.raises(ConfigurationError, match=r"archive holds 7 messages.*another name"):
        made.start()
    made.close()
    assert (server.declared, server.removed) == ([], [])


def test_what_others_publish_comes_from_their_exchange_which_stays(server: Server, tmp_path: Path) -> None:
    """The run binds queues of its own to it, sends nothing, and numbers records by its own rows."""
    made = streams(tmp_path, arrivals={"exchange": "orders"})
    made.start()
    made.begin()
    assert {(f.exchange, f.is_ours, f.newest_queue) for f in server.declared} == {("orders", False, "")}
    queue = made.ends(made._settings.operators[0])[0].queue
    assert queue is not None
    assert not queue.is_numbered
    assert queue.options["markResent"] == "false"
    assert Producer.jobs == []
    assert made.load.total is None


def test_a_tap_whose_queue_is_gone_is_started_again(server: Server, tmp_path: Path) -> None:
    """The monitor's queue does not outlive a restart of the server: it is made again, and the user is told."""
    made = streams(tmp_path)
    made.start()
    reads = made.input_of(made._settings.operators[0], str(tmp_path / "checkpoint"))
    assert made.faults() == ()
    Tap.made[0].fault = AdaptorError("has no queue", target="RabbitMQ")
    assert isinstance(reads.arrivals, TappedArrivals)
    assert reads.arrivals.between(0.0, 1.0) is None
    server.is_away = True
    assert any("so no plan is made" in text for text in made.faults())
    server.is_away = False
    before = len(server.declared)
    assert any("watching again" in text for text in made.faults())
    assert len(server.declared) > before
    assert len(Tap.made) == 2
    assert made.faults() == ()


def test_the_user_is_told_while_the_server_is_away(server: Server, tmp_path: Path) -> None:
    """As long as it lasts; the tap comes back by itself."""
    made = streams(tmp_path)
    made.start()
    Tap.made[0].lost = AdaptorError("RabbitMQ cannot be reached", target="RabbitMQ", retryable=True)
    assert made.faults() == ("neither arrivals nor backlog are known: RabbitMQ cannot be reached",)
    Tap.made[0].lost = None
    assert made.faults() == ()
    assert len(Tap.made) == 1


def test_what_a_query_has_done_does_not_count_copies(server: Server, tmp_path: Path) -> None:
    """By its checkpoint and spool: a batch that was delivered again after a crash counts once, so the run can end."""
    made = streams(tmp_path)
    checkpoint = tmp_path / "operators" / "parser" / "checkpoint"
    spool = checkpoint.parent / "spool"
    for folder in (checkpoint / "offsets", checkpoint / "commits", spool):
        folder.mkdir(parents=True)
    for batch, number in ((0, 40), (1, 100)):
        offset = json.dumps({"spool": "s", "number": number})
        (checkpoint / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{offset}")
    (checkpoint / "commits" / "0").write_text("v1\n{}")
    write_times(spool, 0, np.arange(1, 101, dtype=np.int64))
    write_copies(spool, [10, 11, 50])
    assert made.load.done(checkpoint) == 38
    assert made.load.read(checkpoint) == 97


@pytest.mark.parametrize("is_left", [True, False])
def test_queues_of_a_pipeline_that_is_left_stay(server: Server, tmp_path: Path, is_left: bool) -> None:
    """Its operators read them."""
    made = streams(tmp_path)
    made.start()
    made.begin()
    made.close(is_left=is_left)
    assert bool(server.removed) is not is_left
