# SPDX-License-Identifier: Apache-2.0
"""The YARN of `penstock yarn`: started, asked, stopped, and gone without a trace."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.adaptors.geo.namespaces import command_inside, entered
from penstock.adaptors.process.detached import DetachedProcess
from penstock.adaptors.process.marked_folder import make_marked_folder, starting_alone, wait_until_gone
from penstock.adaptors.process.warden import MARK
from penstock.adaptors.spark.installation import SparkInstallation
from penstock.adaptors.yarn.resource_manager import ResourceManager
from penstock.adaptors.yarn_server.distribution import fetch_hadoop, why_not_here
from penstock.adaptors.yarn_server.keeper import CLUSTER_FOLDER, READY_FILE, write_plan
from penstock.adaptors.yarn_server.site_files import CLIENT_CONF, YarnPlan
from penstock.adaptors.yarn_server.yarn_cluster import manager_page, node_states, spark_environment, spark_settings
from penstock.errors import ClusterError, ConfigurationError, MetricSourceError

_NAME = "YARN"
_MARK_FILE = "penstock-yarn"
"""In a folder of a cluster: it may be removed."""
_START_SECONDS = 240.0
_STOP_SECONDS = 60.0
_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class YarnStatus:
    """The state of a cluster. If it runs and does not answer, `nodes` is None and `fault` says why."""

    folder: Path
    pid: int | None
    version: str | None = None
    nodes: Mapping[str, str] | None = None
    """The state of each node, by host."""
    fault: str | None = None

    @property
    def is_running(self) -> bool:
        """Whether its process exists."""
        return self.pid is not None

    @property
    def is_ready(self) -> bool:
        """Whether it answers, and at least one node runs."""
        return self.nodes is not None and "RUNNING" in self.nodes.values()


class LocalYarn:
    """The cluster of one folder, which is made at the start and removed at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self._identity = self.folder / "keeper.json"
        self._log = self.folder / "keeper.log"
        self._started: DetachedProcess | None = None

    def start(self, plan: YarnPlan, *, tell: Callable[[str], None] | None = None) -> YarnStatus:
        """Start the cluster if it is not running, and wait until its nodes are registered.

        Raises
        ------
        ConfigurationError
            Something is missing on this machine, or the folder holds something else; nothing was started.
        ClusterError
            The jars cannot be fetched, or the cluster did not come up; then it does not run.
        """
        with starting_alone(self.folder):
            if self._process() is None:
                self._bring_up(plan, tell)
        return self.status()

    def _bring_up(self, plan: YarnPlan, tell: Callable[[str], None] | None) -> None:
        reason = why_not_here()
        if reason is not None:
            raise ConfigurationError(f"yarn: {reason}", field="yarn")
        fetch_hadoop(SparkInstallation.find(), tell)
        make_marked_folder(self.folder, _MARK_FILE)
        write_plan(self.folder, plan)
        argv = [sys.executable, "-m", "penstock.adaptors.yarn_server.keeper", str(self.folder)]
        # A warden's mark would let that warden end it.
        env = {name: value for name, value in os.environ.items() if name != MARK}
        process = DetachedProcess.start(_NAME, argv, log=self._log, env=env, cwd=Path("/"), identity=self._identity)
        self._started = process
        try:
            self._wait_until_ready(process)
        except BaseException:  # Ctrl-C too: do not leave a cluster behind that did not come up
            self.stop()
            raise

    def stop(self) -> int | None:
        """End the cluster and remove everything of it. Return its keeper's pid, or None if it was not running."""
        process = self._process()
        if process is None:
            return None
        os.kill(process.pid, signal.SIGTERM)
        process.wait(_STOP_SECONDS)
        wait_until_gone(self.folder, _STOP_SECONDS, _NAME)
        return process.pid

    def status(self) -> YarnStatus:
        """The cluster's present state."""
        process = self._process()
        if process is None:
            return YarnStatus(self.folder, None)
        try:
            version = str(self._ready()["version"])
            with entered(self.namespace):
                answer = ResourceManager([manager_page()]).get("/nodes")
        except (ClusterError, MetricSourceError, OSError) as fault:
            return YarnStatus(self.folder, process.pid, fault=str(fault))
        return YarnStatus(self.folder, process.pid, version, node_states(answer))

    @property
    def namespace(self) -> str:
        """The path under which the cluster's network namespace can be opened."""
        return f"/proc/{self._ready()['network']}/ns/net"

    @property
    def conf(self) -> Path:
        """HADOOP_CONF_DIR of applications."""
        return self.folder / CLUSTER_FOLDER / CLIENT_CONF

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return the command that runs `argv` inside the cluster's network."""
        return command_inside(self.namespace, argv)

    def environment(self) -> dict[str, str]:
        """Return the variables of a program that is to run applications on the cluster."""
        return spark_environment(self.conf, SparkInstallation.find())

    def spark_settings(self) -> dict[str, str]:
        """Return the configuration of an application on the cluster."""
        return spark_settings(self.folder / CLUSTER_FOLDER, SparkInstallation.find())

    def _process(self) -> DetachedProcess | None:
        if self._started is not None and self._started.poll() is None:
            return self._started  # a child of ours, of which the kernel keeps an entry until it is asked how it ended
        return DetachedProcess.adopt(_NAME, log=self._log, identity=self._identity)

    def _ready(self) -> dict[str, int | str]:
        try:
            found: dict[str, int | str] = json.loads((self.folder / READY_FILE).read_text())
        except FileNotFoundError as fault:
            raise ClusterError("YARN is not running, or not up yet; see: penstock yarn status", target=_NAME) from fault
        return found

    def _wait_until_ready(self, process: DetachedProcess) -> None:
        deadline = time.monotonic() + _START_SECONDS
        said = ""
        while not (self.folder / READY_FILE).exists():
            said = process.tail() or said  # the log is gone with the folder
            if process.poll() is not None:
                raise ClusterError(f"YARN did not come up:\n{said}", target=_NAME)
            if time.monotonic() > deadline:
                raise ClusterError(f"YARN is not up after {_START_SECONDS:g} s:\n{said}", target=_NAME)
            time.sleep(_POLL_SECONDS)
