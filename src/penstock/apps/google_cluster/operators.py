# SPDX-License-Identifier: Apache-2.0
"""The operators: machines, cluster, and google_cluster, which is both as one query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.apps.google_cluster.options import (
    Options,
    check_options,
    every_us,
    group_count,
    is_shedding,
    lateness_us,
)
from penstock.apps.google_cluster.results import results_writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

STATES_SCHEMA = (
    "row BIGINT, time BIGINT, machine BIGINT, tasks BIGINT, cpu BIGINT, memory BIGINT, disk BIGINT, is_late BOOLEAN"
)
"""What `machines` gives: a machine after an event. Times are the file's, in microseconds; requests are in 1e-12."""


def machines(stream: DataFrame, options: Options) -> DataFrame:
    """Return the state of a machine after every event of a task on it, as `STATES_SCHEMA` says.

    Events that change no machine's state are shed and counted: the progress of each batch has `kept`, `shed` and
    `malformed` among its observed metrics, under ``penstock_shedding``. They belong to the batch, and a batch that is
    run again reports them again.

    The events must come in the order of the trace, as the replay source gives them: over batches, not within one. What
    comes late is applied and marked.

    Parameters
    ----------
    stream
        Rows of the trace: at least `index` and `value`.
    options
        ``shedding``: ``on`` (default) or ``off``. ``groups``: how many groups the state is divided into (default 128,
        several for each task); machines of a group are kept together, for a state of its own costs each of 12,500
        machines more than its few events do.
    """
    from pyspark.sql import functions as sf

    from penstock.apps.google_cluster.processors import MachinesProcessor
    from penstock.apps.google_cluster.tables import task_events
    from penstock.apps.one_value_state import keep_state_in_rocksdb

    check_options("machines", options)
    keep_state_in_rocksdb(stream.sparkSession)
    events = task_events(stream, is_shedding=is_shedding(options))
    group = sf.pmod(sf.xxhash64("machine"), sf.lit(group_count(options))).cast("int")
    return (
        events.withColumn("group", group)
        .groupBy("group")
        .transformWithStateInPandas(MachinesProcessor(), STATES_SCHEMA, outputMode="Append", timeMode="None")
    )


def cluster(stream: DataFrame, options: Options) -> DataStreamWriter:
    """Write the statistics of the cluster for every 15 minutes of trace time to `output`/results.json.

    Parameters
    ----------
    stream
        What `machines` gives: whole batches of it, or else with enough lateness.
    options
        ``output``: the folder for the results. ``every``: trace time from one result to the next (default 15m).
        ``lateness``: by how much trace time rows may come out of order (default 0s, enough for a replay).
    """
    check_options("cluster", options)
    return results_writer(_statistics(stream, options), options["output"])


def google_cluster(stream: DataFrame, options: Options) -> DataStreamWriter:
    """Both operators as one query, with the options of both."""
    check_options("google_cluster", options)
    states = machines(stream, {name: options[name] for name in ("shedding", "groups") if name in options})
    return results_writer(_statistics(states, options), options["output"])


def _statistics(states: DataFrame, options: Options) -> DataFrame:
    """The results that a batch completes. All rows come to one task: this state cannot be divided."""
    from pyspark.sql import functions as sf

    from penstock.apps.google_cluster.cluster_state import result_columns
    from penstock.apps.google_cluster.processors import ClusterProcessor
    from penstock.apps.one_value_state import keep_state_in_rocksdb

    keep_state_in_rocksdb(states.sparkSession)
    types = {"machines": "BIGINT", "late_events": "BIGINT"}
    schema = ", ".join(f"{name} {types.get(name, 'DOUBLE')}" for name in result_columns())
    processor = ClusterProcessor(every_us(options), lateness_us(options))
    return (
        states.withColumn("cluster", sf.lit(0))
        .groupBy("cluster")
        .transformWithStateInPandas(processor, schema, outputMode="Append", timeMode="None")
    )
