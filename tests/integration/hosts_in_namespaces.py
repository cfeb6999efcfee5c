# SPDX-License-Identifier: Apache-2.0
"""Worker hosts on one machine: each in a network and a PID namespace of its own, with its agent and busy executors.

Masters and the query's driver are on a third node, which has the machine's processes. Nothing listens outside the
namespaces, and all of it ends with the test, also when that is killed: the processes by the warden, and what groups a
killed test has left, which are empty then, when the next world begins.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.adaptors.agent.channel import ControllerChannel
from penstock.adaptors.agent.handshake import challenge_to, check_answer
from penstock.adaptors.agent.wire import REPLY_LIMIT_BYTES, Accepted, Greeting, Introduction
from penstock.adaptors.cgroups import find_hierarchy
from penstock.adaptors.cgroups.counters import quota_of
from penstock.adaptors.cgroups.guard import FOLDER, Kernel
from penstock.adaptors.geo.network import GeoNetwork
from penstock.adaptors.process.children import Child, Warden
from penstock.knowledge.leases import SqliteLeases
from penstock.ports import Lease
from penstock.service.address_file import ADDRESS_FILE
from penstock.service.leadership import LEADER, shown
from penstock.service.master_stores import LEASES_FILE, TOKEN_FILE, StoreFolder

HOME, HOSTS = "home", ("one", "two")
AGENT_PORTS = (7071, 7072)
STRANGE_PORT = 7073
"""Where a master that is none may listen; agents know it as one of three."""
PENSTOCK = [sys.executable, "-m", "penstock"]
PATIENCE_SECONDS = 120.0
OPEN = float("inf")
_APPLICATION = "app-test-hosts"
# Busy for a fifth of the time: three of them are more than their caps, and leave the machine to others.
_BUSY = """
import time
while True:
    end = time.process_time() + 0.02
    while time.process_time() < end: pass
    time.sleep(0.08)
"""


def until(is_so: Callable[[], Any], what: str, seconds: float = PATIENCE_SECONDS) -> float:
    """Wait, and say how long it took."""
    began = time.monotonic()
    while not is_so():
        assert time.monotonic() - began < seconds, f"{what} did not come about"
        time.sleep(0.05)
    return time.monotonic() - began


def child_of(pid: int) -> int | None:
    """The only child of a process."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:
        return None
    return int(children[0]) if children else None


class WorkerHost:
    """One host: its first process, its agent and its executors."""

    def __init__(self, world: HostWorld, name: str) -> None:
        self.world, self.name = world, name
        command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sleep", "infinity"]
        started = world.start(f"host {name}", world.network.command(name, command))
        until(lambda: child_of(started.pid), f"the first process of {name}")
        first = child_of(started.pid)
        assert first is not None
        self.first = first
        until(lambda: (Path(f"/proc/{first}/comm").read_text()) == "sleep\n", f"the processes of {name}")
        self.pid_namespace = Path(f"/proc/{first}/ns/pid").stat().st_ino
        self.agent: Child | None = None
        self.executors: dict[str, Child] = {}

    def command(self, argv: list[str]) -> list[str]:
        """The command that runs `argv` on this host, as a child of another process."""
        return ["nsenter", f"--target={self.first}", "--net", "--pid", "--mount", "--", *argv]

    def start_agent(self, *options: str) -> Child:
        """Start `penstock agent` here."""
        name, world = f"host {self.name}", self.world
        words = ["agent", "--master", world.masters, "--name", name, "--without-tls"]
        argv = [*PENSTOCK, *words, "--token-file", str(world.store / TOKEN_FILE), *options]
        self.agent = world.start(f"agent {self.name}", self.command(argv))
        return self.agent

    @property
    def agent_pid(self) -> int:
        """The agent's pid, as this machine counts."""
        assert self.agent is not None
        found = child_of(self.agent.pid)
        assert found is not None
        return found

    @property
    def guard_pid(self) -> int:
        """The only guard's pid."""
        threads = Path(f"/proc/{self.agent_pid}/task").glob("*/children")
        (guard,) = [int(pid) for file in threads for pid in file.read_text().split()]
        return guard

    def kill_agent(self) -> None:
        """End the agent with signal 9."""
        assert self.agent is not None
        os.kill(self.agent_pid, signal.SIGKILL)
        self.agent.wait(30.0)

    def start_executor(self, executor_id: str) -> None:
        """Start a busy process with an executor's command line, and let the driver see it."""
        name = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
        words = [name, "--executor-id", executor_id, "--app-id", self.world.application]
        self.executors[executor_id] = self.world.start(
            f"executor {executor_id}", self.command([sys.executable, "-c", _BUSY, *words])
        )
        self.world.tell_driver()

    def end_executor(self, executor_id: str) -> None:
        """End one."""
        self.world.warden.stop(self.executors.pop(executor_id))
        self.world.tell_driver()

    @property
    def groups(self) -> list[Path]:
        """The groups that were made here for the application."""
        label = re.sub(r"[^A-Za-z0-9_]", "_", self.world.application)
        return self.world.groups(f"host-{label}-*-{self.pid_namespace}")

    @property
    def cap(self) -> float | None:
        """The cap on the application's executors here, in cores, as the kernel has it; None: there is no group."""
        with contextlib.suppress(OSError):
            for group in self.groups:
                found = quota_of(str(group), self.world.hierarchy.version, Kernel())
                return OPEN if found is None else round(found, 3)
        return None


