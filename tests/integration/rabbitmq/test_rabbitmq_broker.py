# SPDX-License-Identifier: Apache-2.0
"""Producer, fanout and tap against a real RabbitMQ, also one that goes away and comes back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest
from click.testing import CliRunner
from pika import BasicProperties
from tests.unit.adaptors.rabbitmq.fake_broker import stamped

from penstock.adaptors.process.children import Warden
from penstock.adaptors.process.warden import MARK
from penstock.adaptors.produce.pacing import Produced, produce
from penstock.adaptors.rabbitmq.arrival_log import ArrivalLog
from penstock.adaptors.rabbitmq.connection import RabbitMQConnection
from penstock.adaptors.rabbitmq.consumer import SpoolingConsumer
from penstock.adaptors.rabbitmq.fanout import Fanout, declare, newest_message, remove, why_not_free
from penstock.adaptors.rabbitmq.publisher import RabbitMQSink
from penstock.adaptors.rabbitmq.queue_tap import QueueTap
from penstock.adaptors.rabbitmq.server import RabbitMQServer
from penstock.adaptors.rabbitmq.spool import Spool
from penstock.adaptors.rabbitmq.spool_files import read
from penstock.adaptors.replay.payloads import LinesPayload, NoPayload
from penstock.arrivals import Trace, parse_shape
from penstock.arrivals.log_lines import LogLines
from penstock.cli.main import main
from penstock.errors import AdaptorError, ConfigurationError
from penstock.monitor.iat_windows import IatWindows

pytestmark = pytest.mark.rabbitmq


def _send(connection: RabbitMQConnection, fanout: Fanout, shape: str) -> Produced:
    sink = RabbitMQSink(connection, fanout.exchange, "", "tester", is_persistent=False)
    try:
        return produce(parse_shape(shape), LinesPayload(LogLines(0, 0.0)), sink)
    finally:
        sink.close()


def _wait(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline, f"{what}: not after 60 s"
        time.sleep(0.05)


def _sequences(connection: RabbitMQConnection, queue: str) -> list[int]:
    """Take everything out of a queue."""
    link = connection.open()
    found = []
    for method, properties, _ in link.channel().consume(queue, auto_ack=True, inactivity_timeout=1.0):
        if method is None:
            break
        found.append(int(properties.headers["penstock-sequence"]))
    link.close()
    return found


def test_every_message_reaches_the_pipeline_and_an_absent_monitor_costs_nothing(
    connection: RabbitMQConnection, fanout: Fanout
) -> None:
    """All messages wait for the pipeline; the monitor's queue keeps the newest thousand and no more."""
    result = _send(connection, fanout, "constant:rate=10000,duration=500ms")
    assert (result.sent, result.unconfirmed) == (5000, 0)
    assert connection.check_queue(fanout.monitor_queue_name) == 1000
    assert _sequences(connection, fanout.pipeline_queue_name) == list(range(5000))


def test_the_tap_sees_arrival_times_and_takes_nothing_from_the_pipeline(
    connection: RabbitMQConnection, fanout: Fanout
) -> None:
    """The tap's instants are the due instants of all messages, and the pipeline's queue still holds each."""
    with QueueTap(connection, fanout.monitor_queue_name) as tap:
        result = _send(connection, fanout, "sampled:constant:rate=800,duration=1s")
        _wait(lambda: tap.counts().received == result.sent, "the tap's count")
        runs = tap.take()
    counts = tap.counts()
    assert (counts.let_go, counts.missed, counts.breaks) == (0, 0, 0)
    due = result.epoch + parse_shape("sampled:constant:rate=800,duration=1s").times(0, result.sent)
    windows = IatWindows(5000)
    for run in runs:
        assert not run.follows_break
        windows.add_times(run.times)
    assert np.abs(np.concatenate([run.times for run in runs]) - due).max() < 2e-6
    assert windows.snapshot().seen == result.sent - 1
    assert connection.check_queue(fanout.pipeline_queue_name) == result.sent


def test_above_its_rate_the_tap_watches_in_part_and_says_so(connection: RabbitMQConnection, fanout: Fanout) -> None:
    """Messages beyond the tap's rate are let go, counted, and told as breaks in the row of arrivals."""
    with QueueTap(connection, fanout.monitor_queue_name, most_per_second=50) as tap:
        result = _send(connection, fanout, "constant:rate=400,duration=2s")
        _wait(lambda: tap.counts().missed > 0, "a second look")
    counts, runs = tap.counts(), tap.take()
    assert counts.let_go > 0
    assert counts.breaks >= 1
    assert counts.received + counts.missed <= result.sent
    assert any(run.follows_break for run in runs)
    assert sum(len(run.times) for run in runs) == counts.received
    assert all(np.diff(run.times) == pytest.approx(1 / 400, rel=0.01) for run in runs), "no gap inside a run"


