# SPDX-License-Identifier: Apache-2.0
"""The start of an operator's query in Spark's real-time mode."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from penstock.running.operator import OperatorJob

_LOG = logging.getLogger(__name__)
_REFUSAL_SECONDS = 6.0
"""How long Spark takes at most, as seen, to refuse a real-time query that it has let start."""


def start_real_time(
    result: DataFrame | DataStreamWriter, job: OperatorJob, *, publish: Callable[[DataFrame], None]
) -> StreamingQuery:
    """Start a query in real-time mode; what Spark refuses, now or in its first seconds, is told in one line.

    Parameters
    ----------
    result
        What the operator's function gave.
    job
        With a checkpoint interval and a topic to write to.
    publish
        Is given the frame once nothing of ours speaks against it.

    Raises
    ------
    ConfigurationError
        The function gave no frame, or one without an arrival; there are too few cores; or Spark refuses the query.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame

    from penstock.adaptors.kafka.operator_stream import write_topic
    from penstock.adaptors.spark.real_time_mode import explain_refusal

    if not isinstance(result, DataFrame) or job.writes.topic is None:
        raise ConfigurationError(
            f"app: {job.app} gives a {type(result).__name__}; in real-time mode it must give the DataFrame that is "
            "written to the operator's topic",
            field="app",
        )
    _check_floor(result, job)
    publish(result)
    writer = write_topic(result, job.writes.topic.connection(), job.writes.topic.topic, with_arrival=True)
    writer = writer.queryName(job.name).option("checkpointLocation", job.checkpoint_folder).outputMode("update")
    failure: PySparkException | None
    try:
        query: StreamingQuery = writer.trigger(realTime=f"{job.checkpoint_seconds:g} seconds").start()  # type: ignore[call-overload]
        until = time.monotonic() + _REFUSAL_SECONDS
        while query.isActive and time.monotonic() < until:
            time.sleep(0.2)
        failure = None if query.isActive else query.exception()
    except PySparkException as fault:
        failure = fault
    if failure is not None:
        why = explain_refusal(str(failure))
        if why is None:
            raise failure
        _LOG.info("Spark refuses the query: %s", failure)
        raise ConfigurationError(f"trigger: {why}", field="trigger") from failure
    return query


def _check_floor(result: DataFrame, job: OperatorJob) -> None:
    """Refuse a query whose fewest executors have fewer cores than its partitions, shuffles counted in."""
    from penstock.adaptors.spark.real_time_mode import check_real_time, shuffles_in_plan

    jvm: Any = result.sparkSession._jvm
    # What `explain` prints: the plan of a stream is known before it starts.
    shuffles = shuffles_in_plan(jvm.PythonSQLUtils.explainString(result._jdf.queryExecution(), "simple"))
    cores = int(job.spark.get("spark.executor.cores", "1"))
    check_real_time(job.name, job.limits, cores, job.reads.partitions or 1, shuffles)
