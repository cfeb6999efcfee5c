# SPDX-License-Identifier: Apache-2.0
"""The cores a real-time query needs, and Spark's refusals in one line."""

from __future__ import annotations

import pytest

from penstock.adaptors.spark.real_time_mode import (
    check_real_time,
    cores_needed,
    explain_refusal,
    least_executors,
    shuffles_in_plan,
)
from penstock.errors import ConfigurationError
from penstock.records import Limits

PREFIX = "Streaming real-time mode has the following limitation: "


@pytest.mark.parametrize(
    ("sources", "shuffles", "cores_each", "executors"),
    [(1, (), 1, 1), (4, (), 1, 4), (4, (2,), 1, 6), (4, (2, 3), 4, 3), (4, (), 4, 1)],
)
def test_the_floor_is_every_partition_at_once(
    sources: int, shuffles: tuple[int, ...], cores_each: int, executors: int
) -> None:
    """A query needs a core for each source and shuffle partition, in whole executors."""
    cores = cores_needed(sources, shuffles)
    assert cores == sources + sum(shuffles)
    assert least_executors(cores, cores_each) == executors
    assert check_real_time("match", Limits(executors, 9), cores_each, sources, shuffles) == executors


@pytest.mark.parametrize("limits", [Limits(1, 2), Limits(3, 8)])
def test_too_few_cores_are_refused_with_the_field_and_the_fix(limits: Limits) -> None:
    """An operator that may shrink below its floor is refused, also where it may grow above it."""
    with pytest.raises(ConfigurationError) as refused:
        check_real_time("match", limits, 1, 4, (2,))
    text = str(refused.value)
    assert refused.value.field == "operators.match"
    assert f"executors: {limits.min_executors} with 1 core each are too few" in text
    assert "4 source + 2 shuffle partitions" in text
    assert "needs 6 cores" in text
    assert f"write [6, {max(6, limits.max_executors)}]" in text


def test_every_mistake_is_told_at_once() -> None:
    """Too few cores and too short a batch are told in one error."""
    with pytest.raises(ConfigurationError) as refused:
        check_real_time("match", Limits(1, 1), 2, 3, interval_seconds=1.0)
    assert len(refused.value.faults) == 2
    assert "interval: 1 s is too short for a real-time batch; give at least 5.00 s" in refused.value.faults[1]


@pytest.mark.parametrize("interval", [float("nan"), float("inf"), 0.0, -1.0, 4.999])
def test_a_batch_has_a_length_spark_takes(interval: float) -> None:
    """What is no length of at least five seconds is refused."""
    with pytest.raises(ConfigurationError, match="interval"):
        check_real_time("match", Limits(1, 1), 1, 1, interval_seconds=interval)


