# SPDX-License-Identifier: Apache-2.0
"""A real query whose executors are on two hosts in namespaces: agents there hold them to the share a master wants."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from tests.integration.geo_root import needs_namespaces
from tests.integration.hosts_in_namespaces import AGENT_PORTS, HOME, OPEN, HostWorld, until

from penstock.adaptors.cgroups import CgroupsUnavailableError, find_hierarchy
from penstock.adaptors.process.children import Child
from penstock.adaptors.spark.cluster import EmbeddedCluster
from penstock.adaptors.spark.cluster_sites import Site
from penstock.service.master_stores import TOKEN_FILE

pytestmark = [pytest.mark.spark, pytest.mark.namespaces, pytest.mark.cgroups, needs_namespaces]
START_SECONDS = 600.0
DRIVER = """
import sys
from pyspark.sql import SparkSession
import penstock

spark_master, address, masters = sys.argv[1:]
settings = {"spark.driver.host": address, "spark.driver.bindAddress": address, "spark.executor.cores": "1",
            "spark.executor.memory": "512m", "spark.cores.max": "2", "spark.sql.shuffle.partitions": "2"}
session = SparkSession.builder.master(spark_master).config(map=settings).getOrCreate()
rows = session.readStream.format("rate").option("rowsPerSecond", 200).load()
counts = rows.groupBy((rows["value"] % 5).alias("key")).count()
query = counts.writeStream.outputMode("update").format("noop").queryName("shared").start()
wanted = {"executors": 2, "cpu_share": 0.2, "every_seconds": 1}
with penstock.attach(query, executors=(2, 3), cpu_shares=(0.2, 1.0), mode="act", policy="fixed", policy_options=wanted,
                     guards="none", warm_up_seconds=1.0, master=masters):
    print("attached", session.sparkContext.applicationId, flush=True)
    query.awaitTermination(600)
"""


class HostSites:
    """The places of a cluster's processes: its master at home, a worker on each host."""

    def __init__(self, world: HostWorld) -> None:
        self._world = world

    @property
    def home(self) -> Site:
        """Where drivers are, too."""
        return Site("master", HOME, self._world.network.address(HOME))

    @property
    def workers(self) -> tuple[Site, ...]:
        """One for each host."""
        return tuple(Site(f"worker {name}", name, self._world.network.address(name)) for name in self._world.hosts)

    @property
    def java_properties(self) -> Mapping[str, str]:
        """Where Java finds their addresses."""
        return {"jdk.net.hosts.file": str(self._world.network.hosts_file)}

    def command(self, site: Site, argv: Sequence[str]) -> list[str]:
        """The command that runs `argv` there."""
        if site.host == HOME:
            return self._world.network.command(HOME, argv)
        return self._world.hosts[site.host].command(list(argv))

    def entered(self) -> AbstractContextManager[None]:
        """Have this thread at home."""
        return self._world.network.entered(HOME)

    def settle(self, site: Site, pid: int) -> None:
        """Workers have no cap of their own."""


def said(driver: Child) -> list[str]:
    """The id of the driver's application, once its query is attached."""
    lines = driver.log.read_text().splitlines() if driver.log.exists() else []
    return [line.removeprefix("attached ") for line in lines if line.startswith("attached ")]


def test_executors_of_spark_on_two_hosts_have_their_share(tmp_path: Path) -> None:
    """Each host's agent finds the executor of its worker and holds it; the master sees the CPU of both."""
    try:
        find_hierarchy()
    except CgroupsUnavailableError as fault:
        pytest.skip(fault.reason)
    with (
        HostWorld(tmp_path) as world,
        EmbeddedCluster(
            world.warden,
            tmp_path / "cluster",
            cores_per_worker=1,
            memory_per_worker="1g",
            timeout_seconds=START_SECONDS,
            sites=HostSites(world),
        ) as cluster,
    ):
        world.start_master(AGENT_PORTS[0])
        for host in world.hosts.values():
            host.start_agent()
        until(lambda: world.leading_port == AGENT_PORTS[0], "the lead")
        address = world.network.address(HOME)
        environment = {
            **cluster.spark_environment(),
            "PENSTOCK_AGENT_TOKEN_FILE": str(world.store / TOKEN_FILE),
            "PENSTOCK_MASTER_WITHOUT_TLS": "1",
        }
        argv = [sys.executable, "-c", DRIVER, cluster.master_url, address, world.masters]
        driver = world.start("driver", cluster.driver_command(argv), environment)
        until(lambda: said(driver) or driver.returncode is not None, "the query", START_SECONDS)
        assert driver.returncode is None, driver.tail()
        (world.application,) = said(driver)
        until(lambda: world.caps == {"one": 0.2, "two": 0.2}, "the shares on both hosts", START_SECONDS)
        held = [
            one["shares"]["held"][world.application]["executors"] for one in world.agents().values() if one["shares"]
        ]
        assert sorted(len(executors) for executors in held) == [1, 1]
        until(lambda: world.observed().get("cpu_share") == 0.2, "the share as the master sees it")
        until(lambda: (world.observed().get("cpu_used") or 0.0) > 0.0, "the CPU of both hosts")
        world.kill_master(AGENT_PORTS[0])
        until(lambda: world.caps == {"one": OPEN, "two": OPEN}, "open caps")
