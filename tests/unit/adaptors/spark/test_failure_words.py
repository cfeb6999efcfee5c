# SPDX-License-Identifier: Apache-2.0
"""Spark's pages about a failed query, in one line, and whether another start would help."""

from __future__ import annotations

import pytest

from penstock.adaptors.spark.failure_words import Prospect, failure_words, prospect_of

WATERMARK = """org.apache.spark.sql.AnalysisException: Redefining watermark is disallowed. Set the config to 'false'.
\tat org.apache.spark.sql.execution.streaming.PropagateWatermarkSimulator.$anonfun$doSimulate$1(Watermark.scala:301)
\tat org.apache.spark.sql.catalyst.trees.TreeNode.transformUp(TreeNode.scala:515)
"""
PYTHON = """org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 4.0 failed, most \
recent failure: Lost task 0.3 in stage 4.0 (TID 12) (10.0.0.7 executor 1): \
org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] \
An exception was thrown from the Python worker: Traceback (most recent call last):
  File "/app/my_app.py", line 7, in parse
    return int(text)
           ^^^^^^^^^
ValueError: invalid literal for int() with base 10: 'x'

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:650)
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
KeyError: 'other'
"""
FOREACH = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: \
[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function in foreach batch sink. Reason: An \
exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
  File "my_app.py", line 3, in write
    raise my.errors.NoRoomError("full")
my.errors.NoRoomError: full
 SQLSTATE: 39000
=== Streaming Query ===
"""
FROM_THE_QUERY = """[PYTHON_EXCEPTION] An exception was thrown from the Python worker: \
Traceback (most recent call last):
  File "/app/my_app.py", line 20, in look
    raise ValueError(f"record {number} has no price")
ValueError: record 450 has no price
 SQLSTATE: 38000
=== Streaming Query ===
Identifier: shop [id = c6eefd8e, runId = 698ce4a2]
Current Committed Offsets: {x: {"index": 400}}

Logical Plan:
Project
"""
LOST = """org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most \
recent failure: Lost task 0.3 in stage 1.0 (TID 9) (10.0.0.1 executor 2): \
ExecutorLostFailure (executor 2 exited) Reason: x
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:1)
"""
KAFKA = """org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.ThreadUtils$.awaitResult(ThreadUtils.scala:1)
Caused by: java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.TimeoutException: Timed out waiting \
for a node assignment. Call: describeTopics
\tat java.base/java.util.concurrent.CompletableFuture.reportGet(CompletableFuture.java:396)
Caused by: org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment. Call: x
"""


@pytest.mark.parametrize(
    ("text", "words", "prospect"),
    [
        (
            WATERMARK,
            "AnalysisException: Redefining watermark is disallowed. Set the config to 'false'.",
            Prospect.LASTING,
        ),
        (
            "ExtendedAnalysisException: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `x` cannot be resolved.",
            "ExtendedAnalysisException: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `x` cannot be resolved.",
            Prospect.LASTING,
        ),
        (PYTHON, "ValueError: invalid literal for int() with base 10: 'x'", Prospect.UNKNOWN),
        (FOREACH, "NoRoomError: full", Prospect.UNKNOWN),
        (FROM_THE_QUERY, "ValueError: record 450 has no price", Prospect.UNKNOWN),
        (KAFKA, "TimeoutException: Timed out waiting for a node assignment. Call: x", Prospect.PASSING),
        ("java.lang.OutOfMemoryError: Java heap space", "OutOfMemoryError: Java heap space", Prospect.PASSING),
        (
            "Traceback (most recent call last):\n  File 'x'\nConnectionRefusedError: [Errno 111] Connection refused\n",
            "ConnectionRefusedError: [Errno 111] Connection refused",
            Prospect.PASSING,
        ),
        ("boom", "boom", Prospect.UNKNOWN),
        ("", "", Prospect.UNKNOWN),
    ],
)
def test_a_failure_is_named_by_its_own_error(text: str, words: str, prospect: Prospect) -> None:
    """The user's exception or the last cause is the line, without package, SQL state and trace."""
    assert failure_words(text) == words
    assert prospect_of(words) is prospect


def test_a_lost_executor_is_passing() -> None:
    """It is named by the first line, which is all that Spark prints of it."""
    words = failure_words(LOST)
    assert "ExecutorLostFailure (executor 2 exited)" in words
    assert prospect_of(words) is Prospect.PASSING


@pytest.mark.parametrize(
    "words",
    [
        "SparkException: Python worker exited unexpectedly (crashed)",
        "Python worker failed to connect back.",
        "UnknownTopicOrPartitionException: This server does not host this topic-partition.",
        "ConfigException: No resolvable bootstrap urls given in bootstrap.servers",
        "IllegalStateException: Cannot call methods on a stopped SparkContext.",
        "IOException: No space left on device",
        "ClusterError: Kafka: no broker answers at 127.0.0.1:9092 (0/1 brokers are down). Is it running?",
    ],
)
def test_what_is_outside_the_query_is_passing(words: str) -> None:
    """It may be well again by the next start, at the same batch or not."""
    assert prospect_of(words) is Prospect.PASSING


def test_a_page_without_a_line_end_is_cut() -> None:
    """A message of thousands of characters does not fill the screen."""
    assert len(failure_words("java.lang.RuntimeException: " + "x" * 5000)) == 400
