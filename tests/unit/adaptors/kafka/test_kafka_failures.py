# SPDX-License-Identifier: Apache-2.0
"""What is told of a failed query, by the texts that Spark and its client really say."""

from __future__ import annotations

import re

import pytest

from penstock.adaptors.kafka.query_failures import explain_failure

CASES = {
    "[KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED] Some data may have been lost because they are not available in Kafka "
    "any more; Reason: Partition lines-0 offset was changed from 7 to 0.": "deleted and created again",
    "[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] Some data may have been lost because they are not available in "
    "Kafka any more; Reason: Could not read records in offset [0, 9) for topic partition lines-3 with consumer "
    "group g.": "retention is shorter than .*(lines-3)",
    "[KAFKA_DATA_LOSS.PARTITIONS_DELETED] Some data may have been lost. Partitions Set(lines-0) have been "
    "deleted.": "no longer on the broker",
    "org.apache.kafka.clients.consumer.OffsetOutOfRangeException: Fetch position": "retention is shorter",
    "org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed": "refuses the operator",
    "org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to access topics: [a]": "the right to",
    "org.apache.kafka.common.errors.TimeoutException: Topic lines not present in metadata after 60000 ms.": "no broker "
    "answered for a minute",
    "org.apache.kafka.common.errors.RecordTooLargeException: The message is 2000000 bytes": "max.message.bytes",
    "org.apache.kafka.common.InvalidRecordException: One or more records have been rejected": "compacted",
    "org.apache.kafka.common.config.ConfigException: No resolvable bootstrap urls given": "bootstrap_servers",
    "org.apache.kafka.common.errors.TimeoutException: Expiring 3 record(s) for lines-0:120001 ms has passed since "
    "batch creation": "did not answer",
    "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment.": "loses nothing",
    "[MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed records are detected": "own function",
    "[KAFKA_MALFORMED_RECORD_TIMESTAMP] Record at topic lines": "milliseconds",
}


@pytest.mark.parametrize(("message", "told"), CASES.items())
def test_what_spark_says_is_told_in_words(message: str, told: str) -> None:
    """Each known failure has one explanation, found in the middle of a long trace."""
    explained = explain_failure(f"[STREAM_FAILED] Query [id = 1] terminated\n at org.x.Y\nCaused by: {message}\n at z")
    assert explained is not None
    assert re.search(told, explained), explained


def test_a_record_that_does_not_fit_is_told_with_its_place() -> None:
    """The reader's own message is taken out of Spark's, up to its end."""
    told = explain_failure(
        "[STREAM_FAILED] ... [USER_RAISED_EXCEPTION] topic 'a.b', partition 3, offset 17: the record lacks the "
        'field(s) n; it begins: {"m": 1} SQLSTATE: P0001\n at org.apache.spark'
    )
    assert told is not None
    assert told.startswith(
        "topic 'a.b', partition 3, offset 17: the record lacks the field(s) n; it begins: {\"m\": 1}. Nothing was "
    )
    assert "SQLSTATE" not in told


def test_what_only_the_plan_says_did_not_happen() -> None:
    """Spark tells a query's plan with its failure: messages that stand in the plan are not taken for it."""
    plan = (
        "\n=== Streaming Query ===\nCurrent State: ACTIVE\nLogical Plan:\n+- CASE WHEN isnull(id) THEN "
        "raise_error(topic 't': a record has null in id, which should identify it) END\n"
    )
    failed = "[STREAM_FAILED] Query [id = 1] terminated with exception: "
    assert explain_failure(f"{failed}[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: XXKST{plan}") is None
    told = explain_failure(
        f"{failed}Some data may have been lost because they are not available in Kafka any more;\nReason: Partition "
        f"lines-0 offset was changed from 5 to 1.\nThis could be SQLSTATE: XXKST{plan}"
    )
    assert told is not None
    assert "deleted and created again" in told


def test_what_is_not_kafkas_is_not_explained() -> None:
    """A failure of the operator's own gets no explanation made up for it."""
    assert explain_failure("java.lang.OutOfMemoryError: Java heap space") is None
