# SPDX-License-Identifier: Apache-2.0
"""The login of the broker of `penstock kafka start`: only this user can read it; Penstock finds it by the address."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.adaptors.kafka import detached_broker
from penstock.adaptors.kafka.detached_broker import DetachedBroker
from penstock.adaptors.kafka.known_brokers import KnownBrokers, connection_to
from penstock.adaptors.kafka.spark_source import connection_of
from penstock.adaptors.kafka.topics import Topic, Topics
from penstock.adaptors.process.detached import DetachedProcess
from penstock.adaptors.process.log_rotation import MOST_BYTES
from penstock.cli.main import main
from penstock.errors import ConfigurationError
from penstock.running.topic_streams import connection_of as connection_of_run
from penstock.settings import BrokerSettings


@pytest.fixture
def given_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, str]]]:
    """Brokers are processes that sleep; what each would ask of its clients is kept."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    asked: list[dict[str, str]] = []
    started: list[DetachedProcess] = []

    def bring_up(self: DetachedBroker, *_: object) -> None:
        (self.folder / "ports.json").write_text("[9111, 9112]")
        argv = [sys.executable, "-c", "import time; time.sleep(60)"]
        identity = self.folder / "broker.json"
        started.append(
            DetachedProcess.start("b", argv, log=self.log, env=os.environ, cwd=self.folder, identity=identity)
        )

    def home(*_: object, users: dict[str, str], **__: object) -> None:
        asked.append(users)

    monkeypatch.setattr(DetachedBroker, "_bring_up", bring_up)
    monkeypatch.setattr(detached_broker, "fetch_kafka", lambda _: Path("jars"))
    monkeypatch.setattr(detached_broker, "find_java", lambda: None)
    monkeypatch.setattr(detached_broker, "BrokerHome", home)
    monkeypatch.setattr(Topics, "all", lambda _: [])
    yield asked
    for process in started:
        process.stop()


def mode(path: Path) -> int:
    """Who may do what with a file."""
    return stat.S_IMODE(path.stat().st_mode)


def test_the_broker_asks_for_a_login_that_nobody_else_can_read(given_users: list[Any], tmp_path: Path) -> None:
    """The password is random; its files have mode 0600 and the folder 0700, whatever the umask."""
    before = os.umask(0)
    try:
        folders = [tmp_path / "one", tmp_path / "two"]
        for folder in folders:
            DetachedBroker(folder).start()
    finally:
        os.umask(before)
    one, other = given_users
    assert len(one["penstock"]) >= 32
    assert one != other
    for folder in folders:
        assert mode(folder) == 0o700
        assert mode(folder / "login.json") == mode(folder / "client.properties") == 0o600


def test_a_later_start_has_the_same_login(given_users: list[Any], tmp_path: Path) -> None:
    """Programs that were given it go on working."""
    broker = DetachedBroker(tmp_path / "kafka")
    broker.start()
    first = broker.connection
    broker.stop()
    assert broker.connection is None
    broker.start()
    assert broker.connection == first
    assert given_users[0] == given_users[1]


@pytest.mark.usefixtures("given_users")
def test_kafkas_own_tools_can_use_it(tmp_path: Path) -> None:
    """The properties file has what Java's client needs, and leads back to the same login."""
    broker = DetachedBroker(tmp_path / "kafka")
    broker.start()
    lines = broker.client_properties.read_text().splitlines()
    options = {f"kafka.{name}": value for name, _, value in (line.partition("=") for line in lines)}
    assert "kafka.bootstrap.servers" not in options, "the port may change"
    assert connection_of({**options, "kafka.bootstrap.servers": "127.0.0.1:9111"}) == broker.connection


@pytest.mark.usefixtures("given_users")
def test_penstock_logs_in_by_the_address_alone(tmp_path: Path) -> None:
    """As the loopback's number or name; a login that was given stays, and other brokers are left alone."""
    broker = DetachedBroker(tmp_path / "kafka")
    broker.start()
    KnownBrokers().remember(broker.folder)
    assert broker.connection is not None
    login = broker.connection.options
    assert login["sasl.username"] == "penstock"
    for servers in ("127.0.0.1:9111", "localhost:9111"):
        assert connection_to(servers).options == login
        assert connection_of_run(BrokerSettings(servers=servers)).options == login
    assert connection_to("127.0.0.1:9111", {"client.id": "mine"}).options == {**login, "client.id": "mine"}
    assert connection_to("127.0.0.1:9111", {"security.protocol": "PLAINTEXT"}).options == {
        "security.protocol": "PLAINTEXT"
    }
    for elsewhere in ("127.0.0.1:9113", "broker-1:9111", "broker-1:9111,127.0.0.1:9111"):
        assert connection_to(elsewhere).options == {}
    broker.stop()
    assert connection_to("127.0.0.1:9111").options == {}


@pytest.mark.usefixtures("given_users")
def test_a_broker_of_an_earlier_version_is_reached_without(tmp_path: Path) -> None:
    """It runs without a login until it is started again."""
    broker = DetachedBroker(tmp_path / "kafka")
    broker.start()
    (broker.folder / "login.json").unlink()
    assert broker.connection is not None
    assert broker.connection.options == {}


@pytest.mark.usefixtures("given_users")
def test_the_command_line_names_the_file_and_logs_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The password itself is printed nowhere."""
    used: list[dict[str, str]] = []

    def create(self: Topics, name: str, *, partitions: int) -> Topic:
        used.append(dict(self.connection.options))
        return Topic(name, partitions, 1)

    monkeypatch.setattr(Topics, "create", create)
    folder = tmp_path / "kafka"
    started = CliRunner().invoke(main, ["kafka", "start", "--folder", str(folder), "--json"])
    assert started.exit_code == 0, started.output
    assert str(folder / "client.properties") in started.output
    made = CliRunner().invoke(main, ["kafka", "topic", "lines", "--servers", "127.0.0.1:9111"])
    assert made.exit_code == 0, made.output
    (login,) = used
    assert login["security.protocol"] == "SASL_PLAINTEXT"
    assert login["sasl.password"] not in started.output + made.output


def test_a_login_that_cannot_be_kept_is_no_broker(
    given_users: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its file nobody could use it."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(detached_broker, "write_private", full)
    with pytest.raises(ConfigurationError, match="the login cannot be kept"):
        DetachedBroker(tmp_path / "kafka").start()
    assert given_users == []


@pytest.mark.usefixtures("given_users")
def test_a_full_log_is_kept_aside_at_the_next_start(tmp_path: Path) -> None:
    """Nobody looks after the broker while it runs."""
    broker = DetachedBroker(tmp_path / "kafka")
    broker.folder.mkdir(mode=0o700)
    broker.log.touch()
    os.truncate(broker.log, MOST_BYTES + 1)
    broker.start()
    assert broker.log.stat().st_size == 0
    assert broker.log.with_name("kafka.log.1").stat().st_size == MOST_BYTES + 1
