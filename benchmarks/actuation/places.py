# SPDX-License-Identifier: Apache-2.0
"""The clusters that actuation is measured on: each is started here, and gone afterwards."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from penstock.adaptors.process.children import Warden
from penstock.errors import ConfigurationError

COMMON = {
    "spark.executor.instances": "1",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.driver.memory": "600m",
    "spark.dynamicAllocation.enabled": "false",
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
    "spark.storage.decommission.rddBlocks.enabled": "true",
    "spark.storage.decommission.replicationReattemptInterval": "2s",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
    "spark.ui.port": "0",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
"""Of the application, on all clusters: executors of one core, of which there may be two."""

Settings = dict[str, str]


@contextmanager
def standalone(folder: Path) -> Iterator[Settings]:
    """Penstock's own standalone cluster: a master and one worker on this machine."""
    from penstock.adaptors.spark.cluster import EmbeddedCluster

    with (
        Warden() as warden,
        EmbeddedCluster(warden, folder / "cluster", cores_per_worker=4) as cluster,
        _environment(cluster.spark_environment()),
    ):
        yield {"spark.master": cluster.master_url, "spark.driver.host": "127.0.0.1", "spark.cores.max": "2"}


@contextmanager
def yarn(folder: Path) -> Iterator[Settings]:
    """A YARN of a ResourceManager and two nodes, in a network of its own."""
    from penstock.adaptors.yarn_server.site_files import YarnPlan
    from penstock.adaptors.yarn_server.yarn_cluster import YarnCluster

    plan = YarnPlan(nodes=2, cores_per_node=4, memory_mib_per_node=2560)
    with (
        Warden() as warden,
        YarnCluster(warden, folder / "cluster", plan, timeout_seconds=400.0) as cluster,
        cluster.entered(),
        _environment(cluster.spark_environment()),
    ):
        yield {**cluster.spark_settings(), "spark.yarn.am.memory": "256m", "spark.yarn.maxAppAttempts": "1"}


@contextmanager
def kubernetes(folder: Path) -> Iterator[Settings]:
    """A Kubernetes of one node, in namespaces of its own; the driver is outside its pods."""
    from penstock.adaptors.kubernetes_server.local_cluster import LocalCluster
    from penstock.adaptors.kubernetes_server.node_plan import ADDRESS
    from penstock.adaptors.kubernetes_server.spark_pods import spark_settings

    with (
        LocalCluster(folder / "cluster") as cluster,
        cluster.entered(),
        _environment({"KUBECONFIG": str(cluster.kubeconfig), "SPARK_LOCAL_IP": ADDRESS}),
    ):
        yield {
            **spark_settings(folder / "pods", writable=[folder]),
            "spark.kubernetes.executor.request.cores": "300m",
            "spark.kubernetes.executor.limit.cores": "1",
        }


PLACES: Mapping[str, Callable[[Path], AbstractContextManager[Settings]]] = {
    "standalone": standalone,
    "yarn": yarn,
    "kubernetes": kubernetes,
}


@contextmanager
def opened(name: str) -> Iterator[tuple[Path, Settings]]:
    """Start a cluster; return a folder that its executors may write to, and the settings of an application on it."""
    if name not in PLACES:
        raise ConfigurationError(f"cluster: {name!r} is not one of {', '.join(PLACES)}", field="cluster")
    with tempfile.TemporaryDirectory(prefix="penstock-actuation-") as text:
        folder = Path(text)
        (folder / "checkpoint").mkdir()
        with PLACES[name](folder) as settings:
            yield folder, {**COMMON, **settings}


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