class HostWorld:
    """Two hosts, two masters and a query whose executors should have a tenth of a core each. Use as a context manager.

    Parameters
    ----------
    folder
        For the masters' store and all logs.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.store = folder, folder / "masters"
        self.hierarchy = find_hierarchy()
        self.hosts: dict[str, WorkerHost] = {}
        self._remove_leftovers()
        self.application = f"{_APPLICATION}-{os.getpid()}-{time.monotonic_ns()}"
        self.warden = Warden(grace_seconds=10.0)
        self.network = GeoNetwork(self.warden, folder / "network", (HOME, *HOSTS))
        self.leases: SqliteLeases | None = None
        self.running: dict[int, Child] = {}
        self._driver: Child | None = None
        self._executors = folder / "executors"

    def __enter__(self) -> HostWorld:
        try:
            self.network.start()
            StoreFolder(self.store).token()
            self.leases = SqliteLeases(self.store / LEASES_FILE)
            self.hosts = {name: WorkerHost(self, name) for name in HOSTS}
            self.tell_driver()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for host in self.hosts.values():
            if host.agent is not None:
                self.warden.stop(host.agent, grace_seconds=60.0)  # in order, so that it puts everything back
            with contextlib.suppress(ProcessLookupError):
                os.kill(host.first, signal.SIGKILL)  # the first process of a namespace takes no other signal
        self.warden.close()
        if self.leases is not None:
            self.leases.close()
        self._remove_leftovers()

    # --- who runs --------------------------------------------------------------------------------------------

    def start(self, name: str, argv: Sequence[str], more: Mapping[str, str] | None = None) -> Child:
        """Start a process that ends with the test, with these variables besides."""
        path = os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(Path(__file__).parents[2])])
        environment = {**os.environ, **(more or {}), "PYTHONPATH": path}
        return self.warden.start(name, argv, log=self.folder / f"{name.replace(' ', '-')}.log", env=environment)

    @property
    def masters(self) -> str:
        """Where agents look for masters."""
        return ",".join(f"{self.network.address(HOME)}:{port}" for port in (*AGENT_PORTS, STRANGE_PORT))

    def start_master(self, port: int) -> None:
        """Start a master that takes agents at this port."""
        words = ["serve", "--store", f"sqlite:{self.store}", "--host", self.network.address(HOME), "--without-tls"]
        more = ["--agent-port", str(port), "--port", str(port + 100), "--watch-every", "1"]
        watched = ["--watch", "host_busy", "--watch", "groups_cpu_used", "--watch", "groups_throttled"]
        argv = self.network.command(HOME, [*PENSTOCK, *words, *more, *watched])
        self.running[port] = self.start(f"master {port}", argv)

    def kill_master(self, port: int) -> None:
        """End a master with signal 9."""
        master = self.running.pop(port)
        os.kill(master.pid, signal.SIGKILL)
        master.wait(30.0)

    def start_driver(self) -> None:
        """Start the query."""
        argv = [sys.executable, "-m", "tests.shared_query", "shared", self.application, str(self._executors)]
        argv += [self.masters, str(self.store / TOKEN_FILE)]
        self._driver = self.start("driver", self.network.command(HOME, argv))

    def kill_driver(self) -> None:
        """End the query's driver with signal 9; its executors go on."""
        assert self._driver is not None
        os.kill(self._driver.pid, signal.SIGKILL)
        self._driver.wait(30.0)

    def tell_driver(self) -> None:
        """Have the driver see the executors that there are."""
        lines = [f"{one} {host.name}\n" for host in self.hosts.values() for one in host.executors]
        written = self._executors.with_suffix(".new")
        written.write_text("".join(lines), encoding="utf-8")
        written.replace(self._executors)

    # --- what is seen ----------------------------------------------------------------------------------------

    @property
    def caps(self) -> dict[str, float | None]:
        """The caps that the kernel has, by host."""
        return {name: host.cap for name, host in self.hosts.items()}

    def leader(self) -> Lease | None:
        """Who leads."""
        assert self.leases is not None
        return shown(self.leases.lease(LEADER))

    @property
    def leading_port(self) -> int | None:
        """The port of who leads."""
        lease = self.leader()
        return None if lease is None else int(lease.holder.rpartition(":")[2])

    def ask(self, path: str) -> Any:
        """What the leader's API answers; None while there is none."""
        try:
            known = json.loads((self.store / ADDRESS_FILE).read_text(encoding="utf-8"))
            asked = urllib.request.Request(
                f"{known['address']}/api/v1/{path}", headers={"Authorization": f"Bearer {known['read_token']}"}
            )
            with self.network.entered(HOME), urllib.request.urlopen(asked, timeout=10) as answer:
                return json.load(answer)
        except (OSError, ValueError):
            return None

    def agents(self) -> dict[str, Any]:
        """The agents that the leader has, by name."""
        answer = self.ask("agents")
        return {} if answer is None else {agent["name"]: agent for agent in answer["agents"]}

    def query(self) -> dict[str, Any]:
        """The query as the leader sees it; empty while it does not."""
        answer = self.ask("pipelines/shared")
        return {} if answer is None else answer["operators"][0]

    def observed(self) -> dict[str, float | None]:
        """Its metrics."""
        return {one["name"]: one["value"] for one in self.query().get("metrics", [])}

    def groups(self, name: str) -> list[Path]:
        """Groups that there are where quotas are set, by name."""
        return sorted(Path(self.hierarchy.mounts[0].point).rglob(f"{FOLDER}/{name}"))

    def pretend_to_lead(self, host: WorkerHost, accept_with: int) -> ControllerChannel:
        """Be a master that knows the token, and accept the agent of a host with this fencing number."""
        token = StoreFolder(self.store).token()
        with self.network.entered(HOME):
            listening = socket.create_server((self.network.address(HOME), STRANGE_PORT))
        with listening:
            listening.settimeout(PATIENCE_SECONDS)
            while True:
                connection, _ = listening.accept()
                connection.settimeout(30.0)
                channel = ControllerChannel(connection, REPLY_LIMIT_BYTES)
                greeting = channel.receive()
                assert isinstance(greeting, Greeting)
                challenge = challenge_to(greeting, token)
                channel.send(challenge)
                introduction = channel.receive()
                assert isinstance(introduction, Introduction)
                check_answer(introduction, greeting, challenge, token)
                if introduction.name == f"host {host.name}":
                    channel.send(Accepted(accept_with, time.time()))
                    return channel
                channel.close()

    def _remove_leftovers(self) -> None:
        """Remove groups that hold no process: those of tests that were killed, and those of hosts that have ended."""
        label = _APPLICATION.replace("-", "_")
        names = [f"host-{label}_*", *(f"host-*-{host.pid_namespace}" for host in self.hosts.values())]
        for folder in (Path(mount.point) for mount in self.hierarchy.mounts):
            for group in [group for name in names for group in folder.rglob(f"{FOLDER}/{name}")]:
                with contextlib.suppress(OSError):
                    group.rmdir()
                    group.parent.rmdir()
