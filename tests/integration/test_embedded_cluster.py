# SPDX-License-Identifier: Apache-2.0
"""The embedded cluster for real: up, used, beside another one, hurt, mended, gone."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from penstock.adaptors.process.children import Warden
from penstock.adaptors.process.leftovers import marked_processes
from penstock.adaptors.spark.cluster import EmbeddedCluster
from penstock.errors import ClusterError

pytestmark = pytest.mark.spark

# Goes through Python workers; then says who listens where while everything is up, as only the driver's side can.
APPLICATION = """
import sys
from pyspark.sql import SparkSession
spark = (SparkSession.builder.master(sys.argv[1]).appName("sum").config("spark.executor.cores", "1")
         .config("spark.cores.max", "1").config("spark.executor.memory", "512m").getOrCreate())
total = spark.sparkContext.range(0, 100, numSlices=2).map(lambda n: n + 1).sum()
import psutil
mark = psutil.Process().environ()["PENSTOCK_WARDEN_ID"]
hosts, shown = set(), 0
import pathlib, os
defaults = pathlib.Path(os.environ["SPARK_CONF_DIR"], "spark-defaults.conf").read_text()
secret = dict(line.split(" ", 1) for line in defaults.splitlines())["spark.authenticate.secret"]
for process in psutil.process_iter():
    try:
        shown += secret in " ".join(process.cmdline())
        if process.environ().get("PENSTOCK_WARDEN_ID") == mark:
            hosts |= {c.laddr.ip for c in process.net_connections("inet") if c.status == psutil.CONN_LISTEN}
    except psutil.Error:
        continue
print("total", total, flush=True)
print("listening", *sorted(hosts), flush=True)
print("command lines with the secret", shown, flush=True)
spark.stop()
"""


REFUSALS = ("Expected SaslMessage", "Error while invoking RpcHandler#receive")
"""What the master writes to its log of somebody who does not know the secret."""


def eventually(holds: Callable[[], bool], seconds: float = 90.0) -> bool:
    """Ask again until it holds; the bound only ends a failing test."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.fixture(scope="module")
def warden() -> Iterator[Warden]:
    """A warden for the whole module; at its end nothing carries its mark any more."""
    with Warden() as opened:
        yield opened
    assert opened.mark not in marked_processes().values()


@pytest.fixture(scope="module")
def clusters(warden: Warden, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[EmbeddedCluster]]:
    """Two clusters, started at the same time."""
    started = [
        EmbeddedCluster(warden, tmp_path_factory.mktemp("cluster"), cores_per_worker=4, memory_per_worker="1g")
        for _ in range(2)
    ]
    faults: list[BaseException] = []

    def start(cluster: EmbeddedCluster) -> None:
        try:
            cluster.start()
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=start, args=(cluster,)) for cluster in started]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]
    yield started
    for cluster in started:
        cluster.stop()


def test_two_clusters_stand_side_by_side(clusters: list[EmbeddedCluster]) -> None:
    """Each of two clusters started at once has ports, folders and a worker of its own, and says so."""
    first, second = clusters
    assert first.master_url != second.master_url
    assert first.ui_url != second.ui_url
    for cluster in clusters:
        cluster.check()
        state = cluster.state()
        assert (state["status"], state["url"]) == ("ALIVE", cluster.master_url)
        assert [(w["state"], w["cores"], w["memory"]) for w in state["workers"]] == [("ALIVE", 4, 1024)]
        assert all(psutil.pid_exists(pid) for pid in [cluster.master_pid, *cluster.worker_pids])


