# SPDX-License-Identifier: Apache-2.0
"""Fetching jars with a played Ivy: whole or not at all, once, with a clear word when it fails."""

from __future__ import annotations

import fcntl
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from penstock.adaptors.kafka import connector as connector_module
from penstock.adaptors.kafka import maven
from penstock.adaptors.kafka.cache import cache_folder
from penstock.adaptors.kafka.connector import KafkaConnector, connector_settings
from penstock.adaptors.kafka.maven import Coordinate, NotFetchedError, fetch_jars
from penstock.errors import ClusterError, ConfigurationError

TOOL = Coordinate("org.example", "tool", "1.0")


@pytest.fixture
def ivy(tmp_path: Path) -> tuple[dict[str, str], Path]:
    """An environment whose Java is a script that plays Ivy; gives it and the script's file."""
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text('JAVA_VERSION="17.0.1"\nMODULES="java.base jdk.incubator.vector"\n')
    program = home / "bin" / "java"
    program.write_text("#!/bin/sh\nexit 9\n")
    program.chmod(0o755)
    return {"JAVA_HOME": str(home), "PENSTOCK_CACHE": str(tmp_path / "cache")}, program


def plays(program: Path, body: str) -> None:
    """Let the played Ivy do this; `$into` is where the jars go, `$ivy` the file that asks for them."""
    program.write_text(
        "#!/bin/sh\n"
        'while [ $# -gt 0 ]; do case "$1" in -retrieve) into=$(dirname "$2");; -ivy) ivy=$2;; esac; shift; done\n'
        + body
    )


def test_jars_are_fetched_once(ivy: tuple[dict[str, str], Path], tmp_path: Path) -> None:
    """A second call finds the folder and starts nothing."""
    environment, program = ivy
    plays(program, 'mkdir -p "$into"; : > "$into/tool-1.0.jar"; : > "$into/dep-2.jar"\n')
    folder = tmp_path / "cache" / "tool"
    said: list[str] = []
    found = fetch_jars([TOOL], folder, tell=said.append, environment=environment)
    assert [jar.name for jar in found] == ["dep-2.jar", "tool-1.0.jar"]
    assert said[0].startswith("fetching org.example:tool:1.0")
    program.write_text("#!/bin/sh\nexit 9\n")
    said.clear()
    assert fetch_jars([TOOL], folder, tell=said.append, environment=environment) == found
    assert said == []


def test_a_failed_fetch_leaves_nothing(ivy: tuple[dict[str, str], Path], tmp_path: Path) -> None:
    """When Ivy fails half way the folder is not there, so that the next run fetches anew."""
    environment, program = ivy
    plays(program, 'mkdir -p "$into"; : > "$into/half.jar"; echo "Connection refused"; exit 1\n')
    folder = tmp_path / "cache" / "tool"
    with pytest.raises(NotFetchedError, match=r"(?s)cannot be reached.*Connection refused") as caught:
        fetch_jars([TOOL], folder, environment=environment)
    assert caught.value.retryable
    assert not folder.exists()
    assert [entry.name for entry in folder.parent.iterdir()] == [".tool.lock"]


def test_what_the_repository_has_not_got_is_named(ivy: tuple[dict[str, str], Path], tmp_path: Path) -> None:
    """An artifact that is not published is told apart from a repository that cannot be reached."""
    environment, program = ivy
    plays(program, 'echo "		:: org.example#tool;1.0: not found"; exit 1\n')
    with pytest.raises(NotFetchedError, match=r"does not have org\.example#tool;1\.0") as caught:
        fetch_jars([TOOL], tmp_path / "cache" / "tool", environment=environment)
    assert caught.value.missing == ("org.example#tool;1.0",)
    assert not caught.value.retryable


