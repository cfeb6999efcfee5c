# SPDX-License-Identifier: Apache-2.0
"""The nodes of somebody else's cluster: asked for, measured, and kept fresh."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.errors import ClusterError, ConfigurationError
from penstock.knowledge.memory import MemoryStore
from penstock.knowledge.run_facts import ROUND_TRIPS
from penstock.latency_map import FreshLatencyMap
from penstock.running.executor_round_trips_file import keep_measuring, read_round_trips, write_round_trips
from penstock.running.node_keeper import NodeKeeper
from penstock.running.operator_job import ROUND_TRIPS_FILE, OperatorJob
from penstock.settings import RunSettings, parse_settings


class RecordingListener:
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.phases: list[str] = []
        self.faults: list[str] = []

    def phase(self, text: str, fraction: float | None = None) -> None:
        """Keep it."""
        self.phases.append(text)

    def report(self, report: object) -> None:
        """Nothing reports here."""

    def fault(self, operator: str, text: str) -> None:
        """Keep it."""
        self.faults.append(text)


@pytest.fixture
def page() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A master's page, and the workers that it lists."""
    workers: list[dict[str, Any]] = []

    class FakeMaster(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"workers": workers}).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), FakeMaster)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", workers
    server.shutdown()
    server.server_close()
    thread.join()


def a_run(page: str, *, most: int = 1, **nodes: Any) -> RunSettings:
    """A run on a cluster of somebody else's."""
    return parse_settings(
        {
            "name": "far", "cluster": {"master": "spark://127.0.0.1:1", "page": page}, "nodes": nodes,
            "arrivals": {"shape": "constant:rate=5,duration=9s"}, "policy": "gesscale",
            "operators": [{"name": "o", "app": "a:b", "executors": [1, most]}],
        }
    )  # fmt: skip


def test_workers_are_nodes_and_measured_from_both_sides(page: tuple[str, list[dict[str, Any]]], tmp_path: Path) -> None:
    """The run measures from the driver's machine, executors from theirs; a worker that is dead is no node."""
    address, workers = page
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        workers += [
            {"host": "127.0.0.1", "port": port, "state": "ALIVE"},
            {"host": "127.0.0.2", "port": 1, "state": "ALIVE"},
            {"host": "127.0.0.9", "port": port, "state": "DEAD"},
        ]
        listener, store = RecordingListener(), MemoryStore()
        settings = a_run(address, round_trips="measured")
        keeper = NodeKeeper(settings, {"o": tmp_path}, listener)
        write_round_trips(tmp_path / ROUND_TRIPS_FILE, {("127.0.0.1", "127.0.0.2"): 0.25})
        keeper.find(None, store)
        try:
            assert keeper.limits(settings.operators[0]).nodes == ("127.0.0.1", "127.0.0.2")
            distances = keeper.distances()
            assert isinstance(distances, FreshLatencyMap)
            known = distances.now
            assert known.driver == "driver"
            assert known.between("127.0.0.1", "127.0.0.2") == 0.25
            measured = known.known("driver", "127.0.0.1")
            assert measured is not None
            assert measured < 0.25
            assert known.known("driver", "127.0.0.2") is None  # nobody listens there: a hole
            assert keeper.measure_to["127.0.0.1"] == ("127.0.0.1", port)
            assert store.fact(ROUND_TRIPS) is not None
            assert listener.phases[-1].startswith("round trips from driver: 127.0.0.1")
        finally:
            keeper.stop()


def test_executors_that_the_workers_have_no_room_for_are_reported(
    page: tuple[str, list[dict[str, Any]]], tmp_path: Path
) -> None:
    """How many workers there are is known only when the master was asked: the run begins with fewer, and says so."""
    address, workers = page
    workers.append({"host": "a", "port": 1, "state": "ALIVE"})
    listener = RecordingListener()
    NodeKeeper(a_run(address, most=3, executors=1), {"o": tmp_path}, listener).find(None, MemoryStore())
    assert listener.faults == ["3 executors do not fit on 1 nodes: it gets 1 at most"]


def test_a_worker_gets_no_more_executors_than_it_has_cores(
    page: tuple[str, list[dict[str, Any]]], tmp_path: Path
) -> None:
    """Where all say how many they have; the largest counts, and a resumed run keeps what was known when it began."""
    address, workers = page
    workers += [{"host": host, "port": 1, "state": "ALIVE", "cores": cores} for host, cores in (("a", 2), ("b", 4))]
    settings, store = a_run(address, most=9), MemoryStore()
    first, resumed = (NodeKeeper(settings, {}, RecordingListener(), resume=resume) for resume in (False, True))
    first.find(None, store)
    assert first.limits(settings.operators[0]).executors_per_node == 4
    workers[1]["cores"] = 8
    resumed.find(None, store)
    assert resumed.limits(settings.operators[0]) == first.limits(settings.operators[0])
    del workers[0]["cores"]
    silent = NodeKeeper(settings, {}, RecordingListener())
    silent.find(None, MemoryStore())
    assert silent.limits(settings.operators[0]).executors_per_node is None


