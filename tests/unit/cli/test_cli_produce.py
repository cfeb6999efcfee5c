# SPDX-License-Identifier: Apache-2.0
"""`penstock produce`: what is wrong is told before anything is sent, and the result in words and as JSON."""

from __future__ import annotations

import io
import json
import socket

import pytest
from click.testing import CliRunner
from rich.console import Console

pytest.importorskip("pika", reason="needs the extra [rabbitmq]")
pytest.importorskip("pyarrow", reason="needs the extra [spark]")

from penstock.adaptors.produce.lateness import LatenessSummary
from penstock.adaptors.produce.pacing import Produced
from penstock.adaptors.produce.sink import Delivery
from penstock.cli.main import main
from penstock.cli.produce import as_dict, report

SHAPE = ["--shape", "constant:rate=10,duration=1s"]


def _produced(*, confirmed: int, late: float = 0.001, is_stopped: bool = False) -> Produced:
    faults = ("no queue takes it: NO_ROUTE (2 records)",) if confirmed < 10 else ()
    return Produced(
        due=12, sent=10, delivery=Delivery(confirmed, 10 - confirmed, 0, faults),
        lateness=LatenessSummary(10, late, late, late, late), epoch=1.0, seconds=2.0, is_stopped=is_stopped,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["redis://x", *SHAPE], "unknown address"),
        (["kafka://127.0.0.1:9092", *SHAPE], "write kafka://HOST:PORT/TOPIC"),
        (["kafka://127.0.0.1:9092/t", "--exchange", "x", *SHAPE], "are for RabbitMQ"),
        (["amqp://127.0.0.1/", *SHAPE], "--exchange: give the exchange"),
        (["amqp://127.0.0.1/", "--routing-key", "q", "--declare", *SHAPE], "--declare: needs --exchange"),
        (["amqp://127.0.0.1/", "--exchange", "x"], "--shape: give a load"),
        (["amqp://127.0.0.1/", "--exchange", "x", *SHAPE, "--speed", "0"], "--speed"),
        (["amqp://127.0.0.1/", "--exchange", "x", *SHAPE, "--payload", "jpeg"], "--payload"),
        (["amqp://127.0.0.1/", "--exchange", "x", *SHAPE, "--option", "heartbeat"], "write NAME=VALUE"),
        (["amqp://127.0.0.1/", "--exchange", "x", *SHAPE, "--confirm-within", "soon"], "--confirm-within"),
        (["amqp://127.0.0.1/", "--exchange", "x", "--trace", "no-such-file"], "no-such-file"),
    ],
)
def test_wrong_input_is_told_and_nothing_is_sent(arguments: list[str], words: str) -> None:
    """Wrong input gives exit code 2 and says what is wrong."""
    result = CliRunner().invoke(main, ["produce", *arguments])
    assert result.exit_code == 2, result.output
    assert words in result.output


def test_a_broker_that_is_not_there_is_told() -> None:
    """An unreachable broker gives exit code 1 and one message, without the password."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        target = f"amqp://me:hidden@127.0.0.1:{reserved.getsockname()[1]}/"
        result = CliRunner().invoke(main, ["produce", target, "--exchange", "x", *SHAPE])
    assert result.exit_code == 1
    assert "cannot be reached" in result.output
    assert "hidden" not in result.output
    assert "Traceback" not in result.output


def test_the_result_in_words() -> None:
    """The words say what was sent and confirmed, how late, and what went wrong."""
    text = io.StringIO()
    console = Console(file=text, width=200)
    report(console, _produced(confirmed=8, late=0.02, is_stopped=True))
    for part in ("stopped: 10 of 12", "8 confirmed", "p99 20.00 ms", "shapes what", "2 records were not", "NO_ROUTE"):
        assert part in text.getvalue()
    text.truncate(0)
    report(console, _produced(confirmed=10))
    assert "not confirmed" not in text.getvalue()
    assert "shapes what" not in text.getvalue()


def test_the_result_as_json() -> None:
    """The JSON holds counts, lateness and faults."""
    fields = json.loads(json.dumps(as_dict(_produced(confirmed=8))))
    assert (fields["records_sent"], fields["records_confirmed"], fields["records_unconfirmed"]) == (10, 8, 2)
    assert fields["lateness"]["is_on_time"] is True
    assert fields["records_per_second"] == 5.0
