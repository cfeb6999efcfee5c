# SPDX-License-Identifier: Apache-2.0
"""Messages with properties that no row can hold: the property is left out and counted, the stream goes on."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

pytest.importorskip("pika", reason="needs the extra [rabbitmq]")
pytest.importorskip("pyarrow", reason="needs the extra [spark]")

from pika import BasicProperties
from pika.spec import Basic

from penstock.adaptors.produce.sink import DUE_HEADER, PRODUCER_HEADER, SEQUENCE_HEADER
from penstock.adaptors.rabbitmq import poison_file
from penstock.adaptors.rabbitmq.connection import RabbitMQConnection
from penstock.adaptors.rabbitmq.consumer import SpoolingConsumer
from penstock.adaptors.rabbitmq.message import Message
from penstock.adaptors.rabbitmq.poison_file import PoisonFile
from penstock.adaptors.rabbitmq.queue_tap import QueueTap
from penstock.adaptors.rabbitmq.spool import Spool
from penstock.adaptors.rabbitmq.spool_files import read

NOBODY = RabbitMQConnection("amqp://127.0.0.1:1/")
DELIVERED = Basic.Deliver(routing_key="k", delivery_tag=7)


@pytest.mark.parametrize(
    "properties",
    [
        BasicProperties(timestamp=1_767_225_600_123_456),  # microseconds, where AMQP wants seconds
        BasicProperties(timestamp=2**64 - 1),
        BasicProperties(headers={DUE_HEADER: 2**62}),
        BasicProperties(headers={DUE_HEADER: -5}),
        BasicProperties(headers={PRODUCER_HEADER: "p", SEQUENCE_HEADER: 2**63}),
        BasicProperties(message_id="été".encode("latin-1")),  # pika gives what is not UTF-8 as bytes
    ],
)
def test_a_property_beyond_all_rows_is_left_out(tmp_path: Path, properties: BasicProperties) -> None:
    """The message is in the spool with its body, and says what of it could not be read."""
    message = Message.of(DELIVERED, properties, b"body")
    spool = Spool(tmp_path / "spool")
    spool.begin(0)
    spool.append([message])
    (row,) = [row for batch in read(spool.find(0, 1)) for row in batch.to_pylist()]
    spool.close()
    assert (row["body"], row["published"], row["sequence"], row["message_id"]) == (b"body", None, None, None)
    assert len(message.unreadable) == 1


def test_a_routing_key_that_is_no_text_is_read_as_far_as_it_is(tmp_path: Path) -> None:
    """Rows and the file of what is set aside hold text."""
    message = Message.of(Basic.Deliver(routing_key=b"a.\xe9", delivery_tag=7), BasicProperties(), b"body")
    assert (message.routing_key, len(message.unreadable)) == ("a.\ufffd", 1)
    PoisonFile(tmp_path / "poison.jsonl").add(message)
    assert json.loads((tmp_path / "poison.jsonl").read_text())["routing_key"] == "a.\ufffd"


def test_a_good_message_has_nothing_unreadable() -> None:
    """Seconds since 1970 are a time of publication."""
    message = Message.of(DELIVERED, BasicProperties(timestamp=1_767_225_600), b"")
    assert (message.published_us, message.unreadable) == (1_767_225_600_000_000, ())


def test_unreadable_properties_are_counted_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log names the first, and then a count now and then, not a line for each."""
    spool = Spool(tmp_path / "spool")
    consumer = SpoolingConsumer(NOBODY, "q", spool, prefetch=10, max_bytes=10_000)
    for _ in range(50):
        consumer._on_message(None, DELIVERED, BasicProperties(timestamp=2**50), b"")
    spool.close()
    assert consumer.unreadable == 50
    lines = [record.getMessage() for record in caplog.records if "timestamp" in record.getMessage()]
    assert [line.split()[0] for line in lines] == ["1", "10"]


def test_what_cannot_be_read_is_set_aside_where_the_user_can_see_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A private file beside the spool has what was wrong, and how the message can be found; the log names the file."""
    spool = Spool(tmp_path / "spool")
    consumer = SpoolingConsumer(NOBODY, "q", spool, prefetch=10, max_bytes=10_000)
    consumer._on_message(None, DELIVERED, BasicProperties(timestamp=1_767_225_600), b"good")
    path = tmp_path / "spool" / "poison.jsonl"
    assert not path.exists()
    consumer._on_message(None, DELIVERED, BasicProperties(timestamp=2**50, message_id="m7"), b"body" * 1000)
    spool.close()
    (line,) = path.read_text().splitlines()
    found = json.loads(line)
    assert (found["identity"], found["body_bytes"], found["routing_key"]) == ("id:m7", 4000, "k")
    assert base64.b64decode(found["body_begins"]) == b"body" * 50
    assert str(2**50) in found["unreadable"][0]
    assert path.stat().st_mode & 0o777 == 0o600
    assert str(path) in caplog.text


def test_what_is_set_aside_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In messages and in bytes, also by a query that is started again."""
    monkeypatch.setattr(poison_file, "MOST_MESSAGES", 5)
    message = Message.of(DELIVERED, BasicProperties(timestamp=2**50), b"x" * 10_000)
    path = tmp_path / "poison.jsonl"
    for _ in range(2):
        again = PoisonFile(path)
        for _ in range(4):
            again.add(message)
    assert len(path.read_text().splitlines()) == 5
    monkeypatch.setattr(poison_file, "MOST_BYTES", path.stat().st_size + 10)
    monkeypatch.setattr(poison_file, "MOST_MESSAGES", 500)
    PoisonFile(path).add(message)
    assert len(path.read_text().splitlines()) == 5


def test_a_line_that_was_not_written_to_its_end_spoils_no_other(tmp_path: Path) -> None:
    """The process was killed within it; the query that is started again begins a new line."""
    path = tmp_path / "poison.jsonl"
    path.write_text('{"received_us": 1, "ident')
    message = Message.of(DELIVERED, BasicProperties(timestamp=2**50), b"x")
    again = PoisonFile(path)
    again.add(message)
    again.add(message)
    torn, *whole = path.read_text().splitlines()
    assert torn == '{"received_us": 1, "ident'
    assert [json.loads(line)["body_bytes"] for line in whole] == [1, 1]


def test_a_disk_that_takes_nothing_does_not_stop_the_stream(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One line of the log says that nothing is set aside."""
    message = Message.of(DELIVERED, BasicProperties(timestamp=2**50), b"")
    file = PoisonFile(tmp_path / "none" / "poison.jsonl")
    file.add(message)
    file.add(message)
    assert len(caplog.records) == 1
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    PoisonFile(tmp_path / "link").add(message)
    assert not (tmp_path / "elsewhere").exists()


def test_the_tap_takes_no_time_from_beyond_the_calendar() -> None:
    """A due instant that cannot be one counts as absent: the message arrived when it was received."""
    tap = QueueTap(NOBODY, "q")
    tap._on_message(None, None, BasicProperties(headers={DUE_HEADER: 2**62}), b"")
    (run,) = tap.take()
    assert 1_500_000_000 < run.times[0] < 200_000_000_000