def test_wrong_password_missing_queue_and_missing_exchange(
    rabbitmq: RabbitMQServer, connection: RabbitMQConnection
) -> None:
    """Each fails with words that name what is wrong, and none of them is worth trying again."""
    wrong = RabbitMQConnection(f"amqp://penstock:wrong@127.0.0.1:{rabbitmq.port}/")
    for action, words in (
        (wrong.check, "refuses user 'penstock': wrong user or password"),
        (lambda: RabbitMQSink(wrong, "x", "", "p"), "refuses user 'penstock'"),
        (RabbitMQConnection(rabbitmq.url + "nowhere").check, "into this virtual host"),
        (lambda: connection.check_queue("nowhere"), "has no queue 'nowhere'"),
        (lambda: QueueTap(connection, "nowhere").start(), "has no queue 'nowhere'"),
        (lambda: RabbitMQSink(connection, "nowhere", "", "p"), "has no exchange 'nowhere'"),
    ):
        with pytest.raises(AdaptorError, match=words) as told:
            action()
        assert not told.value.retryable
        assert "wrong@" not in str(told.value)


def test_the_command_sends_and_tells(rabbitmq: RabbitMQServer, connection: RabbitMQConnection) -> None:
    """`penstock produce` declares the fanout, sends all, and gives counts and lateness as JSON."""
    load = ["--shape", "constant:rate=500,duration=1s", "--json"]
    result = CliRunner().invoke(main, ["produce", rabbitmq.url, "--exchange", "by-command", "--declare", *load])
    assert result.exit_code == 0, result.output
    fields = json.loads(result.stdout.splitlines()[-1])
    assert (fields["records_sent"], fields["records_confirmed"], fields["records_unconfirmed"]) == (500, 500, 0)
    assert fields["lateness"]["max_seconds"] > 0
    assert connection.check_queue("by-command.pipeline") == 500


def test_messages_nobody_takes_are_failures(rabbitmq: RabbitMQServer) -> None:
    """Messages to a queue that is not there come back, are counted, and make the command fail."""
    load = ["--shape", "constant:rate=200,duration=100ms", "--json"]
    result = CliRunner().invoke(main, ["produce", rabbitmq.url, "--routing-key", "nowhere", *load])
    assert result.exit_code == 1
    fields = json.loads(result.stdout.splitlines()[-1])
    assert (fields["records_sent"], fields["records_confirmed"], fields["records_failed"]) == (20, 0, 20)
    assert "NO_ROUTE" in fields["faults"][0]


def test_ctrl_c_ends_in_good_order(rabbitmq: RabbitMQServer, connection: RabbitMQConnection, fanout: Fanout) -> None:
    """Stopped by Ctrl-C, the command says what was sent and confirmed, and ends with 130."""
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", "produce", rabbitmq.url, "--exchange", fanout.exchange,
         "--shape", "constant:rate=300,duration=1h", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        _wait(lambda: connection.check_queue(fanout.pipeline_queue_name) > 100, "the first messages")
        process.send_signal(signal.SIGINT)
        out, words = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, words
    fields = json.loads(out.splitlines()[-1])
    assert fields["is_stopped"]
    assert fields["records_sent"] == fields["records_confirmed"] == connection.check_queue(fanout.pipeline_queue_name)


@pytest.mark.kill
def test_a_broker_that_goes_away_and_comes_back(rabbitmq: RabbitMQServer, tmp_path: Path) -> None:
    """Over a restart of the broker the producer loses nothing, the tap tells of a break, and nothing is left after."""
    with Warden() as warden:
        server = RabbitMQServer(warden, tmp_path / "own")  # beside the one that runs: nothing of it is shared
        server.start()
        pids = server.pids
        connection = RabbitMQConnection(server.url)
        fanout = Fanout("lines")
        declare(connection, fanout)
        sink = RabbitMQSink(connection, "lines", "", "tester", is_persistent=True)
        results: list[Produced] = []
        load = Trace(np.linspace(0.0, 6.0, 3000))
        sender = threading.Thread(target=lambda: results.append(produce(load, NoPayload(), sink)))
        sender.start()
        _wait(lambda: connection.check_queue("lines.pipeline") > 200, "the first messages")
        server.stop()
        assert not any(psutil.pid_exists(pid) for pid in pids)
        with pytest.raises(AdaptorError, match="cannot be reached"):
            connection.check()
        server.start()
        sender.join(90)
        assert results, "the producer has ended"
        sink.close()
        assert (results[0].sent, results[0].unconfirmed) == (3000, 0)
        arrived = _sequences(connection, "lines.pipeline")
        assert set(arrived) == set(range(3000)), "every number arrived"
        assert len(arrived) <= 3000 + results[0].delivery.resent
        mark = warden.mark
    left = [p.pid for p in psutil.process_iter() if _environment(p).get(MARK) == mark]
    assert left == []


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ() if process.pid != os.getpid() else {}
    except (psutil.Error, OSError):
        return {}