def test_an_application_runs_on_it_and_all_stay_on_the_loopback(
    clusters: list[EmbeddedCluster], warden: Warden, tmp_path: Path
) -> None:
    """A PySpark program gets its sum through Python workers; nothing listens beyond the loopback."""
    cluster = clusters[0]
    script = tmp_path / "application.py"
    script.write_text(APPLICATION)
    driver = warden.start(
        "driver", [sys.executable, str(script), cluster.master_url], log=tmp_path / "driver.log",
        env={**os.environ, **cluster.spark_environment()}, cwd=tmp_path,
    )  # fmt: skip
    assert driver.wait(300) == 0, driver.tail(60)
    lines = driver.tail(60).splitlines()
    assert "total 5050" in lines  # 1 + 2 + ... + 100
    listening = next(line.split()[1:] for line in lines if line.startswith("listening"))
    assert set(listening) <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}
    assert listening
    assert len(cluster.state()["completedapps"]) == 1
    assert "command lines with the secret 0" in lines
    secret = cluster.authentication["spark.authenticate.secret"]
    written = [path for path in cluster.folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
    assert written == [cluster.folder / "conf" / "spark-defaults.conf"]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["application.py", "driver.log"]


@pytest.mark.parametrize("guess", [{}, {"spark.authenticate": "true", "spark.authenticate.secret": "0" * 64}])
def test_a_client_without_the_secret_is_refused(
    clusters: list[EmbeddedCluster], warden: Warden, tmp_path: Path, guess: dict[str, str]
) -> None:
    """A PySpark program that does not know the secret, or guesses it, gets nothing to run on."""
    cluster = clusters[0]
    script, conf = tmp_path / "stranger.py", tmp_path / "conf"
    script.write_text(APPLICATION)
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in guess.items()))
    log = cluster.folder / "logs" / "master.log"
    before, known = log.stat().st_size, len(cluster.state()["completedapps"])
    stranger = warden.start(
        "stranger", [sys.executable, str(script), cluster.master_url], log=tmp_path / "driver.log",
        env={**os.environ, **cluster.spark_environment(), "SPARK_CONF_DIR": str(conf)}, cwd=tmp_path,
    )  # fmt: skip
    try:
        assert eventually(lambda: b"ERROR" in log.read_bytes()[before:] or stranger.poll() is not None)
        refused = log.read_text(errors="replace")[before:]
        assert any(words in refused for words in REFUSALS), refused + stranger.tail(60)
        state = cluster.state()
        assert (state["activeapps"], len(state["completedapps"])) == ([], known)
        assert "total" not in stranger.tail(60)
    finally:
        warden.stop(stranger)


@pytest.mark.kill
def test_a_killed_worker_is_named_and_can_be_replaced(clusters: list[EmbeddedCluster]) -> None:
    """Kill -9 of a worker shows in `check` by its name; a new one takes its place at the master."""
    cluster = clusters[1]
    lost = cluster.worker_pids[0]
    [lost_id] = [worker["id"] for worker in cluster.state()["workers"]]
    os.kill(lost, signal.SIGKILL)

    def is_noticed() -> bool:
        try:
            cluster.check()
        except ClusterError:
            return True
        return False

    assert eventually(is_noticed)
    with pytest.raises(ClusterError, match=rf"Spark worker 1 \(pid {lost}\) was ended by SIGKILL") as caught:
        cluster.check()
    assert caught.value.target == "Spark worker 1"
    assert cluster.replace_lost_workers() == ["Spark worker 1"]
    cluster.check()
    assert eventually(
        lambda: [w["id"] != lost_id for w in cluster.state()["workers"] if w["state"] == "ALIVE"] == [True]
    )
    assert cluster.worker_pids != [lost]


def test_stop_leaves_no_process(clusters: list[EmbeddedCluster]) -> None:
    """After `stop` master and worker are gone, the other cluster goes on, and a second stop is harmless."""
    cluster, other = clusters[1], clusters[0]
    pids = [cluster.master_pid, *cluster.worker_pids]
    cluster.stop()
    cluster.stop()
    assert not any(psutil.pid_exists(pid) for pid in pids)
    other.check()
    with pytest.raises(ClusterError, match="not running"):
        _ = cluster.master_url


def test_a_daemon_that_dies_at_its_start_is_told_with_its_last_words(warden: Warden, tmp_path: Path) -> None:
    """A master whose JVM does not come up is an error with its log's end, at once and with nothing left."""
    cluster = EmbeddedCluster(warden, tmp_path, daemon_memory="1parsec")
    with pytest.raises(ClusterError, match=r"(?s)Spark master .* ended with exit code 1; .*1parsec") as caught:
        cluster.start()
    assert caught.value.target == "Spark master"
    assert cluster.worker_pids == []


def test_a_cluster_that_is_too_slow_is_told_with_its_logs_and_ended(warden: Warden, tmp_path: Path) -> None:
    """When the time is up the error says what was waited for, and what was started is ended."""
    cluster = EmbeddedCluster(warden, tmp_path, timeout_seconds=0.0)
    with pytest.raises(ClusterError, match=r"not up after 0 s: waited for the master's JVM"):
        cluster.start()
    masters = [child for child in warden.children if child.log == tmp_path / "logs" / "master.log"]
    assert [child.returncode is not None for child in masters] == [True]
