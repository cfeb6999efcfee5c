# SPDX-License-Identifier: Apache-2.0
"""Rows of the trace as columns, for streams and files alike: only Spark expressions, no Python per row."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from penstock.apps.google_cluster import events
from penstock.apps.google_cluster.events import ENDED, RUNNING

SHEDDING_METRICS = "penstock_shedding"
"""The name of the counts of kept, shed and malformed rows among a progress's observed metrics."""


def task_events(stream: DataFrame, *, is_shedding: bool) -> DataFrame:
    """Return (row, time, machine, job, task, event, cpu, memory, disk), counted; malformed rows are dropped.

    Parameters
    ----------
    stream
        Rows with at least `index` and `value`, such as the replay source's.
    is_shedding
        Drop what changes no machine's state. Otherwise those rows go on, and change nothing there.
    """
    parsed = _parsed(stream)
    is_relevant = (
        sf.col("machine").isNotNull()
        & sf.col("event").isin([int(e) for e in sorted(RUNNING | ENDED)])
        & (sf.col("time") < events.AFTER_THE_TRACE_US)
    )
    counted = parsed.withColumn("is_relevant", sf.col("is_well_formed") & is_relevant).observe(
        SHEDDING_METRICS,
        sf.count_if(sf.col("is_relevant")).alias("kept"),
        sf.count_if(sf.col("is_well_formed") & ~sf.col("is_relevant")).alias("shed"),
        sf.count_if(~sf.col("is_well_formed")).alias("malformed"),
    )
    kept = counted.where("is_relevant" if is_shedding else "is_well_formed")
    # No missing value among the columns: pandas would turn the others of the column into floats.
    return kept.drop("is_well_formed", "is_relevant").fillna(-1, ["machine"])


def _parsed(stream: DataFrame) -> DataFrame:
    fields = sf.split(sf.rtrim(sf.col("value"), sf.lit("\r\n")), ",")
    rows = stream.select("index", fields.alias("fields"), (sf.size(fields) == events.FIELDS).alias("is_whole"))

    def text(at: int) -> Column:
        # `get` is null beyond the end of a short row.
        return sf.nullif(sf.trim(sf.get("fields", sf.lit(at))), sf.lit(""))

    def whole(at: int) -> Column:
        return text(at).try_cast("bigint")

    def request(at: int) -> Column:
        exact = text(at).try_cast(f"decimal(20,{events.DECIMALS})")
        return sf.when(exact >= 0, exact)

    requests = {"cpu": events.CPU, "memory": events.MEMORY, "disk": events.DISK}
    known = [whole(at).isNotNull() for at in (events.TIME, events.JOB, events.TASK, events.EVENT)]
    given = [text(events.MACHINE).isNull() | (whole(events.MACHINE) >= 0)]
    given += [text(at).isNull() | request(at).isNotNull() for at in requests.values()]
    is_well_formed = sf.col("is_whole") & (whole(events.TIME) >= 0) & whole(events.EVENT).between(0, 8)
    for condition in (*known, *given):
        is_well_formed &= condition
    in_units = [
        sf.coalesce((request(at) * sf.lit(events.UNITS).cast("decimal(18,0)")).cast("bigint"), sf.lit(0)).alias(name)
        for name, at in requests.items()
    ]
    return rows.select(
        sf.col("index").alias("row"),
        whole(events.TIME).alias("time"),
        whole(events.MACHINE).alias("machine"),
        whole(events.JOB).alias("job"),
        whole(events.TASK).alias("task"),
        whole(events.EVENT).cast("int").alias("event"),
        *in_units,
        sf.coalesce(is_well_formed, sf.lit(False)).alias("is_well_formed"),
    )
