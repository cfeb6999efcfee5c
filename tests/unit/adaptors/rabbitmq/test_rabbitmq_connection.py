# SPDX-License-Identifier: Apache-2.0
"""Addresses of RabbitMQ, the fanout's names and a missing installation, without a server."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

pytest.importorskip("pika", reason="needs the extra [rabbitmq]")

from penstock.adaptors.process.children import Warden
from penstock.adaptors.rabbitmq import server as rabbitmq_server
from penstock.adaptors.rabbitmq.connection import RabbitMQConnection
from penstock.adaptors.rabbitmq.fanout import Fanout
from penstock.errors import AdaptorError, ConfigurationError


@pytest.mark.parametrize("url", ["127.0.0.1:5672", "http://127.0.0.1/", "amqp://", "kafka://a:1/t"])
def test_an_address_of_another_kind_is_refused(url: str) -> None:
    """What is no AMQP address is refused with an example of one."""
    with pytest.raises(ConfigurationError, match="write it like amqp://"):
        RabbitMQConnection(url)


def test_a_wrong_address_does_not_show_its_password() -> None:
    """The password in an address that cannot be read is not in the message."""
    with pytest.raises(ConfigurationError) as told:
        RabbitMQConnection("http://me:hidden@127.0.0.1/")
    assert "hidden" not in str(told.value)
    assert "hidden" not in repr(RabbitMQConnection("amqp://me:hidden@127.0.0.1/"))


def test_options_are_passed_through_and_win() -> None:
    """Options in the address and beside it reach pika; those beside it win."""
    parameters = RabbitMQConnection(
        "amqp://u:p%2Fw@127.0.0.1:7777/a%2Fb?heartbeat=30&socket_timeout=3", {"heartbeat": 40}
    ).parameters()
    assert (parameters.host, parameters.port, parameters.virtual_host) == ("127.0.0.1", 7777, "a/b")
    assert (parameters.heartbeat, parameters.socket_timeout) == (40, 3)
    assert (parameters.credentials.username, parameters.credentials.password) == ("u", "p/w")


def test_defaults_are_rabbitmqs() -> None:
    """Without port, user and virtual host those of a fresh RabbitMQ are taken."""
    parameters = RabbitMQConnection("amqp://127.0.0.1").parameters()
    assert (parameters.port, parameters.virtual_host, parameters.credentials.username) == (5672, "/", "guest")


def test_an_option_with_a_wrong_value_is_refused() -> None:
    """A value pika cannot read is told before any connection is made."""
    with pytest.raises(ConfigurationError, match="heartbeat"):
        RabbitMQConnection("amqp://127.0.0.1", {"heartbeat": "often"})


def test_nobody_listening_is_told_in_words() -> None:
    """A port where nothing listens gives an error that names the address and may be tried again."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        with pytest.raises(AdaptorError, match=rf"127\.0\.0\.1:{port} cannot be reached.*refused") as told:
            RabbitMQConnection(f"amqp://u:p@127.0.0.1:{port}").check()
    assert told.value.retryable


def test_queue_names_follow_the_exchange() -> None:
    """Queues without names of their own are called after the exchange."""
    fanout = Fanout("lines")
    assert (fanout.pipeline_queue_name, fanout.monitor_queue_name) == ("lines.pipeline", "lines.monitor")
    assert Fanout("lines", queue="q", monitor_queue="").monitor_queue_name == ""


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("exchange", {"exchange": ""}),
        ("queue", {"exchange": "x", "queue": ""}),
        ("exchange", {"exchange": "x" * 256}),
        ("monitor_limit", {"exchange": "x", "monitor_limit": 0}),
        ("monitor_ttl_seconds", {"exchange": "x", "monitor_ttl_seconds": 0.0}),
    ],
)
def test_wrong_names_and_limits_are_refused(field: str, values: dict[str, object]) -> None:
    """A fanout that no server would take is refused with the field's name."""
    with pytest.raises(ConfigurationError) as told:
        Fanout(**values)  # type: ignore[arg-type]
    assert told.value.field == field


def test_a_missing_server_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without rabbitmq-server on the machine the error gives the command that installs it; nothing is started."""
    monkeypatch.setattr(rabbitmq_server, "_PROGRAMS", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match="apt-get install rabbitmq-server"):
        rabbitmq_server.find_rabbitmq()


def test_the_private_server_listens_on_the_loopback_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that others can reach is refused."""
    monkeypatch.setattr(rabbitmq_server, "find_rabbitmq", lambda: (Path("a"), Path("b")))
    with Warden() as warden, pytest.raises(ConfigurationError, match="loopback"):
        rabbitmq_server.RabbitMQServer(warden, tmp_path, host="0.0.0.0")
