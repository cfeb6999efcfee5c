# SPDX-License-Identifier: Apache-2.0
"""Why a query on Kafka failed, in a line or two, out of the pages that Spark and its Kafka client say."""

from __future__ import annotations

import re

_OWN = re.compile(r"(topic '[^']+'(?:, partition \d+, offset \d+)?: (?:the|a) record .*?)(?:\s+SQLSTATE: \w+|$)", re.M)
# Behind its message a query tells its plan, with all the texts in it, also those of failures that did not happen.
_PLAN = re.compile(r"\n=== Streaming Query ===.*?(?=\n\n?JVM stacktrace|\nCaused by: |\Z)", re.DOTALL)
_PLACE = re.compile(r"topic[- ]partition\(?s?\)? ([\w.-]+-\d+)", re.IGNORECASE)
_NEW_START = (
    "To go on without them, remove the operator's checkpoint (it then reads what is there now, from its beginning)."
)

# The first that is found in the text is told: the narrower before the wider.
_KNOWN: tuple[tuple[str, str], ...] = (
    (
        r"Partition \S+ offset was changed from \d+ to \d+|resolved start offset \d+ is greater than",
        "The topic has fewer records than the operator has read already: it was removed and made anew. " + _NEW_START,
    ),
    (
        r"Partitions .* have been deleted|Cannot find initial offsets for partitions|UnknownTopicOrPartition"
        r"|UnknownTopicId|UNKNOWN_TOPIC_OR_PART",
        "The topic, or a partition of it, is not on the broker any more: it was removed while the operator ran, or the "
        "broker is another. Make it again under the same name, or start the pipeline anew.",
    ),
    (
        r"OffsetOutOfRange|are not available in Kafka any more",
        "Records that the operator had not read yet are gone from the topic: its retention is shorter than the "
        "operator was away or behind. Raise the topic's retention.ms. " + _NEW_START,
    ),
    (
        r"KAFKA_MALFORMED_RECORD_TIMESTAMP|overflows when converting to Spark's microsecond-precision",
        "A record's timestamp is not in milliseconds: its producer gives micro- or nanoseconds. Mend the producer; "
        "the records it wrote must be taken out of the topic.",
    ),
    (
        r"SaslAuthentication|SASL_AUTHENTICATION_FAILED|SslAuthentication|SSL handshake failed|SSLHandshakeException",
        "The broker does not let the operator in: check security.protocol, sasl.mechanism, sasl.username, "
        "sasl.password and the ssl files of the connection.",
    ),
    (
        r"(?:Topic|Group|Cluster)Authorization|Not authorized to access",
        "The broker knows the operator's user and does not allow this: give it the right to read, write and describe "
        "the topic.",
    ),
    (
        r"not present in metadata after",
        "The topic is not on the broker, or no broker answered for a minute. See that both are there (penstock kafka "
        "status, for one of Penstock's own); started again, the operator goes on from its checkpoint.",
    ),
    (
        r"RecordTooLarge|MESSAGE_TOO_LARGE",
        "A record is larger than the broker or the client takes. Write smaller rows, or raise max.message.bytes of the "
        "topic and the option kafka.max.request.size of the connection.",
    ),
    (
        r"InvalidRecordException|INVALID_RECORD",
        "The broker refuses the records: the topic is compacted and they have no key. Set its cleanup.policy to "
        "delete, or write to another topic.",
    ),
    (
        r"No resolvable bootstrap urls|UnknownHostException",
        "The broker's name cannot be resolved: check bootstrap_servers, and the names that the broker gives out "
        "(advertised.listeners).",
    ),
    (
        r"Timed out waiting for a node assignment|kafka\.common\.errors\.TimeoutException|Timeout of \d+ms expired"
        r"|ms has passed since batch creation|kafka\.common\.errors\.(?:Disconnect|Network|BrokerNotAvailable)"
        r"|Failed to update metadata after|java\.util\.concurrent\.TimeoutException: Cannot fetch record",
        "The broker does not answer, for longer than its clients wait. See that it runs and can be reached; started "
        "again, the operator goes on from its checkpoint and loses nothing.",
    ),
    (
        r"Failed to find data source: kafka|DATA_SOURCE_NOT_FOUND[^\n]*kafka",
        "Spark has not got its Kafka connector: give the settings of penstock.adaptors.kafka.connector to the "
        "application.",
    ),
    (
        r"MALFORMED_RECORD_IN_PARSING|MALFORMED_RECORD",
        "A record cannot be read as JSON of the schema that the operator's own function gives it. Mend the schema or "
        "the producer.",
    ),
)
# The texts are those of the messages: the names of Spark's error conditions are not always in a query's exception.
_COMPILED = tuple((re.compile(pattern), told) for pattern, told in _KNOWN)


def explain_failure(message: str) -> str | None:
    """What went wrong and what to do, of the text of a query's exception; None where it is not known here.

    Examples
    --------
    >>> explain_failure("org.apache.kafka.common.errors.SaslAuthenticationException: no")[:41]
    'The broker does not let the operator in: '
    >>> explain_failure("division by zero") is None
    True
    """
    said = _PLAN.sub("", message)
    own = _OWN.search(said)
    if own is not None:
        return (
            f"{own.group(1).strip()}. Nothing was dropped: mend what writes the topic. The operator cannot pass such a "
            "record; a topic of another name, or one emptied and read without a checkpoint, has none."
        )
    for pattern, told in _COMPILED:
        if pattern.search(said):
            place = _PLACE.search(said)
            return told if place is None else f"{told} ({place.group(1)})"
    return None