@pytest.mark.parametrize(
    ("sources", "shuffles", "cores", "field"),
    [(0, (), 1, "source_partitions"), (1, (0,), 1, "shuffle_partitions"), (1, (), 0, "cores_per_executor")],
)
def test_counts_below_one_are_refused(sources: int, shuffles: tuple[int, ...], cores: int, field: str) -> None:
    """No partition and no core are mistakes of the caller, named by their field."""
    with pytest.raises(ConfigurationError) as refused:
        check_real_time("match", Limits(1, 1), cores, sources, shuffles)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            "[STREAMING_REAL_TIME_MODE.OUTPUT_MODE_NOT_SUPPORTED] "
            + PREFIX
            + "The output mode Append is not supported. To work around this limitation, set the output mode to Update.",
            "real-time mode does not support output mode append; write outputMode('update')",
        ),
        (
            "[STREAMING_REAL_TIME_MODE.OPERATOR_OR_SINK_NOT_IN_ALLOWLIST] "
            + PREFIX
            + "The sink(s): org.apache.spark.sql.execution.streaming.sources.ForeachBatchSink is not in the sink "
            "allowlist for Real-Time Mode. To bypass this check, set a setting to false. SQLSTATE: 0A000",
            "real-time mode does not write to ForeachBatchSink; write to a Kafka topic",
        ),
        (
            "[STREAMING_REAL_TIME_MODE.OPERATOR_OR_SINK_NOT_IN_ALLOWLIST] "
            + PREFIX
            + "The operator(s): org.apache.spark.sql.execution.python.ArrowEvalPythonExec is not in the operator "
            "allowlist for Real-Time Mode.\n=== Streaming Query ===\nIdentifier: [id = 1]",
            "real-time mode does not support ArrowEvalPythonExec; it is a Python function: use Spark's own functions, "
            "or run the operator in micro-batches",
        ),
        (
            "[STREAMING_REAL_TIME_MODE.INPUT_STREAM_NOT_SUPPORTED] " + PREFIX + "The input stream "
            "org.apache.spark.sql.execution.streaming.sources.RateStreamMicroBatchStream is not supported in "
            "Real-time Mode. SQLSTATE: 0A000",
            "real-time mode does not read from RateStreamMicroBatchStream; read from a Kafka topic",
        ),
        (
            "[CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT] Cannot run the pipelined stage group: it needs 4 concurrent task "
            "slots to run all its stages together, but only 3 are currently free.",
            "the real-time query needs 4 cores at once and 3 are free; give more executors, or fewer topic or shuffle "
            "partitions",
        ),
        (
            "[INVALID_STREAMING_REAL_TIME_MODE_TRIGGER_INTERVAL] The real-time trigger interval is set to 1000 ms. "
            "This is less than the 5000 ms minimum specified by a setting.",
            "a real-time batch must be at least 5.00 s long; records do not wait for its end, so longer is not slower",
        ),
        (
            "maxOffsetsPerTrigger is not compatible with real time mode",
            "the source's option maxOffsetsPerTrigger limits a batch, but a real-time batch has no limit; leave it out",
        ),
        (
            "[STREAMING_REAL_TIME_MODE.SOME_LATER_KIND] " + PREFIX + "Something new.",
            f"real-time mode refuses the query: {PREFIX}Something new.",
        ),
    ],
)
def test_refusals_are_told_in_one_line_with_what_to_do(message: str, told: str) -> None:
    """Spark's messages, as Spark 4.3 wrote them, become one line each."""
    assert explain_refusal(message) == told
    assert "\n" not in told


@pytest.mark.parametrize("message", ["", "Connection refused", "[TABLE_OR_VIEW_NOT_FOUND] The table cannot be found."])
def test_other_failures_are_left_to_others(message: str) -> None:
    """What is no refusal of real-time mode is not explained as one."""
    assert explain_refusal(message) is None


@pytest.mark.parametrize(
    ("plan", "partitions"),
    [
        ("*(1) Project [value#2]\n+- *(1) Filter isnotnull(value#2)", ()),
        ("+- Exchange hashpartitioning(cast(a#1 as decimal(10,2)), b#2, 5), ENSURE_REQUIREMENTS, [plan_id=9]", (5,)),
        ("+- Exchange SinglePartition, ENSURE_REQUIREMENTS, [plan_id=9]", (1,)),
        ("Exchange RoundRobinPartitioning(3), REPARTITION_BY_NUM, [plan_id=5]", (3,)),
        ("Exchange rangepartitioning(a#1 ASC NULLS FIRST, 7), REPARTITION_BY_NUM, [plan_id=3]", (7,)),
        ("+- BroadcastExchange HashedRelationBroadcastMode(List(cast(input[0, int, false] as bigint)),false)", ()),
        (
            "Exchange hashpartitioning(a#1, 2), ENSURE_REQUIREMENTS, [plan_id=1]\n"
            "+- Exchange hashpartitioning(b#1, 4), REPARTITION_BY_NUM, [plan_id=2]",
            (2, 4),
        ),
    ],
)
def test_the_shuffles_of_a_plan_are_found(plan: str, partitions: tuple[int, ...]) -> None:
    """Each exchange between tasks counts with its partitions; a broadcast is none."""
    assert shuffles_in_plan(plan) == partitions
