# SPDX-License-Identifier: Apache-2.0
"""A broker's settings and command, and what is refused before anything starts. No broker runs here."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ClassVar

import pytest

from penstock.adaptors.kafka.broker_home import BrokerHome
from penstock.adaptors.kafka.detached_broker import DetachedBroker
from penstock.adaptors.process.state_folder import state_folder
from penstock.adaptors.spark.java import Java
from penstock.errors import ClusterError, ConfigurationError


def played_java(folder: Path, body: str) -> Java:
    """A Java whose launcher is a script."""
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return Java(folder, "17.0.1", frozenset({"jdk.incubator.vector"}))


def properties(folder: Path) -> dict[str, str]:
    """The lines of server.properties."""
    lines = (folder / "server.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_it_listens_on_the_loopback_only_and_makes_no_topics_by_itself(tmp_path: Path) -> None:
    """Both listeners are on the loopback, topics are made on purpose only, the data is under the folder."""
    home = BrokerHome(tmp_path / "broker", tmp_path / "jars", played_java(tmp_path / "java", "exit 0"))
    home.prepare(9111, 9222)
    found = properties(tmp_path / "broker")
    assert found["listeners"] == "CLIENT://127.0.0.1:9111,CONTROLLER://127.0.0.1:9222"
    assert found["auto.create.topics.enable"] == "false"
    assert found["log.dirs"] == str(tmp_path / "broker" / "data")
    assert home.client_options() == {}
    assert home.command()[-2:] == ["kafka.Kafka", str(tmp_path / "broker" / "server.properties")]
    assert "-Xmx320m" in home.command()


def test_users_must_log_in_and_their_passwords_are_kept_from_others(tmp_path: Path) -> None:
    """With users the listener asks for a login, and the file with their passwords is the owner's alone."""
    home = BrokerHome(
        tmp_path / "broker", tmp_path, played_java(tmp_path / "java", "exit 0"), users={"ada": 'a"b', "bob": "c"}
    )
    home.prepare(9111, 9222)
    found = properties(tmp_path / "broker")
    assert found["listener.security.protocol.map"] == "CLIENT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT"
    for listener in ("client", "controller"):
        assert 'user_bob="c"' in found[f"listener.name.{listener}.plain.sasl.jaas.config"]
    assert (tmp_path / "broker").stat().st_mode & 0o077 == 0
    assert (tmp_path / "broker" / "server.properties").stat().st_mode & 0o077 == 0
    assert home.client_options()["sasl.username"] == "ada"


def test_own_settings_go_first(tmp_path: Path) -> None:
    """A line of the user's replaces Penstock's."""
    java = played_java(tmp_path / "java", "exit 0")
    home = BrokerHome(tmp_path / "broker", tmp_path, java, settings={"num.io.threads": "7"})
    home.prepare(1, 2)
    assert properties(tmp_path / "broker")["num.io.threads"] == "7"


def test_a_formatted_folder_is_not_formatted_again(tmp_path: Path) -> None:
    """Data that is there stays: the tool is not run a second time."""
    ran, formatted = tmp_path / "ran", tmp_path / "broker" / "data" / "meta.properties"
    home = BrokerHome(tmp_path / "broker", tmp_path, played_java(tmp_path / "java", f"touch {ran}"))
    formatted.parent.mkdir(parents=True)
    formatted.write_text("cluster.id=x\n")
    home.prepare(1, 2)
    assert not ran.exists()
    assert formatted.read_text() == "cluster.id=x\n"
    formatted.unlink()
    home.prepare(1, 2)
    assert ran.exists(), "without that file it is formatted"


def test_a_failing_format_is_told_with_its_words(tmp_path: Path) -> None:
    """What Kafka's tool says is part of the error."""
    home = BrokerHome(tmp_path / "broker", tmp_path, played_java(tmp_path / "java", "echo no space left; exit 3"))
    with pytest.raises(ClusterError, match="no space left"):
        home.prepare(1, 2)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"heap": "64m"}, "too small"), ({"host": "0.0.0.0"}, "not a loopback"), ({"users": {}}, "is empty")],
)
def test_wrong_values_are_refused(tmp_path: Path, wrong: dict[str, object], said: str) -> None:
    """A broker that could not run, or that others could reach, is refused at once."""
    with pytest.raises(ConfigurationError, match=said):
        BrokerHome(tmp_path, tmp_path, Java(tmp_path, "17", frozenset()), **wrong)  # type: ignore[arg-type]


def test_without_a_broker_status_and_stop_say_so(tmp_path: Path) -> None:
    """A folder that never had a broker, or whose broker died, has none; nothing else is ended."""
    broker = DetachedBroker(tmp_path / "none")
    assert not broker.status().is_running
    assert broker.stop() is None
    (tmp_path / "dead").mkdir()
    # This test's own pid with another start time: a process that is not the broker.
    (tmp_path / "dead" / "broker.json").write_text(f'{{"pid": {os.getpid()}, "created": 1.0}}')
    (tmp_path / "dead" / "ports.json").write_text("[9111, 9222]")
    dead = DetachedBroker(tmp_path / "dead")
    assert not dead.status().is_running
    assert dead.stop() is None


def test_the_state_folder_is_the_users(tmp_path: Path) -> None:
    """The default folder follows the user's settings of the desktop."""
    assert state_folder("kafka", {"XDG_STATE_HOME": "/home/ada/state"}) == Path("/home/ada/state/penstock/kafka")


class FakePlace:
    """A network of its own."""

    address = "10.83.0.1"
    java_properties: ClassVar[Mapping[str, str]] = {"jdk.net.hosts.file": "/nodes"}

    def command(self, argv: Sequence[str]) -> list[str]:
        """By a program that enters it."""
        return ["enter", *argv]

    def entered(self) -> AbstractContextManager[None]:
        """Stay."""
        return contextlib.nullcontext()


def test_it_may_run_in_a_network_that_only_its_nodes_see(tmp_path: Path) -> None:
    """It listens at its place, and its command enters it; an address here that is not the loopback stays refused."""
    java = played_java(tmp_path / "java", "exit 0")
    home = BrokerHome(tmp_path / "broker", tmp_path / "jars", java, place=FakePlace())
    home.prepare(9111, 9222)
    found = properties(tmp_path / "broker")
    assert found["listeners"] == "CLIENT://10.83.0.1:9111,CONTROLLER://10.83.0.1:9222"
    assert found["advertised.listeners"] == "CLIENT://10.83.0.1:9111"
    assert home.command()[0] == "enter"
    assert "-Djdk.net.hosts.file=/nodes" in home.command()
    with pytest.raises(ConfigurationError, match="not a loopback address"):
        BrokerHome(tmp_path / "other", tmp_path / "jars", java, host="10.83.0.1")
