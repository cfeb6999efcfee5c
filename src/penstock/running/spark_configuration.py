# SPDX-License-Identifier: Apache-2.0
"""The Spark configuration that lets an operator be sized alone."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.settings import OperatorSettings


def spark_configuration(
    operator: OperatorSettings, streams: Mapping[str, str], *, is_local: bool, source_partitions: int | None = None
) -> dict[str, str]:
    """What an operator needs so that it can be sized alone, and what its streams need; the user's own wins.

    In real-time mode tasks of a shuffle run beside those that read the `source_partitions`: it gets the cores they
    leave free.
    """
    most = operator.executors[1]
    shuffles = max(2, most * operator.executor_cores)
    if operator.is_real_time:
        shuffles = max(1, operator.executors[0] * operator.executor_cores - (source_partitions or 0))
    configuration = {
        "spark.executor.cores": str(operator.executor_cores),
        "spark.executor.memory": operator.executor_memory,
        "spark.driver.memory": operator.driver_memory,
        "spark.cores.max": str(most * operator.executor_cores),
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
        "spark.sql.shuffle.partitions": str(shuffles),
    }
    if is_local:
        configuration |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            # Drivers do little, and several share this machine with the executors: less compiling, one thread to
            # collect garbage.
            "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        }
    return {**configuration, **streams, **operator.spark}
