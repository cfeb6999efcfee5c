# SPDX-License-Identifier: Apache-2.0
"""`penstock kafka` without a broker: what it says, its exit codes, its JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from penstock.adaptors.kafka.detached_broker import DetachedBroker
from penstock.adaptors.kafka.known_brokers import KnownBrokers
from penstock.adaptors.kafka.topics import Topic, Topics
from penstock.adaptors.process.detached import DetachedProcess
from penstock.cli.main import main


def test_status_without_a_broker_fails_and_says_how_to_start_one(tmp_path: Path) -> None:
    """Without a broker the exit code is 1 and the command that starts one is named."""
    result = CliRunner().invoke(main, ["kafka", "status", "--folder", str(tmp_path)])
    assert result.exit_code == 1
    assert "penstock kafka start" in result.output


def test_status_as_json_has_every_field(tmp_path: Path) -> None:
    """What is not known is null, never left out."""
    result = CliRunner().invoke(main, ["kafka", "status", "--json", "--folder", str(tmp_path)])
    found = json.loads(result.stdout.splitlines()[-1])
    assert found["running"] is False
    assert found["answers"] is False
    assert found["topics"] is None
    assert found["bootstrap_servers"] is None


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No broker of the user's is looked at."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Brokers are processes that sleep; `start` brings one up without Kafka."""
    started: list[DetachedProcess] = []

    def bring_up(self: DetachedBroker, *_: object) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "ports.json").write_text("[9111, 9112]")
        argv = [sys.executable, "-c", "import time; time.sleep(60)"]
        identity = self.folder / "broker.json"
        started.append(
            DetachedProcess.start("sleeper", argv, log=self.log, env=os.environ, cwd=self.folder, identity=identity)
        )

    monkeypatch.setattr(DetachedBroker, "_bring_up", bring_up)
    monkeypatch.setattr("penstock.adaptors.kafka.detached_broker.fetch_kafka", lambda _: Path("jars"))
    monkeypatch.setattr("penstock.adaptors.kafka.detached_broker.find_java", lambda: None)
    monkeypatch.setattr("penstock.adaptors.kafka.detached_broker.BrokerHome", lambda *_, **__: None)
    monkeypatch.setattr(Topics, "all", lambda _: [])
    yield
    for process in started:
        process.stop()


def kafka(*arguments: str) -> Result:
    """Run `penstock kafka`."""
    return CliRunner().invoke(main, ["kafka", *arguments])


def test_stop_without_a_broker_is_no_failure() -> None:
    """There is nothing to stop, and that is what was wanted."""
    result = kafka("stop", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout.splitlines()[-1])["stopped"] is False


def test_stop_of_a_named_broker_that_does_not_run_fails(tmp_path: Path) -> None:
    """Whoever names a folder expects a broker there."""
    result = kafka("stop", "--json", "--folder", str(tmp_path / "none"))
    assert result.exit_code == 1
    assert "--folder: no broker of" in result.output
    assert json.loads(result.stdout.splitlines()[-1])["stopped"] is False


@pytest.mark.usefixtures("played")
def test_stop_and_status_find_the_broker_that_was_started_with_a_folder(tmp_path: Path) -> None:
    """Without --folder it is the one that runs; a broker that has stopped is forgotten."""
    folder = tmp_path / "data"
    assert kafka("start", "--folder", str(folder)).exit_code == 0
    assert json.loads(kafka("status", "--json").stdout.splitlines()[-1])["folder"] == str(folder)
    stopped = kafka("stop", "--json")
    assert stopped.exit_code == 0
    assert json.loads(stopped.stdout.splitlines()[-1])["folder"] == str(folder)
    assert not DetachedBroker(folder).is_running
    assert KnownBrokers().running() == []
    assert "No broker of Penstock is running" in kafka("stop").output


@pytest.mark.usefixtures("played")
def test_of_several_brokers_one_must_be_named(tmp_path: Path) -> None:
    """Nothing is stopped by guess, and both folders are listed."""
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        kafka("start", "--folder", str(folder))
    for command in ("stop", "status"):
        refused = kafka(command)
        assert refused.exit_code == 2
        assert all(str(folder) in refused.output for folder in folders)
    assert kafka("stop", "--folder", str(folders[0])).exit_code == 0
    missed = kafka("stop", "--folder", str(folders[0]))
    assert missed.exit_code == 1
    assert str(folders[1]) in missed.output.replace("\n", "")
    assert kafka("stop").exit_code == 0
    assert not any(DetachedBroker(folder).is_running for folder in folders)


@pytest.mark.usefixtures("played")
def test_a_topic_is_created_on_the_broker_that_runs_or_on_the_servers_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name, the partitions and the servers reach the broker."""
    asked: list[tuple[str, str, int]] = []

    def create(self: Topics, name: str, *, partitions: int) -> Topic:
        asked.append((self.connection.bootstrap_servers, name, partitions))
        return Topic(name, partitions, 1)

    monkeypatch.setattr(Topics, "create", create)
    nowhere = kafka("topic", "lines")
    assert nowhere.exit_code == 2
    assert "--servers" in nowhere.output
    kafka("start", "--folder", str(tmp_path / "data"))
    made = kafka("topic", "lines", "--partitions", "3", "--json")
    assert made.exit_code == 0, made.output
    assert json.loads(made.stdout.splitlines()[-1])["partitions"] == 3
    assert kafka("topic", "words", "--servers", "broker-1:9092").exit_code == 0
    assert asked == [("127.0.0.1:9111", "lines", 3), ("broker-1:9092", "words", 1)]


def test_start_refuses_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    """A path below a file is wrong input."""
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(main, ["kafka", "start", "--folder", str(tmp_path / "file" / "x")])
    assert result.exit_code == 2
    assert "--folder" in result.output
