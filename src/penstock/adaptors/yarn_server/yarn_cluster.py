# SPDX-License-Identifier: Apache-2.0
"""A real YARN on this machine that ends with the process that owns it: a ResourceManager and some NodeManagers.

It runs in a network namespace of its own. So nothing outside reaches it, not even programs of this machine: they have
to be started inside (`YarnCluster.command`, `YarnCluster.entered`).
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from penstock.adaptors.geo.namespaces import command_inside, entered
from penstock.adaptors.process.children import Child, Warden
from penstock.adaptors.spark.installation import SparkInstallation, without_spark_variables
from penstock.adaptors.yarn.resource_manager import ResourceManager
from penstock.adaptors.yarn_server import network as network_program
from penstock.adaptors.yarn_server.distribution import fetch_hadoop, why_not_here
from penstock.adaptors.yarn_server.manager_orders import label_nodes
from penstock.adaptors.yarn_server.site_files import (
    CLIENT_CONF,
    MANAGER_HOST,
    MANAGER_PAGE_PORT,
    YarnPlan,
    conf_of,
)
from penstock.errors import ClusterError, ConfigurationError, MetricSourceError

MANAGER_CLASS = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"
NODE_CLASS = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"
LOGS_FOLDER = "logs"
_DAEMON_MEMORY = "256m"
_POLL_SECONDS = 0.2


class YarnCluster:
    """A ResourceManager and NodeManagers. `start` returns when all nodes are registered.

    Use as a context manager, or call `start` and `stop`. Every process is a child of the warden, and with them their
    containers.

    Parameters
    ----------
    warden
        Keeps the processes.
    folder
        Gets everything that the cluster writes.
    plan
        What to start.
    tell
        Receives messages about what is fetched at the first start on a machine.
    stop
        Set it to end the wait for the cluster; what was started is ended.

    Raises
    ------
    ConfigurationError
        From the constructor: something is missing on this machine. Nothing was started.
    ClusterError
        From `start`: a process did not come up; the message ends with its log. What was started is ended.
    """

    def __init__(
        self,
        warden: Warden,
        folder: Path,
        plan: YarnPlan | None = None,
        *,
        timeout_seconds: float = 180.0,
        tell: Callable[[str], None] | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        reason = why_not_here()
        if reason is not None:
            raise ConfigurationError(f"yarn: {reason}", field="yarn")
        self._installation = SparkInstallation.find()
        self._hadoop = fetch_hadoop(self._installation, tell, stop=stop)
        self._warden = warden
        self.folder = folder.absolute()
        self.plan = plan or YarnPlan()
        self._timeout_seconds = timeout_seconds
        self._stop_asked = stop or threading.Event()
        self._network: Child | None = None
        self._manager: Child | None = None
        self._nodes: dict[str, Child] = {}

    # --- what it is --------------------------------------------------------------------------------------------

    @property
    def version(self) -> str:
        """Hadoop's version."""
        return self._hadoop.version

    @property
    def network_pid(self) -> int:
        """The process that holds the network namespace."""
        if self._network is None:
            raise ClusterError("the YARN cluster is not running; call start() first", target="yarn")
        return self._network.pid

    @property
    def namespace(self) -> str:
        """The path under which the cluster's network namespace can be opened."""
        return f"/proc/{self.network_pid}/ns/net"

    @property
    def conf(self) -> Path:
        """HADOOP_CONF_DIR of applications."""
        return self.folder / CLIENT_CONF

    @property
    def manager_pid(self) -> int:
        """The ResourceManager's process."""
        if self._manager is None:
            raise ClusterError("the YARN cluster is not running; call start() first", target="yarn")
        return self._manager.pid

    def node_pid(self, node: str) -> int:
        """The process of a node's NodeManager."""
        return self._nodes[node].pid

    def spark_environment(self) -> dict[str, str]:
        """Return variables to add to the environment of a driver that is started inside the network."""
        return spark_environment(self.conf, self._installation)

    def spark_settings(self) -> dict[str, str]:
        """Return the configuration of an application in client mode: where Spark's jars are, and where it listens."""
        return spark_settings(self.folder, self._installation)

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return the command that runs `argv` inside the cluster's network."""
        return command_inside(self.namespace, argv)

    def entered(self) -> AbstractContextManager[None]:
        """Have this thread inside the cluster's network, and the threads and processes that it starts meanwhile."""
        return entered(self.namespace)

    def ask(self, path: str) -> dict[str, Any]:
        """Return the ResourceManager's answer to a path below ``/ws/v1/cluster``; raises MetricSourceError."""
        with self.entered():
            return ResourceManager([manager_page()]).get(path)

    def node_states(self) -> dict[str, str]:
        """Return the state of each node that the ResourceManager knows, by host."""
        return node_states(self.ask("/nodes"))

    # --- its life ----------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start all servers, and wait until all nodes are registered."""
        self.plan.write(self.folder)
        deadline = time.monotonic() + self._timeout_seconds
        try:
            self._network = self._warden.start(
                "network",
                [sys.executable, "-I", "-S", str(Path(network_program.__file__))],
                log=self._log("network"),
                cwd=self.folder,
            )
            self._wait(self._has_network, "its network", deadline)
            self._manager = self._start_server("resourcemanager", MANAGER_CLASS, self.conf)
            if self.plan.labels:
                self._wait(self._manager_answers, "its ResourceManager", deadline)
                with self.entered():
                    label_nodes(manager_page(), self.plan.labels)
            for node in self.plan.node_names:
                self._start_node(node)
            self._wait(self._all_nodes_run, "its nodes", deadline)
        except BaseException:
            self.stop()
            raise
        return self

    def start_node(self, node: str) -> None:
        """Start the NodeManager of a node again, and wait until it is registered."""
        self._start_node(node)
        is_there: Callable[[], bool] = lambda: self.node_states().get(node) == "RUNNING"  # noqa: E731
        self._wait(is_there, node, time.monotonic() + self._timeout_seconds)

    def check(self) -> None:
        """Raise ClusterError, with the process and the end of its log, if any part of the cluster has ended."""
        self._warden.check()
        for child in self._servers():
            child.raise_if_ended()

    def check_manager(self) -> None:
        """Raise ClusterError if the ResourceManager has ended. Nodes may come and go."""
        self._warden.check()
        if self._manager is not None:
            self._manager.raise_if_ended()

    def stop(self) -> None:
        """End all servers and their containers. The folder stays. May be called twice."""
        for child in reversed(self._servers()):
            self._warden.stop(child)
        self._network, self._manager, self._nodes = None, None, {}

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- how ---------------------------------------------------------------------------------------------------

    def _servers(self) -> list[Child]:
        return [child for child in (self._network, self._manager, *self._nodes.values()) if child is not None]

    def _log(self, name: str) -> Path:
        return self.folder / LOGS_FOLDER / f"{name}.log"

    def _start_node(self, node: str) -> None:
        self._nodes[node] = self._start_server(f"nodemanager-{node}", NODE_CLASS, self.folder / conf_of(node))

    def _start_server(self, name: str, main_class: str, conf: Path) -> Child:
        argv = self._installation.daemon_command(
            main_class,
            [],
            conf=conf,
            temporary=self.folder / "tmp",
            memory=_DAEMON_MEMORY,
            properties={"java.net.preferIPv4Stack": "true"},
            more_jars=self._hadoop.jars,
        )
        env = {**without_spark_variables(), **self._installation.environment()}
        return self._warden.start(name, self.command(argv), log=self._log(name), env=env, cwd=self.folder)

    def _has_network(self) -> bool:
        return network_program.READY in self._log("network").read_text(errors="replace")

    def _manager_answers(self) -> bool:
        try:
            return str(self.ask("/info")["clusterInfo"]["state"]) == "STARTED"
        except MetricSourceError:  # not yet; the wait itself notices a dead server
            return False

    def _all_nodes_run(self) -> bool:
        try:
            states = self.node_states()
        except MetricSourceError:  # not answering yet; the wait itself notices a dead server
            return False
        return [states.get(node) for node in self.plan.node_names] == ["RUNNING"] * self.plan.nodes

    def _wait(self, is_there: Callable[[], bool], what: str, deadline: float) -> None:
        while not is_there():
            self.check()
            if self._stop_asked.is_set():
                raise ClusterError("stopped while YARN was starting", target="yarn")
            if time.monotonic() > deadline:
                tails = "\n".join(f"--- {child.log}\n{child.tail()}" for child in self._servers())
                raise ClusterError(
                    f"YARN is not up after {self._timeout_seconds:g} s: waited for {what}; the logs end with\n{tails}",
                    target="yarn",
                )
            self._stop_asked.wait(_POLL_SECONDS)


