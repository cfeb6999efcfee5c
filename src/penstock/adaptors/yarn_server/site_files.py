# SPDX-License-Identifier: Apache-2.0
"""What a YARN on this machine is made of, and the files that its servers and clients read.

All addresses are loopback addresses inside a network namespace of the cluster's own: the ResourceManager has the first
one, and each node one of its own, so that all servers keep their usual ports and Spark sees as many hosts as nodes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

from penstock.adaptors.private_file import make_private_folder
from penstock.adaptors.spark.cluster_files import QUIET_LOGGING
from penstock.errors import ConfigurationError

MANAGER_HOST = "127.0.0.1"
MANAGER_PAGE_PORT = 8088
CLIENT_CONF = "conf/client"
"""In the cluster's folder: HADOOP_CONF_DIR of applications, and of the ResourceManager."""

_MOST_NODES = 100
_SMALLEST_NODE_MIB = 1024
_SMALLEST_CONTAINER_MIB = 128
_LABEL = re.compile(r"[0-9a-zA-Z][0-9a-zA-Z_-]{0,254}")


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue below the root: its part of the cluster, and the most that it may take, in percent.

    `user_limit_factor` is how many times the queue's own part one user may take.
    """

    name: str
    percent: float = 100.0
    most_percent: float = 100.0
    user_limit_factor: float = 100.0


@dataclass(frozen=True, slots=True)
class YarnPlan:
    """What to start.

    Attributes
    ----------
    nodes, cores_per_node, memory_mib_per_node
        The NodeManagers, and what each offers. It may be more than the machine has.
    queues
        Of the capacity scheduler; their percents have to come to 100.
    lost_after_seconds
        How long the ResourceManager waits for a silent node before it is lost. YARN's own default is 10 minutes.
    labels
        Of nodes, by their hosts. Every queue may take all nodes with a label.
    properties
        Further properties of yarn-site.xml.

    Raises
    ------
    ConfigurationError
        A value is out of range.
    """

    nodes: int = 2
    cores_per_node: int = 8
    memory_mib_per_node: int = 4096
    queues: tuple[Queue, ...] = (Queue("default"),)
    lost_after_seconds: float = 20.0
    labels: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        bounds = {
            "nodes": (self.nodes, 1, _MOST_NODES),
            "cores": (self.cores_per_node, 1, 10_000),
            "memory": (self.memory_mib_per_node, _SMALLEST_NODE_MIB, 1 << 24),
        }
        for name, (value, least, most) in bounds.items():
            if not least <= value <= most:
                raise ConfigurationError(
                    f"--{name}: {value} is out of range; give {least} to {most}", field=f"--{name}"
                )
        for node, label in self.labels.items():
            if node not in self.node_names:
                nodes = f"{self.node_names[0]} to {self.node_names[-1]}"
                raise ConfigurationError(f"--label: {node!r} is not a node; give one of {nodes}", field="--label")
            if not _LABEL.fullmatch(label):
                raise ConfigurationError(
                    f"--label: {label!r} is no label; begin with a letter or digit, and use letters, digits, - and _",
                    field="--label",
                )

    @property
    def node_names(self) -> tuple[str, ...]:
        """The nodes' hosts, as YARN and Spark name them."""
        return tuple(f"127.0.0.{number + 1}" for number in range(1, self.nodes + 1))

    def write(self, folder: Path) -> None:
        """Write the files of all servers into the cluster's folder, which nobody else may enter."""
        make_private_folder(folder)
        for name in ("logs", "tmp", "staging"):
            (folder / name).mkdir(exist_ok=True)
        self._write_conf(folder, folder / CLIENT_CONF, self._site(folder))
        for node in self.node_names:
            self._write_conf(folder, folder / conf_of(node), self._site(folder) | self._node_site(folder, node))

    def _write_conf(self, folder: Path, conf: Path, site: Mapping[str, str]) -> None:
        conf.mkdir(parents=True, exist_ok=True)
        core = {"fs.defaultFS": "file:///", "hadoop.tmp.dir": str(folder / "tmp")}
        (conf / "core-site.xml").write_text(_xml(core))
        (conf / "yarn-site.xml").write_text(_xml(site))
        (conf / "capacity-scheduler.xml").write_text(_xml(self._scheduler()))
        (conf / "log4j2.properties").write_text(QUIET_LOGGING)

    def _site(self, folder: Path) -> dict[str, str]:
        return {
            "yarn.resourcemanager.hostname": MANAGER_HOST,
            "yarn.resourcemanager.bind-host": MANAGER_HOST,
            "yarn.resourcemanager.webapp.address": f"{MANAGER_HOST}:{MANAGER_PAGE_PORT}",
            "yarn.scheduler.minimum-allocation-mb": str(_SMALLEST_CONTAINER_MIB),
            "yarn.scheduler.maximum-allocation-mb": str(self.memory_mib_per_node),
            "yarn.nm.liveness-monitor.expiry-interval-ms": str(round(self.lost_after_seconds * 1000)),
            "yarn.resourcemanager.nm.liveness-monitor.interval-ms": "1000",
            "yarn.nodemanager.resource.memory-mb": str(self.memory_mib_per_node),
            "yarn.nodemanager.resource.cpu-vcores": str(self.cores_per_node),
            # Memory is not the machine's own to give: it may offer more than it has.
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.pmem-check-enabled": "false",
            "yarn.nodemanager.disk-health-checker.enable": "false",
            "yarn.nodemanager.env-whitelist": "JAVA_HOME,SPARK_HOME,PYSPARK_PYTHON",
            "yarn.nodemanager.sleep-delay-before-sigkill.ms": "250",
            "yarn.dispatcher.exit-on-error": "true",
            "yarn.node-labels.enabled": "true" if self.labels else "false",
            # By default both are in a folder of /tmp that all clusters of a user share.
            "yarn.node-labels.fs-store.root-dir": f"file://{folder / 'labels'}",
            "yarn.node-attribute.fs-store.root-dir": f"file://{folder / 'attributes'}",
            **self.properties,
        }

    def _node_site(self, folder: Path, node: str) -> dict[str, str]:
        return {
            "yarn.nodemanager.hostname": node,
            "yarn.nodemanager.bind-host": node,
            "yarn.nodemanager.address": f"{node}:8041",  # by default a new port at each start
            "yarn.nodemanager.local-dirs": str(folder / "nodes" / node / "local"),
            "yarn.nodemanager.log-dirs": str(folder / "nodes" / node / "logs"),
        }

    def _scheduler(self) -> dict[str, str]:
        prefix = "yarn.scheduler.capacity"
        found = {
            f"{prefix}.root.queues": ",".join(queue.name for queue in self.queues),
            f"{prefix}.maximum-am-resource-percent": "1.0",
            f"{prefix}.resource-calculator": "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator",
            # Executors of one core would all go to one node while others are idle.
            f"{prefix}.per-node-heartbeat.multiple-assignments-enabled": "false",
            f"{prefix}.node-locality-delay": "10",
        }
        for queue in self.queues:
            path = f"{prefix}.root.{queue.name}"
            found |= {
                f"{path}.capacity": f"{queue.percent:g}",
                f"{path}.maximum-capacity": f"{queue.most_percent:g}",
                f"{path}.user-limit-factor": f"{queue.user_limit_factor:g}",
            }
        for label in set(self.labels.values()):
            found[f"{prefix}.root.accessible-node-labels.{label}.capacity"] = "100"
            for queue in self.queues:
                path = f"{prefix}.root.{queue.name}.accessible-node-labels.{label}"
                found |= {
                    f"{path}.capacity": f"{queue.percent:g}",
                    f"{path}.maximum-capacity": "100",
                }
        return found


def conf_of(node: str) -> str:
    """Return the conf folder of a node's own server, in the cluster's folder."""
    return f"conf/{node}"


def _xml(properties: Mapping[str, str]) -> str:
    lines = (
        f"  <property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n"
        for name, value in properties.items()
    )
    return f'<?xml version="1.0"?>\n<configuration>\n{"".join(lines)}</configuration>\n'
