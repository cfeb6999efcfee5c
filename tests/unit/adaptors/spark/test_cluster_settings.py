# SPDX-License-Identifier: Apache-2.0
"""The embedded cluster before it starts: wrong settings are refused, and nothing is started or written."""

from __future__ import annotations

import importlib.util
import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from penstock.adaptors.process.children import Warden
from penstock.adaptors.spark.cluster import EmbeddedCluster
from penstock.adaptors.spark.cluster_files import authentication, write_cluster_folders
from penstock.adaptors.spark.installation import MASTER_CLASS, SparkInstallation, without_spark_variables
from penstock.adaptors.spark.java import Java
from penstock.errors import ClusterError, ConfigurationError

JAVA = Java(Path("/jdk"), "17.0.1", frozenset({"jdk.incubator.vector"}))
SPARK = SparkInstallation(Path("/spark"), "2.13", JAVA)


class FakeWarden(Warden):
    """A warden that must not be asked for anything."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def start(self, name: str, argv: Any, **rest: Any) -> Any:
        """Note that a child was asked for."""
        self.asked.append(name)
        raise AssertionError("nothing may be started")


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkInstallation, "find", classmethod(lambda cls: SPARK))


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("workers", 0, "at least 1"),
        ("cores_per_worker", -1, "at least 1"),
        ("memory_per_worker", "100m", "at least 512m"),
        ("memory_per_worker", "much", "cannot read"),
        ("host", "0.0.0.0", "not a loopback address"),
        ("host", "example.org", "not a loopback address"),
    ],
)
def test_a_wrong_setting_is_refused_by_its_name(tmp_path: Path, setting: str, value: Any, words: str) -> None:
    """Each wrong setting names its field; nothing is started and nothing written."""
    warden = FakeWarden()
    settings: dict[str, Any] = {setting: value}
    with pytest.raises(ConfigurationError, match=words) as caught:
        EmbeddedCluster(warden, tmp_path / "c", **settings)
    assert caught.value.field == f"cluster.{setting}"
    assert (warden.asked, (tmp_path / "c").exists()) == ([], False)


@pytest.mark.parametrize("setting", ["port", "ui_port"])
def test_a_port_that_is_taken_is_refused_before_the_start(tmp_path: Path, setting: str) -> None:
    """A fixed port somebody listens on is named with the way out."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings: dict[str, Any] = {setting: taken.getsockname()[1]}
        with pytest.raises(ConfigurationError, match=r"is not available .*choose another") as caught:
            EmbeddedCluster(FakeWarden(), tmp_path, **settings)
    assert caught.value.field == f"cluster.{setting}"


def test_a_cluster_that_does_not_run_has_no_address(tmp_path: Path) -> None:
    """Before the start there is no address to give: an error, not a guess; and stopping is harmless."""
    cluster = EmbeddedCluster(FakeWarden(), tmp_path)
    with pytest.raises(ClusterError, match="not running"):
        _ = cluster.master_url
    with pytest.raises(ClusterError, match="not running"):
        cluster.state()
    cluster.stop()
    assert cluster.worker_pids == []


