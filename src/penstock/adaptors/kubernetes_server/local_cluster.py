# SPDX-License-Identifier: Apache-2.0
"""A real Kubernetes of one node on this machine: started, asked, stopped, and gone without a trace.

It runs in namespaces of its own. So nothing outside reaches it, not even programs of this machine: they have to be
started inside its network (`LocalCluster.command`, `penstock kubernetes run`).
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import ssl
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from penstock.adaptors.geo.namespaces import command_inside, entered
from penstock.adaptors.kubernetes_server import keeper as keeper_program
from penstock.adaptors.kubernetes_server.distribution import fetch_kubernetes, kubernetes_version, why_not_here
from penstock.adaptors.kubernetes_server.keeper import (
    GROUP_PREFIX,
    HOLD_FOLDER,
    LOG_FOLDER,
    READY_FILE,
    own_groups,
    remove_groups,
)
from penstock.adaptors.kubernetes_server.node_plan import ADDRESS, IMPORTED, KUBECONFIG, NODE, PORT, SERVERS, NodePlan
from penstock.adaptors.process.detached import DetachedProcess
from penstock.adaptors.process.identity import ProcessIdentity, place
from penstock.adaptors.process.marked_folder import make_marked_folder, starting_alone, wait_until_gone
from penstock.adaptors.process.warden import MARK
from penstock.errors import ClusterError, ConfigurationError

_NAME = "Kubernetes"
_MARK_FILE = "penstock-kubernetes"
"""In a folder of a cluster: it may be removed."""
_START_SECONDS = 300.0
_STOP_SECONDS = 60.0
_ASK_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """The state of a cluster. If it runs and its node is not ready, `fault` says why."""

    folder: Path
    pid: int | None
    version: str
    kubeconfig: Path | None = None
    fault: str | None = None

    @property
    def is_running(self) -> bool:
        """Whether its process exists."""
        return self.pid is not None

    @property
    def is_ready(self) -> bool:
        """Whether its API answers and its node takes pods."""
        return self.is_running and self.fault is None


class LocalCluster:
    """The cluster of one folder. As a context manager it belongs to this process, and ends with it, however that ends.

    The folder is made at the start and removed at the end.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self._identity = self.folder / "keeper.json"
        self.log = self.folder / "keeper.log"
        self._started: DetachedProcess | None = None
        """The keeper, where this object has started it: who starts a process has to ask how it ended."""

    @property
    def kubeconfig(self) -> Path:
        """Who may do everything, for programs inside the cluster's network."""
        return self.folder / KUBECONFIG

    @property
    def namespace(self) -> str:
        """The path under which the node's network namespace can be opened."""
        return f"/proc/{self._node_pid()}/ns/net"

    def start(self, *, is_owned: bool = False, tell: Callable[[str], None] | None = None) -> ClusterStatus:
        """Start the cluster if it is not running, and wait until its node is ready.

        Parameters
        ----------
        is_owned
            Whether it ends with this process. Otherwise it runs until `stop`.
        tell
            Gets what takes long, such as the first build.

        Raises
        ------
        ConfigurationError
            Something is missing on this machine, or the folder holds something else; nothing was started.
        ClusterError
            The build failed, or the cluster did not come up; then it does not run.
        """
        with starting_alone(self.folder):
            if self._process() is None:
                self._bring_up(is_owned, tell)
        return self.status()

    def _bring_up(self, is_owned: bool, tell: Callable[[str], None] | None) -> None:
        reason = why_not_here()
        if reason is not None:
            raise ConfigurationError(f"kubernetes: {reason}", field="kubernetes")
        distribution = fetch_kubernetes(tell)
        self._make_folder()
        try:  # Ctrl-C ends it, too: do not leave anything behind of a cluster that did not come up
            NodePlan(self.folder, place(), distribution, os.getpid() if is_owned else None).write()
            self._started = self._start_keeper()
            self._wait_until_ready(self._started)
        except BaseException:
            if self.stop() is None:
                shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def stop(self) -> int | None:
        """End the cluster and remove everything of it. Return its keeper's pid, or None if it was not running."""
        process = self._started or self._process()
        self._started = None
        if process is None or process.poll() is not None:
            return None
        os.kill(process.pid, signal.SIGTERM)
        process.wait(_STOP_SECONDS)
        self.wait_until_gone()
        return process.pid

    def wait_until_gone(self, within_seconds: float = _STOP_SECONDS) -> None:
        """Wait until nothing is left of a cluster whose keeper has ended."""
        wait_until_gone(self.folder, within_seconds, _NAME)

    def status(self) -> ClusterStatus:
        """The cluster's present state."""
        process = self._process()
        if process is None:
            return ClusterStatus(self.folder, None, kubernetes_version())
        fault = self._why_not_ready()
        return ClusterStatus(self.folder, process.pid, kubernetes_version(), self.kubeconfig, fault)

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return the command that runs `argv` inside the cluster's network."""
        return command_inside(self.namespace, argv)

    def entered(self) -> AbstractContextManager[None]:
        """Have this thread inside the cluster's network, and the threads and processes that it starts meanwhile."""
        return entered(self.namespace)

    def server_log(self, server: str) -> Path:
        """Return where a server writes its log; `SERVERS` are their names."""
        return self.folder / LOG_FOLDER / f"{server}.log"

    def hold(self, server: str) -> None:
        """End a server, and keep it from being started again until `let_go`."""
        (self.folder / HOLD_FOLDER / server).touch()
        for pid in self._pids_of(server):
            os.kill(pid, signal.SIGKILL)

    def let_go(self, server: str) -> None:
        """Have a server started again."""
        (self.folder / HOLD_FOLDER / server).unlink(missing_ok=True)

    def __enter__(self) -> Self:
        self.start(is_owned=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start_keeper(self) -> DetachedProcess:
        argv = [sys.executable, "-I", "-S", str(Path(keeper_program.__file__)), str(self.folder)]
        # A warden's mark would let that warden end it.
        env = {name: value for name, value in os.environ.items() if name != MARK}
        return DetachedProcess.start(_NAME, argv, log=self.log, env=env, cwd=Path("/"), identity=self._identity)

    def _make_folder(self) -> None:
        sweep_groups()
        make_marked_folder(self.folder, _MARK_FILE)

    def _process(self) -> DetachedProcess | None:
        return DetachedProcess.adopt(_NAME, log=self.log, identity=self._identity)

    def _node_pid(self) -> int:
        try:
            answer = json.loads((self.folder / READY_FILE).read_text())
        except FileNotFoundError as fault:
            raise ClusterError(
                f"no cluster of {self.folder} is running; start it with: penstock kubernetes start", target=_NAME
            ) from fault
        if "fault" in answer:
            raise ClusterError(f"the node could not be made: {answer['fault']}", target=_NAME)
        return int(answer["pid"])

    def _pids_of(self, server: str) -> list[int]:
        """The processes of a server, found in the node's own namespace by their command line."""
        inside = Path(self.namespace).stat().st_ino
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                is_inside = (entry / "ns" / "net").stat().st_ino == inside
            except OSError:
                continue
            if is_inside and server.encode() in words[:2]:
                found.append(int(entry.name))
        return found

    def _wait_until_ready(self, process: DetachedProcess) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            process.raise_if_ended()
            fault = self._why_not_ready()
            if fault is None:
                return
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"the cluster is not ready after {_START_SECONDS:g} s: {fault}\n{self._last_words()}", target=_NAME
                )
            time.sleep(0.2)

    def _last_words(self) -> str:
        """The end of each server's log: they are gone with the folder."""
        words = []
        for server in SERVERS:
            log = self.server_log(server)
            if log.exists():
                words.append(f"{server}: " + " / ".join(log.read_text(errors="replace").splitlines()[-3:]))
        return "\n".join(words)

    def _why_not_ready(self) -> str | None:
        if not (self.folder / READY_FILE).exists():
            return "its namespaces are not made yet"
        try:
            node = self.ask(f"/api/v1/nodes/{NODE}")
            self.ask("/api/v1/namespaces/default/serviceaccounts/default")
        except (OSError, http.client.HTTPException, ValueError) as fault:
            return f"its API does not answer: {fault}"
        conditions = {found["type"]: found for found in node["status"].get("conditions", ())}
        ready = conditions.get("Ready", {})
        if ready.get("status") != "True":
            return f"its node is not ready: {ready.get('message', 'it has not said why')}"
        if node["spec"].get("taints"):
            return "its node does not take pods yet"
        return None if (self.folder / IMPORTED).exists() else "its images are not there yet"

    def ask(self, path: str) -> Any:
        """Return the API's answer to a GET, as the administrator. Raises OSError where it is no success."""
        keys = self.folder / "keys"
        context = ssl.create_default_context(cafile=str(keys / "ca.crt"))
        context.load_cert_chain(keys / "admin.crt", keys / "admin.key")
        with self.entered():
            connection = http.client.HTTPSConnection(ADDRESS, PORT, timeout=_ASK_SECONDS, context=context)
            try:
                connection.request("GET", path)
                reply = connection.getresponse()
                text = reply.read()
            finally:
                connection.close()
        if reply.status != http.client.OK:
            raise OSError(f"{path}: {reply.status} {reply.reason}")
        return json.loads(text)


def sweep_groups() -> list[Path]:
    """Remove the control groups of clusters whose keeper and cleaner were both killed. Return them."""
    left = []
    for groups in own_groups("").values():
        for group in groups.glob(f"{GROUP_PREFIX}*"):
            keeper = ProcessIdentity.parse(group.name.removeprefix(GROUP_PREFIX).replace("_", ":"))
            if keeper is not None and keeper.is_of_here and keeper.has_ended:
                left.append(group)
    remove_groups(left)
    return left
