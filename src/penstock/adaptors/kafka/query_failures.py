# SPDX-License-Identifier: Apache-2.0
"""Explains in a line or two why a query on Kafka failed, from the pages that Spark and its Kafka client print."""

from __future__ import annotations

import re

_PENSTOCK_MESSAGE = re.compile(
    r"(topic '[^']+'(?:, partition \d+, offset \d+)?: (?:the|a) record .*?)(?:\s+SQLSTATE: \w+|$)", re.M
)
# After its message an exception prints the query's plan, with texts of failures that did not happen.
_QUERY_PLAN = re.compile(r"\n=== Streaming Query ===.*?(?=\n\n?JVM stacktrace|\nCaused by: |\Z)", re.DOTALL)
_TOPIC_PARTITION = re.compile(r"topic[- ]partition\(?s?\)? ([\w.-]+-\d+)", re.IGNORECASE)
_NEW_START = (
    "To continue without them, remove the operator's checkpoint (it then reads what is there now, from its beginning)."
)

# The first match is reported: the narrower patterns come before the wider ones.
_KNOWN_FAILURES: tuple[tuple[str, str], ...] = (
    (
        r"Partition \S+ offset was changed from \d+ to \d+|resolved start offset \d+ is greater than",
        "The topic has fewer records than the operator has read: it was deleted and created again. " + _NEW_START,
    ),
    (
        r"Partitions .* have been deleted|Cannot find initial offsets for partitions|UnknownTopicOrPartition"
        r"|UnknownTopicId|UNKNOWN_TOPIC_OR_PART",
        "The topic, or a partition of it, is no longer on the broker: it was deleted while the operator ran, or this "
        "is another broker. Create it again under the same name, or restart the pipeline with a new run folder.",
    ),
    (
        r"OffsetOutOfRange|are not available in Kafka any more",
        "Records that the operator had not read yet are gone from the topic: its retention is shorter than the "
        "operator was away or behind. Raise the topic's retention.ms. " + _NEW_START,
    ),
    (
        r"KAFKA_MALFORMED_RECORD_TIMESTAMP|overflows when converting to Spark's microsecond-precision",
        "A record's timestamp is not in milliseconds: its producer uses micro- or nanoseconds. Fix the producer; "
        "the records it wrote must be deleted from the topic.",
    ),
    (
        r"SaslAuthentication|SASL_AUTHENTICATION_FAILED|SslAuthentication|SSL handshake failed|SSLHandshakeException",
        "The broker refuses the operator's connection: check security.protocol, sasl.mechanism, sasl.username, "
        "sasl.password and the ssl files of the connection.",
    ),
    (
        r"(?:Topic|Group|Cluster)Authorization|Not authorized to access",
        "The broker knows the operator's user but does not allow this: give it the right to read, write and describe "
        "the topic.",
    ),
    (
        r"not present in metadata after",
        "The topic is not on the broker, or no broker answered for a minute. Check both (penstock kafka "
        "status, for a broker of Penstock's own). When started again, the operator resumes from its checkpoint.",
    ),
    (
        r"RecordTooLarge|MESSAGE_TOO_LARGE",
        "A record is larger than the broker or the client accepts. Write smaller rows, or raise max.message.bytes of "
        "the topic and the option kafka.max.request.size of the connection.",
    ),
    (
        r"InvalidRecordException|INVALID_RECORD",
        "The broker refuses the records: the topic is compacted and the records have no key. Set its cleanup.policy to "
        "delete, or write to another topic.",
    ),
    (
        r"No resolvable bootstrap urls|UnknownHostException",
        "The broker's name cannot be resolved: check bootstrap_servers, and the names that the broker advertises "
        "(advertised.listeners).",
    ),
    (
        r"Timed out waiting for a node assignment|kafka\.common\.errors\.TimeoutException|Timeout of \d+ms expired"
        r"|ms has passed since batch creation|kafka\.common\.errors\.(?:Disconnect|Network|BrokerNotAvailable)"
        r"|Failed to update metadata after|java\.util\.concurrent\.TimeoutException: Cannot fetch record",
        "The broker did not answer for longer than its clients wait. Check that it runs and can be reached. When "
        "started again, the operator resumes from its checkpoint and loses nothing.",
    ),
    (
        r"Failed to find data source: kafka|DATA_SOURCE_NOT_FOUND[^\n]*kafka",
        "Spark lacks its Kafka connector: pass the settings of penstock.adaptors.kafka.connector to the application.",
    ),
    (
        r"MALFORMED_RECORD_IN_PARSING|MALFORMED_RECORD",
        "A record cannot be read as JSON with the schema in the operator's own function. Fix the schema or "
        "the producer.",
    ),
)
# The patterns match message texts: the names of Spark's error conditions are not always in a query's exception.
_COMPILED_FAILURES = tuple((re.compile(pattern), advice) for pattern, advice in _KNOWN_FAILURES)


def explain_failure(message: str) -> str | None:
    """Say what went wrong and what to do, from the text of a query's exception. None: not a known failure.

    Examples
    --------
    >>> explain_failure("org.apache.kafka.common.errors.SaslAuthenticationException: no")[:41]
    "The broker refuses the operator's connect"
    >>> explain_failure("division by zero") is None
    True
    """
    said = _QUERY_PLAN.sub("", message)
    own = _PENSTOCK_MESSAGE.search(said)
    if own is not None:
        return (
            f"{own.group(1).strip()}. Nothing was dropped: fix what writes the topic. The operator cannot skip such a "
            "record; use a topic of another name, or empty this one and read it without a checkpoint."
        )
    for pattern, advice in _COMPILED_FAILURES:
        if pattern.search(said):
            place = _TOPIC_PARTITION.search(said)
            return advice if place is None else f"{advice} ({place.group(1)})"
    return None
