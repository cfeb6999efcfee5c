# SPDX-License-Identifier: Apache-2.0
"""Two masters in processes of their own, queries in others: the leader is killed, stopped and cut off while it scales.

What was done is read from the logs that the queries' agents keep.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.knowledge.leases import SqliteLeases
from penstock.knowledge.run_facts import SETTINGS
from penstock.ports import Lease
from penstock.service.leadership import LEADER, shown
from penstock.service.master_stores import LEASES_FILE, TOKEN_FILE, StoreFolder

PENSTOCK = [sys.executable, "-m", "penstock"]
TOY = Path(__file__).parents[1] / "toy_query.py"
QUERIES = {"words": ("words",), "pages": ("pages",), "pair": ("left", "right")}
"""Pipelines with their operators: two attached queries, and a run of two operators."""
OPERATORS = [(name, operator) for name, operators in QUERIES.items() for operator in operators]
PATIENCE_SECONDS = 90.0


def free_port() -> int:
    """A port that nobody has."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        return int(reserved.getsockname()[1])


class Wire:
    """A way to a master that can be cut: then nothing passes, and nobody is told."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._is_whole = threading.Event()
        self._is_whole.set()
        self._is_closed = False
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def cut(self) -> None:
        """Let nothing pass."""
        self._is_whole.clear()

    def mend(self) -> None:
        """Let everything pass."""
        self._is_whole.set()

    def close(self) -> None:
        """End."""
        self._is_closed = True
        self._is_whole.set()
        self._listening.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10.0)
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._join, args=(near,), daemon=True))
            self._threads[-1].start()

    def _join(self, near: socket.socket) -> None:
        self._is_whole.wait()
        try:
            far = socket.create_connection(("127.0.0.1", self._target), timeout=2.0)
        except OSError:
            near.close()
            return
        far.settimeout(None)
        back = threading.Thread(target=self._pump, args=(far, near), daemon=True)
        back.start()
        with near, far:
            self._pump(near, far)
            back.join()

    def _pump(self, one: socket.socket, other: socket.socket) -> None:
        try:
            while received := one.recv(1 << 16):
                self._is_whole.wait()
                if self._is_closed:
                    break
                other.sendall(received)
        except OSError:
            pass
        finally:
            for end in (one, other):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue


class World:
    """Two masters, the ways to them, and some queries."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store = folder, folder / "masters"
        StoreFolder(self.store).token()
        self.leases = SqliteLeases(self.store / LEASES_FILE)
        ports = [free_port(), free_port()]
        self.wires = {f"127.0.0.1:{port}": Wire(port) for port in ports}
        self.masters = {address: self.start_master(address) for address in self.wires}
        masters = ",".join(f"127.0.0.1:{wire.port}" for wire in self.wires.values())
        self.queries = [
            subprocess.Popen(
                [
                    sys.executable,
                    TOY,
                    name if len(operators) == 1 else f"{name}/{','.join(operators)}",
                    masters,
                    self.store / TOKEN_FILE,
                    *map(self.log, operators),
                ]
            )
            for name, operators in QUERIES.items()
        ]

    def start_master(self, address: str) -> subprocess.Popen[bytes]:
        """One more master."""
        with (self.folder / f"master-{address.rpartition(':')[2]}.log").open("ab") as log:
            return subprocess.Popen(
                [*PENSTOCK, "serve", "--store", f"sqlite:{self.store}", "--agent-port", address.rpartition(":")[2]],
                stdout=log,
                stderr=log,
            )

    def log(self, operator: str) -> Path:
        """What was done to an operator."""
        return self.folder / f"{operator}.jsonl"

    def done(self, operator: str) -> list[dict[str, Any]]:
        """The same, read."""
        file = self.log(operator)
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def leader(self) -> Lease | None:
        """Who leads."""
        return shown(self.leases.lease(LEADER))

    def close(self) -> None:
        """End everything."""
        for process in (*self.masters.values(), *self.queries):
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
        for wire in self.wires.values():
            wire.close()
        self.leases.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Everything, as long as a test lasts."""
    made = World(tmp_path)
    yield made
    made.close()


def until(is_so: Callable[[], bool], what: str) -> float:
    """Wait, and say how long it took."""
    began = time.monotonic()
    while not is_so():
        assert time.monotonic() - began < PATIENCE_SECONDS, f"{what} did not come about"
        time.sleep(0.02)
    return time.monotonic() - began


def disturb(world: World, kind: str) -> tuple[float, float]:
    """Do something to the leader; returns how long it took until the other led, and until it had scaled something."""
    before = world.leader()
    assert before is not None
    process, wire = world.masters[before.holder], world.wires[before.holder]
    if kind == "kill":
        process.kill()
        process.wait()
    elif kind == "stop":
        os.kill(process.pid, signal.SIGSTOP)
    else:
        wire.cut()

    def another_leads() -> bool:
        now = world.leader()
        return now is not None and now.fence > before.fence and now.holder != before.holder

    led = until(another_leads, f"another leader after {kind}")
    now = world.leader()
    assert now is not None
    began = time.monotonic()

    def all_scaled() -> bool:
        return all(any(line["fence"] >= now.fence for line in world.done(operator)) for _, operator in OPERATORS)

    until(all_scaled, f"scaling after {kind}")
    scaled = led + time.monotonic() - began
    # The deposed one is back while the other leads: from here on it must do nothing.
    if kind == "kill":
        world.masters[before.holder] = world.start_master(before.holder)
    elif kind == "stop":
        os.kill(process.pid, signal.SIGCONT)
    else:
        wire.mend()
    time.sleep(random.uniform(0.5, 2.5))
    return led, scaled


def check(world: World, tenures: int) -> None:
    """What must hold, whatever happened."""
    for pipeline, name in OPERATORS:
        lines = world.done(name)
        fences = [line["fence"] for line in lines]
        assert fences == sorted(fences), f"{name}: a deposed master has acted: {fences}"
        assert len(set(fences)) >= tenures, f"{name} was not scaled by every leader"
        assert not [line for line in lines if "release" in line], f"{name} was put back although it ran on"
        requests = [line["request"] for line in lines]
        assert all(line["is_new"] for line in lines), f"{name}: an action was carried out twice"
        assert len(set(requests)) == len(requests)
        decisions = [line["decision"] for line in lines if line["decision"] is not None]
        assert len(set(decisions)) == len(decisions), f"{name}: a decision was carried out twice"
        store = StoreFolder(world.store).open_readonly(pipeline)
        kept = {decision.decision_id for decision in store.decisions(name, changes_only=True, limit=100_000)}
        assert set(decisions) <= kept, f"{name}: something was done that no decision explains"
        began = json.loads(store.fact(SETTINGS) or "{}")["started_at"]
        first = store.observations(name, limit=1_000_000)[0]
        assert began <= first.at, f"{name}: a later leader began a new run instead of going on"
        store.close()


def run_faults(world: World, faults: list[str]) -> None:
    """One fault after the other, and what they came to."""
    until(lambda: all(world.done(operator) for _, operator in OPERATORS), "the first scaling")
    times = [(kind, *disturb(world, kind)) for kind in faults]
    check(world, len(faults))
    for kind in dict.fromkeys(faults):
        led = [led for one, led, _ in times if one == kind]
        scaled = [scaled for one, _, scaled in times if one == kind]
        print(f"{kind}: {len(led)} times; the other led after {max(led):.1f} s at most, all scaled {max(scaled):.1f} s")


@pytest.mark.kill
@pytest.mark.e2e
@pytest.mark.core
def test_the_other_master_goes_on_whatever_happens_to_the_leader(world: World) -> None:
    """Killed, stopped or cut off: another one leads, nothing is done twice, and nothing by the deposed one."""
    run_faults(world, ["kill", "stop", "cut"])


@pytest.mark.kill
@pytest.mark.e2e
@pytest.mark.long
def test_twenty_one_leaders_in_a_row(world: World) -> None:
    """The same, seven times each, in an order that is drawn."""
    faults = ["kill", "stop", "cut"] * 7
    random.Random(17).shuffle(faults)
    run_faults(world, faults)