def node_states(answer: Mapping[str, Any]) -> dict[str, str]:
    """Return the state of each node in the ResourceManager's answer to ``/nodes``, by host."""
    nodes = (answer.get("nodes") or {}).get("node") or ()
    return {str(node["nodeHostName"]): str(node["state"]) for node in nodes}


def manager_page() -> str:
    """Return the ResourceManager's web address, for programs inside the network."""
    return f"http://{MANAGER_HOST}:{MANAGER_PAGE_PORT}"


def spark_environment(conf: Path, installation: SparkInstallation) -> dict[str, str]:
    """Return the variables by which a driver finds the cluster whose files for clients are in `conf`."""
    return {
        **installation.environment(),
        "HADOOP_CONF_DIR": str(conf),
        "YARN_CONF_DIR": str(conf),
        "SPARK_LOCAL_IP": MANAGER_HOST,
    }


def spark_settings(folder: Path, installation: SparkInstallation) -> dict[str, str]:
    """Return the configuration of an application on the cluster of a folder, in client mode.

    Containers use this machine's Spark and Python, so that nothing is uploaded.
    """
    return {
        "spark.master": "yarn",
        "spark.submit.deployMode": "client",
        "spark.yarn.jars": f"local:{installation.home / 'jars'}/*",
        "spark.yarn.stagingDir": f"file://{folder / 'staging'}",
        "spark.pyspark.python": sys.executable,
        "spark.driver.host": MANAGER_HOST,
        "spark.driver.bindAddress": MANAGER_HOST,
    }