def test_the_drivers_environment_names_spark_java_python_and_the_folder(tmp_path: Path) -> None:
    """A driver is told which Spark, Java and Python to use, to stay on the loopback and inside the folder."""
    variables = EmbeddedCluster(FakeWarden(), tmp_path).spark_environment()
    assert (variables["SPARK_HOME"], variables["JAVA_HOME"]) == ("/spark", "/jdk")
    assert variables["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert variables["SPARK_CONF_DIR"] == str(tmp_path / "conf")
    assert {"SPARK_LOCAL_DIRS", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_SUBMIT_OPTS"} <= set(variables)


def test_a_daemon_is_one_java_command(tmp_path: Path) -> None:
    """The command is Java itself, with small heap, the conf folder first on the classpath, arguments last."""
    argv = SPARK.daemon_command(
        MASTER_CLASS,
        ["--port", "1"],
        conf=tmp_path,
        temporary=tmp_path / "t",
        memory="200m",
        properties={"a.b": "c"},
    )
    assert argv[0] == "/jdk/bin/java"
    assert argv[-3:] == [MASTER_CLASS, "--port", "1"]
    assert {"-Xmx200m", "-Da.b=c", f"-Djava.io.tmpdir={tmp_path / 't'}"} <= set(argv)
    assert argv[argv.index("-cp") + 1] == f"{tmp_path}:/spark/jars/*"


def test_variables_of_another_spark_do_not_reach_ours() -> None:
    """What would steer another Spark is taken out of the environment; the rest stays."""
    theirs = {"SPARK_MASTER_PORT": "1", "PYSPARK_PYTHON": "python2", "PATH": "/bin"}
    assert without_spark_variables(theirs) == {"PATH": "/bin"}


def test_missing_pyspark_gives_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without PySpark the error names it and the command that installs it."""
    monkeypatch.undo()  # the real search
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"pyspark: not installed; run: pip install") as caught:
        SparkInstallation.find()
    assert caught.value.field == "pyspark"


def test_the_folder_gets_quiet_logging_and_loopback_defaults(tmp_path: Path) -> None:
    """Spark finds its two files; applications stay on the loopback unless they say otherwise."""
    write_cluster_folders(tmp_path / "c", "127.0.0.1")
    assert "rootLogger.level = warn" in (tmp_path / "c" / "conf" / "log4j2.properties").read_text()
    defaults = (tmp_path / "c" / "conf" / "spark-defaults.conf").read_text()
    assert "spark.driver.bindAddress 127.0.0.1" in defaults
    assert all((tmp_path / "c" / name).is_dir() for name in ("logs", "work", "local", "tmp"))


def test_java_options_of_an_application_leave_the_clusters_in_force(tmp_path: Path) -> None:
    """Ours are Spark's default options, which come before an application's extra ones; those would replace our own."""
    write_cluster_folders(tmp_path / "c", "127.0.0.1", {"jdk.net.hosts.file": "/nodes/hosts"})
    lines = (tmp_path / "c" / "conf" / "spark-defaults.conf").read_text().splitlines()
    defaults = dict(line.split(" ", 1) for line in lines)
    options = defaults["spark.executor.defaultJavaOptions"]
    assert f'"-Djava.io.tmpdir={tmp_path / "c" / "tmp"}"' in options
    assert '"-Djdk.net.hosts.file=/nodes/hosts"' in options
    assert "spark.executor.extraJavaOptions" not in defaults


def test_each_cluster_has_a_secret_that_only_this_user_can_read(tmp_path: Path) -> None:
    """The secret is long, differs between clusters, and stands in a private file of a private folder."""
    first, second = authentication(), authentication()
    assert first["spark.authenticate"] == "true"
    assert len(first["spark.authenticate.secret"]) == 64
    assert first["spark.authenticate.secret"] != second["spark.authenticate.secret"]
    previous = os.umask(0)
    try:
        write_cluster_folders(tmp_path / "c", "127.0.0.1", configuration=first)
    finally:
        os.umask(previous)
    file = tmp_path / "c" / "conf" / "spark-defaults.conf"
    assert f"spark.authenticate.secret {first['spark.authenticate.secret']}\n" in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    folders = [tmp_path / "c", *(path for path in (tmp_path / "c").iterdir())]
    assert {folder.stat().st_mode & 0o777 for folder in folders} == {0o700}


def test_what_executors_write_is_bounded_and_no_page_ends_anything(tmp_path: Path) -> None:
    """Logs roll, folders of ended applications go, and pages, which have no login, have no buttons."""
    write_cluster_folders(tmp_path / "c", "127.0.0.1", configuration=authentication())
    lines = (tmp_path / "c" / "conf" / "spark-defaults.conf").read_text().splitlines()
    defaults = dict(line.split(" ", 1) for line in lines)
    assert defaults["spark.executor.logs.rolling.strategy"] == "size"
    assert int(defaults["spark.executor.logs.rolling.maxSize"]) <= 20 << 20
    assert int(defaults["spark.executor.logs.rolling.maxRetainedFiles"]) <= 3
    assert defaults["spark.worker.cleanup.enabled"] == "true"
    assert defaults["spark.ui.killEnabled"] == "false"


def test_no_environment_and_no_command_line_holds_the_secret(tmp_path: Path) -> None:
    """Drivers and daemons are given the folder of the file, not the secret."""
    asked: list[str] = []

    class RecordingWarden(FakeWarden):
        """Notes what it is asked to start."""

        def start(self, name: str, argv: Any, **rest: Any) -> Any:
            """Note the command and its environment."""
            asked.extend([*argv, *rest["env"].values()])
            raise ClusterError("enough was seen", target=name)

    cluster = EmbeddedCluster(RecordingWarden(), tmp_path / "c")
    with pytest.raises(ClusterError, match="enough"):
        cluster.start()
    secret = cluster.authentication["spark.authenticate.secret"]
    assert asked
    assert not any(secret in text for text in [*asked, *cluster.spark_environment().values()])


def test_a_request_to_stop_ends_the_wait_for_the_cluster(tmp_path: Path) -> None:
    """A user who presses Ctrl-C does not wait until the cluster is up; what was started is ended."""
    stop, stopped = threading.Event(), list[str]()

    class SleepyChild:
        """A daemon that never comes up."""

        name, log, returncode = "Spark master", tmp_path / "master.log", None

        def raise_if_ended(self) -> None:
            """It runs."""

        def tail(self, lines: int = 20) -> str:
            """It says nothing."""
            return ""

    class SleepyWarden(Warden):
        """Keeps daemons that never come up."""

        def __init__(self) -> None:
            pass

        def start(self, name: str, argv: Any, **rest: Any) -> Any:
            """Start it; the user presses Ctrl-C."""
            SleepyChild.log.write_text("")
            stop.set()
            return SleepyChild()

        def check(self) -> None:
            """All is well."""

        def stop(self, child: Any, **rest: Any) -> int:
            """Remember."""
            stopped.append(child.name)
            return 0

    cluster = EmbeddedCluster(SleepyWarden(), tmp_path / "c", stop=stop, timeout_seconds=20.0)
    with pytest.raises(ClusterError, match="stopped while the Spark cluster was starting"):
        cluster.start()
    assert stopped == ["Spark master"]
