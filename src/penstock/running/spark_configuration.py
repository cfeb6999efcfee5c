# SPDX-License-Identifier: Apache-2.0
"""The Spark configuration that lets an operator be sized alone."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.records import ExecutorSize, Limits
from penstock.settings import OperatorSettings

_PARTITIONS = "spark.sql.shuffle.partitions"


def size_configuration(operator: OperatorSettings, size: ExecutorSize, limits: Limits | None = None) -> dict[str, str]:
    """What makes executors of a size; the number of shuffle partitions is the user's where he gave it for all sizes.

    A query that keeps state goes on with the number it began with, so all sizes have the one that suits the largest.
    Without `limits` there are no nodes to choose from.
    """
    most, largest = operator.executors[1], operator.executor_sizes[-1].cores
    # Where nodes are chosen, executors may come to all others first (`adaptors.spark.placing`).
    nodes, each = ((), None) if limits is None else (limits.nodes, limits.executors_per_node)
    places = max(most, len(nodes) * (each or most))
    return {
        "spark.executor.cores": str(size.cores),
        "spark.executor.memory": size.memory,
        "spark.cores.max": str(places * size.cores),
        _PARTITIONS: operator.spark.get(_PARTITIONS) or str(size.shuffle_partitions or max(2, most * largest)),
    }


def spark_configuration(
    operator: OperatorSettings,
    streams: Mapping[str, str],
    *,
    is_local: bool,
    source_partitions: int | None = None,
    driver_host: str = "127.0.0.1",
    limits: Limits | None = None,
) -> dict[str, str]:
    """What an operator needs so that it can be sized alone, and what its streams need; the user's own wins.

    In real-time mode tasks of a shuffle run beside those that read the `source_partitions`: it gets the cores they
    leave free. On this machine (`is_local`) its driver listens at `driver_host`. Without `limits` it has its own, and
    no nodes to choose from.
    """
    most = operator.executors[1]
    configuration = {
        **size_configuration(operator, operator.executor_sizes[0], limits),
        "spark.driver.memory": operator.driver_memory,
        "spark.executor.instances": str(most),
        "spark.dynamicAllocation.enabled": "false",
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": "false",
        "spark.decommission.enabled": "true",
        "spark.storage.decommission.enabled": "true",
        "spark.storage.decommission.shuffleBlocks.enabled": "true",
        "spark.storage.decommission.rddBlocks.enabled": "true",
        # Spark looks every 30 s whether a leaving executor's blocks have moved; seen to make drains 3x shorter.
        "spark.storage.decommission.replicationReattemptInterval": "2s",
        # On YARN and Kubernetes an application ends that has lost too many executors: in all its life, without this.
        "spark.executor.failuresValidityInterval": "1h",
    }
    if operator.is_real_time:
        shuffles = operator.executors[0] * operator.executor_cores - (source_partitions or 0)
        configuration[_PARTITIONS] = str(max(1, shuffles))
    if is_local:
        configuration |= {
            "spark.driver.host": driver_host,
            "spark.driver.bindAddress": driver_host,
            # Drivers do little, and several share this machine with the executors: less compiling, one thread to
            # collect garbage.
            "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        }
    return {**configuration, **streams, **operator.spark}
