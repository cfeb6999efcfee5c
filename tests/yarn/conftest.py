# SPDX-License-Identifier: Apache-2.0
"""One real YARN for the tests of this folder. Their own thread is inside its network."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.adaptors.process.children import Warden
from penstock.adaptors.yarn_server.distribution import why_not_here
from penstock.adaptors.yarn_server.site_files import Queue, YarnPlan
from penstock.adaptors.yarn_server.yarn_cluster import YarnCluster

LABEL = "fast"
PLAN = YarnPlan(
    nodes=4,
    cores_per_node=4,
    memory_mib_per_node=2560,
    # For those alone who ask for it.
    labels={"127.0.0.5": LABEL},
    # Of the other nodes' 7680 MB and 12 cores the streams may have 4608 MB and 7 cores.
    queues=(Queue("streams", 40.0, 60.0), Queue("others", 60.0)),
    # Longer than a test keeps the ResourceManager away: it would lose all nodes when it is back.
    lost_after_seconds=45.0,
    properties={
        # Where nobody listens. Drivers send on to YARN's proxy who asks for their web pages; on a machine of its own,
        # unlike here, a driver is not taken for the proxy itself.
        "yarn.web-proxy.address": "127.0.0.99:8089",
        # Who waits for what is their queue's own gets it from those who have more than theirs, after 2 seconds.
        "yarn.resourcemanager.scheduler.monitor.enable": "true",
        "yarn.resourcemanager.monitor.capacity.preemption.monitoring_interval": "1000",
        "yarn.resourcemanager.monitor.capacity.preemption.max_wait_before_kill": "2000",
        "yarn.resourcemanager.monitor.capacity.preemption.total_preemption_per_round": "1.0",
        "yarn.resourcemanager.monitor.capacity.preemption.natural_termination_factor": "1.0",
        "yarn.resourcemanager.monitor.capacity.preemption.max_ignored_over_capacity": "0.0",
    },
)


@pytest.fixture(scope="session")
def cluster() -> Iterator[YarnCluster]:
    """A ResourceManager and four nodes; its jars are fetched where they never were before."""
    reason = why_not_here()
    if reason is not None:
        pytest.skip(f"no YARN can be started here: {reason}")
    pytest.importorskip("pyspark", reason="needs the extra [spark]")
    with (
        Warden() as warden,
        YarnCluster(warden, warden.temporary_folder(), PLAN, timeout_seconds=400.0) as made,
        made.entered(),
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in made.spark_environment().items():
            patch.setenv(name, value)
        yield made