def test_a_named_node_without_a_worker_is_reported(page: tuple[str, list[dict[str, Any]]], tmp_path: Path) -> None:
    """The run begins all the same: the worker may come."""
    address, workers = page
    workers.append({"host": "a", "port": 1, "state": "ALIVE"})
    listener = RecordingListener()
    keeper = NodeKeeper(a_run(address, names=["a", "b"]), {"o": tmp_path}, listener)
    keeper.find(None, MemoryStore())
    assert listener.faults == ["node b has no worker now: executors cannot come to it"]
    assert keeper.distances() is None
    assert not keeper.measure_to


def test_a_resumed_run_keeps_the_nodes_that_it_began_with(
    page: tuple[str, list[dict[str, Any]]], tmp_path: Path
) -> None:
    """Workers come, go and get other ports; the jobs of operators that still run must not differ for that."""
    address, workers = page
    workers += [{"host": "127.0.0.1", "port": 1, "state": "ALIVE"}, {"host": "127.0.0.2", "port": 1, "state": "ALIVE"}]
    settings, store, listener = a_run(address, round_trips="measured"), MemoryStore(), RecordingListener()
    first = NodeKeeper(settings, {"o": tmp_path}, listener)
    first.find(None, store)
    first.stop()
    workers[0]["port"], workers[1]["state"] = 2, "DEAD"
    workers.append({"host": "127.0.0.3", "port": 1, "state": "ALIVE"})
    resumed = NodeKeeper(settings, {"o": tmp_path}, listener, resume=True)
    resumed.find(None, store)
    resumed.stop()
    assert resumed.limits(settings.operators[0]) == first.limits(settings.operators[0])
    assert resumed.measure_to == first.measure_to
    assert listener.faults == ["node 127.0.0.2 has no worker now: executors cannot come to it"]


def test_a_cluster_without_workers_has_no_nodes(page: tuple[str, list[dict[str, Any]]], tmp_path: Path) -> None:
    """Nothing could be chosen."""
    with pytest.raises(ConfigurationError, match="lists no workers"):
        NodeKeeper(a_run(page[0]), {"o": tmp_path}, RecordingListener()).find(None, MemoryStore())


def test_a_page_that_does_not_answer_is_named(tmp_path: Path) -> None:
    """With what it should be."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    with pytest.raises(ClusterError, match=r"cluster\.page: .*cannot be read"):
        NodeKeeper(a_run(f"http://127.0.0.1:{free}"), {"o": tmp_path}, RecordingListener()).find(None, MemoryStore())


@pytest.mark.parametrize("answer", [b"\x00\x01 no HTTP\r\n", b'HTTP/1.0 200 OK\r\n\r\n{"workers": [{}]}'])
def test_a_page_that_is_something_else_is_named(answer: bytes, tmp_path: Path) -> None:
    """Such as the port that drivers use, or the page of another program."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        settings = a_run(f"http://127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(ClusterError, match="give the web page of the standalone master"):
            NodeKeeper(settings, {"o": tmp_path}, RecordingListener()).find(None, MemoryStore())
        thread.join()


def test_measurements_that_are_not_renewed_do_not_count(tmp_path: Path) -> None:
    """An operator that is gone says nothing about now; a broken file says nothing at all."""
    path = tmp_path / ROUND_TRIPS_FILE
    assert read_round_trips([tmp_path], 0.0) == {}
    write_round_trips(path, {("a", "b"): 0.1})
    written = path.stat().st_mtime
    assert read_round_trips([tmp_path], written + 60.0) == {("a", "b"): 0.1}
    assert read_round_trips([tmp_path], written + 600.0) == {}
    assert read_round_trips([tmp_path], written - 3600.0) == {}, "the clock was set back since"
    path.write_text("no json")
    assert read_round_trips([tmp_path], path.stat().st_mtime) == {}


def test_a_measurement_that_fails_is_tried_again_and_given_up_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that failed with a lost node ends nothing; three in a row do, and what was found before stays."""
    results: list[Exception | float] = [OSError("lost"), OSError("lost"), 0.1, *[OSError("lost")] * 3, 0.9]

    def measure(*_: object) -> dict[tuple[str, str], float]:
        found = results.pop(0)
        if isinstance(found, Exception):
            raise found
        return {("a", "b"): found}

    class NoWait(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            return False

    monkeypatch.setattr("penstock.adaptors.spark.executor_round_trips.measure_from_executors", measure)
    job = SimpleNamespace(folder=str(tmp_path), measure_to={})
    keep_measuring(cast("Any", None), cast("OperatorJob", job), NoWait())
    assert results == [0.9]
    path = tmp_path / ROUND_TRIPS_FILE
    assert read_round_trips([tmp_path], path.stat().st_mtime) == {("a", "b"): 0.1}