def test_a_cache_that_cannot_be_written_is_told(ivy: tuple[dict[str, str], Path], tmp_path: Path) -> None:
    """A cache folder that cannot be made is refused, and the variable that names another is told."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="PENSTOCK_CACHE"):
        fetch_jars([TOOL], tmp_path / "file" / "cache" / "tool", environment=ivy[0])


def test_settings_that_are_not_there_are_told(ivy: tuple[dict[str, str], Path], tmp_path: Path) -> None:
    """A named ivysettings.xml must be there."""
    environment = {**ivy[0], "PENSTOCK_IVY_SETTINGS": str(tmp_path / "none.xml")}
    with pytest.raises(ConfigurationError, match=r"PENSTOCK_IVY_SETTINGS: .* does not exist"):
        fetch_jars([TOOL], tmp_path / "cache" / "tool", environment=environment)


def test_the_connector_is_the_installed_sparks(ivy: tuple[dict[str, str], Path]) -> None:
    """Without a wish the connector has the installed Spark's version, for Spark's own fetching too."""
    import pyspark

    connector = KafkaConnector.of_installed(ivy[0])
    assert str(connector.coordinate) == f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
    settings = connector.package_settings(ivy[0])
    assert settings["spark.jars.packages"] == str(connector.coordinate)
    assert Path(settings["spark.jars.ivy"]).is_relative_to(cache_folder(ivy[0]))


def test_another_connector_may_be_named(ivy: tuple[dict[str, str], Path]) -> None:
    """The variable names the connector, then versions of what it needs; a word that is no coordinate is refused."""
    environment = {**ivy[0], "PENSTOCK_KAFKA_CONNECTOR": "a:b:1, c:d:2"}
    assert KafkaConnector.of_installed(environment) == KafkaConnector(
        Coordinate("a", "b", "1"), (Coordinate("c", "d", "2"),)
    )
    with pytest.raises(ConfigurationError, match="'nonsense' is not group:artifact:version"):
        KafkaConnector.of_installed({**ivy[0], "PENSTOCK_KAFKA_CONNECTOR": "nonsense"})


THERE = {
    "spark-sql-kafka-0-10_2.13": ["4.0.5", "4.2.0-preview1", "4.2.0", "5.0.0"],
    "spark-token-provider-kafka-0-10_2.13": ["4.0.0", "4.1.0-preview1"],
}


def list_releases(group: str, artifact: str) -> list[str]:
    """A repository with gaps."""
    assert group == "org.apache.spark"
    return THERE[artifact]


def list_nothing(group: str, artifact: str) -> list[str]:
    """A repository that must not be asked."""
    raise AssertionError(f"{group}:{artifact}")


LACKS_4_3_9 = (
    'if grep -q 4.3.9 "$ivy"; then echo ":: x#y;4.3.9: not found"; exit 1; fi\n'
    'mkdir -p "$into"; '
    ': > "$into/spark-sql-kafka-0-10_2.13-4.2.0.jar"; : > "$into/scala-library-2.13.18.jar"\n'
)


def test_a_stand_in_is_told_and_not_looked_for_again(
    ivy: tuple[dict[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the installed Spark's connector is not published the newest before it is taken, with a word each time."""
    environment, program = ivy
    monkeypatch.setattr(connector_module, "installed_spark", lambda _: ("2.13", "4.3.9"))
    plays(program, LACKS_4_3_9)
    said: list[str] = []
    settings = connector_settings(said.append, environment, list_releases)
    # What Spark has itself is not given a second time.
    (jar,) = map(Path, settings["spark.jars"].split(","))
    assert jar.name == "spark-sql-kafka-0-10_2.13-4.2.0.jar"
    assert jar.parent.name == "spark-sql-kafka-0-10_2.13-4.2.0+spark-token-provider-kafka-0-10_2.13-4.0.0"
    assert any("4.3.9 is not in the Maven repository" in word and ":4.2.0 is used" in word for word in said)
    program.write_text("#!/bin/sh\nexit 9\n")
    said.clear()
    assert connector_settings(said.append, environment, list_nothing) == settings
    assert [word for word in said if "is used instead" in word] == said != []
    (note,) = cache_folder(environment).glob("connector/*.instead")
    assert note.name == "spark-sql-kafka-0-10_2.13-4.3.9.instead"


