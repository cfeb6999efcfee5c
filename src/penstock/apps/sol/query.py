# SPDX-License-Identifier: Apache-2.0
"""The query: forward every record to another task, several times, without work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.apps.application_options import ApplicationOptions, Options, whole_number

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OPTIONS = ApplicationOptions("sol", forwards=whole_number(2, least=1, most=20))
check_options = _OPTIONS.check


def sol(stream: DataFrame, options: Options) -> DataFrame:
    """Return every record after its way: (index, arrival, value, task), the last being the task that it came to.

    Parameters
    ----------
    stream
        Rows with at least `index`, `arrival` and `value`.
    options
        ``forwards``: how many times each record is sent on to another task (default 2).
    """
    from pyspark.sql import functions as sf

    # A number that is given is kept: otherwise Spark makes fewer tasks of small shuffles, and records stay together.
    tasks = int(stream.sparkSession.conf.get("spark.sql.shuffle.partitions", "200") or "200")
    records = stream.select("index", "arrival", "value", sf.spark_partition_id().alias("task"))
    for hop in range(_OPTIONS.read(options)["forwards"]):
        # By a hash of their own: where rows already lie as a shuffle would put them, Spark leaves the shuffle out, and
        # before a shuffle by turns it sorts the rows, which is work.
        records = records.repartition(tasks, sf.xxhash64("index", "task", sf.lit(hop)))
        # Noting the task keeps the shuffles apart: Spark makes one of two that follow each other.
        records = records.withColumn("task", sf.spark_partition_id())
    return records
