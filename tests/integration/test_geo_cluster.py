# SPDX-License-Identifier: Apache-2.0
"""A taxi query on a geo-distributed Spark: executors on chosen nodes, round trips, right results, nothing left over.

The tests tell one story on one cluster, in the order they stand.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.integration import geo_owner
from tests.integration.geo_root import needs_namespaces

from penstock.adaptors.agent.client import RemoteOperator
from penstock.adaptors.geo.delays import OneWayDelays
from penstock.adaptors.process.leftovers import marked_processes
from penstock.apps.taxi_attractions.check import expected_rows
from penstock.arrivals.taxi_ride_lines import TaxiRideLines
from penstock.errors import AdaptorError
from penstock.records import Action, Allocation, Telemetry

pytestmark = [
    pytest.mark.spark, pytest.mark.namespaces, pytest.mark.cgroups, pytest.mark.long, needs_namespaces,
    pytest.mark.timeout(1500),
]  # fmt: skip
ASKED = OneWayDelays.parse(geo_owner.DELAYS)


def until(is_so: Callable[[], bool], seconds: float, what: Callable[[], object]) -> None:
    """Ask again until it holds; the bound only ends a failing test."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, what()
        time.sleep(0.2)


@dataclass
class Running:
    """The owner's process, what it said, and a controller connected to its query."""

    owner: subprocess.Popen[str]
    said: dict[str, Any]
    folder: Path
    remote: RemoteOperator
    seen: Telemetry | None = None
    batches: int = 0
    most: int = 0

    def look(self) -> bool:
        """Collect; whether that went well."""
        try:
            self.seen = self.remote.collect()
        except AdaptorError:
            return False
        self.batches += len(self.seen.batches)
        self.most = max(self.most, len(self.seen.executors or ()))
        return True

    def hosts(self) -> list[str]:
        """Where executors are that take tasks or still drain."""
        return sorted(e.host for e in (self.seen.executors or ()) if e.is_active) if self.seen is not None else []

    def place(self, *nodes: str) -> float:
        """Ask for one executor on each node, wait until it is so, and return how long it took."""
        target = Allocation(len(nodes), nodes=tuple((node, 1) for node in nodes))
        self.most = 0
        started = time.monotonic()
        self.remote.request(Action("taxi", time.time(), target, None))
        until(lambda: self.look() and self.hosts() == sorted(nodes), 300, lambda: (self.seen, self.tail()))
        return time.monotonic() - started

    def tail(self) -> str:
        """The end of the driver's log."""
        return (self.folder / "driver.log").read_text(errors="replace")[-3000:]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Three nodes and home, the query with an executor on each node."""
    folder = tmp_path_factory.mktemp("geo")
    with subprocess.Popen(
        [sys.executable, geo_owner.__file__, str(folder)], stdout=subprocess.PIPE, text=True, cwd=folder
    ) as owner:
        try:
            assert owner.stdout is not None
            said = json.loads(owner.stdout.readline())
            until((folder / "agent.sock").exists, 300, lambda: (folder / "driver.log").read_text()[-3000:])
            made = Running(owner, said, folder, RemoteOperator(folder / "agent.sock"))
            until(lambda: made.look() and len(made.hosts()) == 3 and made.batches > 1, 300, made.tail)
            yield made
            made.remote.close()
        finally:
            owner.kill()


def test_round_trips_between_nodes_are_those_asked_for(running: Running) -> None:
    """Measured on the nodes, from every node to every other: never shorter, and ordered as asked for."""
    measured = {(one, other): seconds for one, other, seconds in running.said["round_trips"]}
    assert len(measured) == 12
    for (one, other), seconds in measured.items():
        assert seconds >= ASKED.round_trip(one, other)
    assert measured["home", "near"] < measured["home", "far"]
    assert measured["near", "middle"] < measured["near", "far"]


def test_tasks_on_executors_measure_them_too(running: Running) -> None:
    """A job on the executors gives the same table for the nodes it came to, and knows where it ran."""
    (running.folder / "measure").touch()
    until((running.folder / "measured.json").exists, 120, running.tail)
    measured = json.loads((running.folder / "measured.json").read_text())
    assert measured
    for one, other, seconds in measured:
        assert one in ("near", "middle", "far")
        assert seconds >= ASKED.round_trip(one, other)


def test_executors_come_to_the_chosen_nodes_and_the_query_goes_on(running: Running) -> None:
    """Three nodes, then one, then another: each time exactly these, and batches all the time."""
    shrunk = running.place("far")
    moved = running.place("near")
    most, batches = running.most, running.batches
    grown = running.place("near", "middle")
    until(lambda: running.look() and running.batches > batches + 1, 120, running.tail)
    assert most <= 3, "a move takes at most one executor for each node"
    print(f"3 nodes to 1: {shrunk:.1f} s, to another: {moved:.1f} s (at most {most} executors), 1 to 2: {grown:.1f} s")


def test_results_equal_a_direct_computation(running: Running) -> None:
    """Whatever moved meanwhile, every ride that came out has its attraction and distance to the last digit, once."""
    until(lambda: running.look() and running.batches > 5, 120, running.tail)
    log = sorted((running.folder / "out" / "_spark_metadata").glob("[0-9]*"))
    # A set: every tenth file of the log repeats the entries of those before it.
    committed = {json.loads(line)["path"] for entry in log for line in entry.read_text().splitlines()[1:]}
    found = []
    for path in committed:
        table = pq.read_table(path.removeprefix("file://"), columns=["index", "value", "attraction", "distance"])
        found += list(zip(*table.to_pydict().values(), strict=True))
    lines = TaxiRideLines(geo_owner.SEED).lines(0, np.zeros(geo_owner.RECORDS, dtype=np.int64))
    expected = expected_rows(lines)[: len(found)]
    assert len(found) > 300
    assert sorted(found) == expected


@pytest.mark.kill
def test_kill_9_leaves_no_process_namespace_group_or_folder(running: Running) -> None:
    """Cluster, driver, executors, their nodes and CPU caps all go with the process that started them."""
    groups = [Path(folder) for folder in running.said["groups"]]
    assert len(groups) >= 3
    assert all(group.is_dir() for group in groups)
    os.kill(running.owner.pid, signal.SIGKILL)
    running.owner.wait()

    def left() -> list[object]:
        inodes, found = set(running.said["namespaces"]), list[object]()
        for entry in Path("/proc").glob("[0-9]*/ns/net"):
            try:
                found += [entry] if entry.stat().st_ino in inodes else []
            except OSError:
                continue
        found += [pid for pid, mark in marked_processes().items() if mark == running.said["mark"]]
        return [*found, *(path for path in (*groups, Path(running.said["folder"])) if path.exists())]

    until(lambda: not left(), 120, left)