def test_no_stand_in_where_there_is_none(ivy: tuple[dict[str, str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the same major version is there, or the user's own repository is asked: the first fault is said."""
    environment, program = ivy
    monkeypatch.setattr(connector_module, "installed_spark", lambda _: ("2.13", "4.3.9"))
    plays(program, LACKS_4_3_9)
    with pytest.raises(NotFetchedError, match=r"does not have x#y;4\.3\.9"):
        connector_settings(None, environment, lambda group, artifact: ["3.5.0", "5.0.0"])
    settings = program.with_name("ivysettings.xml")
    settings.write_text("<ivysettings/>")
    with pytest.raises(NotFetchedError, match=r"does not have x#y;4\.3\.9"):
        connector_settings(None, {**environment, "PENSTOCK_IVY_SETTINGS": str(settings)}, list_nothing)
    assert not list(cache_folder(environment).glob("connector/*.instead"))


def test_a_repository_that_cannot_be_reached_has_no_stand_in(
    ivy: tuple[dict[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what is known to be missing is replaced."""
    environment, program = ivy
    monkeypatch.setattr(connector_module, "installed_spark", lambda _: ("2.13", "4.3.9"))
    plays(program, 'echo "Connection refused"; exit 1\n')
    with pytest.raises(NotFetchedError, match="cannot be reached"):
        connector_settings(None, environment, list_nothing)


def fetched_aside(folder: Path, environment: dict[str, str], stop: threading.Event) -> Future[list[Path]]:
    """Fetch in a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(fetch_jars, [TOOL], folder, environment=environment, stop=stop)
        deadline = time.monotonic() + 20
        while not (folder.parent / "begun").exists() and not running.done() and time.monotonic() < deadline:
            time.sleep(0.01)
        stop.set()
        return running


def test_a_repository_that_stalls_can_be_stopped(ivy: tuple[dict[str, str], Path], tmp_path: Path) -> None:
    """A user who ends the run does not wait for Ivy, which is ended and leaves nothing."""
    environment, program = ivy
    folder = tmp_path / "cache" / "tool"
    plays(program, f'mkdir -p "$into"; echo $$ > {tmp_path}/pid; : > {folder.parent}/begun; exec sleep 600\n')
    fault = fetched_aside(folder, environment, threading.Event()).exception(20)
    assert isinstance(fault, ClusterError)
    assert not isinstance(fault, NotFetchedError)
    assert "stopped" in str(fault)
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))
    assert not folder.exists()


def test_a_repository_that_stalls_for_long_is_given_up(
    ivy: tuple[dict[str, str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that says nothing more and does not end is ended."""
    environment, program = ivy
    monkeypatch.setattr(maven, "_TIMEOUT_SECONDS", 0.3)
    plays(program, "echo resolving; exec sleep 600\n")
    with pytest.raises(NotFetchedError, match=r"(?s)not fetched within 0.3 s.*IVY_SETTINGS") as caught:
        fetch_jars([TOOL], tmp_path / "cache" / "tool", environment=environment)
    assert caught.value.retryable


def test_the_wait_for_another_that_fetches_can_be_stopped(ivy: tuple[dict[str, str], Path], tmp_path: Path) -> None:
    """Two runs that start at once fetch once; the one that waits can be ended."""
    folder = tmp_path / "cache" / "tool"
    folder.parent.mkdir()
    with (folder.parent / ".tool.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stop, said = threading.Event(), []

        def tell(text: str) -> None:
            said.append(text)
            stop.set()

        with pytest.raises(ClusterError, match="stopped"):
            fetch_jars([TOOL], folder, environment=ivy[0], stop=stop, tell=tell)
    assert "waiting for another process" in said[0]