def test_the_newest_message_shows_how_far_a_load_came_and_stays(connection: RabbitMQConnection) -> None:
    """A queue of one message holds the last that was published, however often it is asked."""
    wanted = Fanout("newest", newest_queue="newest.newest")
    declare(connection, wanted)
    try:
        assert newest_message(connection, wanted.newest_queue) is None
        result = _send(connection, wanted, "constant:rate=2000,duration=250ms")
        for _ in range(2):
            found = newest_message(connection, wanted.newest_queue)
            assert found is not None
            assert found.number == result.sent - 1
            assert found.due_us / 1e6 == pytest.approx(result.epoch + 0.25, abs=0.01)
        assert connection.check_queue(wanted.pipeline_queue_name) == result.sent
    finally:
        remove(connection, wanted)


def test_a_queue_is_free_if_it_is_missing_or_empty_and_nobody_reads_it(
    connection: RabbitMQConnection, fanout: Fanout
) -> None:
    """What another run left or reads is told; asking takes nothing and makes nothing."""
    assert why_not_free(connection, "no-such-queue") is None
    with pytest.raises(AdaptorError, match="has no queue"):
        connection.check_queue("no-such-queue")
    queue = fanout.pipeline_queue_name
    assert why_not_free(connection, queue) is None
    _send(connection, fanout, "constant:rate=100,duration=100ms")
    assert why_not_free(connection, queue) == f"queue {queue} holds 10 messages"
    with QueueTap(connection, fanout.monitor_queue_name):
        assert why_not_free(connection, fanout.monitor_queue_name) == f"queue {fanout.monitor_queue_name} is being read"


def test_queues_are_bound_to_an_exchange_of_others_only_if_it_is_a_fanout(connection: RabbitMQConnection) -> None:
    """Of another kind it would send them nothing; it is not removed with the queues."""
    link = connection.open()
    channel = link.channel()
    channel.exchange_declare("theirs", exchange_type="fanout", durable=False)
    channel.exchange_declare("routed", exchange_type="direct", durable=True)
    ours = Fanout("theirs", queue="ours", monitor_queue="ours.monitor", is_ours=False)
    try:
        declare(connection, ours)
        assert _send(connection, ours, "constant:rate=100,duration=100ms").unconfirmed == 0
        assert connection.check_queue("ours") == 10
        remove(connection, ours)
        channel.exchange_declare("theirs", passive=True)
        with pytest.raises(ConfigurationError, match="'routed' is not a fanout exchange"):
            declare(connection, Fanout("routed", is_ours=False))
        with pytest.raises(AdaptorError, match="has no exchange 'missing'"):
            declare(connection, Fanout("missing", is_ours=False))
    finally:
        for name in ("theirs", "routed"):
            link.channel().exchange_delete(name)
        link.close()


def test_the_log_of_a_tap_knows_all_arrivals_even_above_its_rate(
    connection: RabbitMQConnection, fanout: Fanout
) -> None:
    """At twice what the tap reads, arrivals by time are as many as were sent, and not exact."""
    made = ArrivalLog(lambda: QueueTap(connection, fanout.monitor_queue_name, most_per_second=500))
    made.start()
    try:
        began = time.time()
        result = _send(connection, fanout, "constant:rate=1000,duration=3s")
        assert result.unconfirmed == 0
        found = None

        def is_known() -> bool:
            nonlocal found
            found = made.between(began, result.epoch + 2.0)
            return found is not None

        _wait(is_known, "arrivals are known")
        assert found is not None
        assert len(found.times) == pytest.approx(2000, rel=0.02)
        assert not found.is_exact
        assert np.all(np.diff(found.times) >= 0)
    finally:
        made.close()


def test_a_header_that_pika_cannot_read_does_not_end_the_consumers(
    connection: RabbitMQConnection, fanout: Fanout, tmp_path: Path
) -> None:
    """The server delivers a time in microseconds as it was sent. Source and tap take the message, and the next."""
    link = connection.open()
    channel = link.channel()
    spool = Spool(tmp_path / "spool")
    consumer = SpoolingConsumer(connection, fanout.pipeline_queue_name, spool, prefetch=10, max_bytes=10_000)
    with QueueTap(connection, fanout.monitor_queue_name) as tap:
        consumer.start(0)
        channel.basic_publish(fanout.exchange, "", b"first", stamped(1_795_000_000_123_456, message_id="m1"))
        channel.basic_publish(fanout.exchange, "", b"second", BasicProperties(message_id="m2"))
        _wait(lambda: consumer.next_number == 2, "both messages in the spool")
        _wait(lambda: tap.counts().received == 2, "both messages at the tap")
        assert tap.counts().breaks == 0
    rows = [row for batch in read(consumer.find(0, 2)) for row in batch.to_pylist()]
    consumer.done(2)
    consumer.flush()
    consumer.stop()
    link.close()
    found = [(row["message_id"], row["body"], row["redelivered"]) for row in rows]
    assert found == [("m1", b"first", False), ("m2", b"second", False)]
    assert consumer.unreadable == 1
    assert "'sent'" in (tmp_path / "spool" / "poison.jsonl").read_text()
    assert connection.check_queue(fanout.pipeline_queue_name) == 0, "nothing comes again"
