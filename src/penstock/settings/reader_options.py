# SPDX-License-Identifier: Apache-2.0
"""What a user may say to the reader of a topic or queue, beside what Penstock says to it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

_SPOKEN_FOR = ("subscribe", "subscribepattern", "assign")
_KNOWN = (
    "startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy",
    "failOnDataLoss", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions",
    "maxRecordsPerPartition", "groupIdPrefix", "includeHeaders",
)  # fmt: skip
"""Options of Spark's Kafka source, to tell a misspelt one; others go through."""


def reader_option_faults(options: Mapping[str, str]) -> list[str]:
    """Every mistake, each with the option's name and what to do.

    Examples
    --------
    >>> reader_option_faults({"maxOffsetPerTrigger": "5"})
    ['maxOffsetPerTrigger: did you mean maxOffsetsPerTrigger?']
    """
    faults = []
    for name, value in options.items():
        near = difflib.get_close_matches(name, _KNOWN, n=1, cutoff=0.8)
        if name.lower() in _SPOKEN_FOR:
            faults.append(f"{name}: the topic is said already; leave it out")
        elif name.lower().startswith("kafka."):
            faults.append(f"{name}: belongs to the broker's options, where both clients see it; leave it out")
        elif near and name not in _KNOWN:
            faults.append(f"{name}: did you mean {near[0]}?")
        elif name == "maxOffsetsPerTrigger" and (not value.isdigit() or int(value) < 1):
            faults.append(f"{name}: write a whole number of records, such as 10000")
    return faults


_OF_QUEUES = ("prefetch", "maxSpoolBytes", "maxRowsPerBatch")
_SAID_OF_QUEUES = {
    "url": "the server stands in `broker`",
    "queue": "the queue is the run's own",
    "spooldir": "the folder is the run's own",
    "partitions": "it stands in `broker`",
    "markresent": "the run's own producer is known",
}


def queue_option_faults(options: Mapping[str, str]) -> list[str]:
    """Every mistake in the options of a queue of RabbitMQ.

    Examples
    --------
    >>> queue_option_faults({"maxRowPerBatch": "5", "url": "amqp://host/"})
    ['maxRowPerBatch: did you mean maxRowsPerBatch?', 'url: the server stands in `broker`; leave it out']
    """
    faults = []
    for name, value in options.items():
        if name.lower() in _SAID_OF_QUEUES:
            faults.append(f"{name}: {_SAID_OF_QUEUES[name.lower()]}; leave it out")
        elif name.lower().startswith("amqp."):
            faults.append(f"{name}: belongs to the broker's options, where both clients see it; leave it out")
        elif name not in _OF_QUEUES:
            near = difflib.get_close_matches(name, _OF_QUEUES, n=1, cutoff=0.6)
            faults.append(
                f"{name}: did you mean {near[0]}?"
                if near
                else f"{name}: is unknown; {' and '.join(_OF_QUEUES)} can be set"
            )
        elif name != "maxSpoolBytes" and (not value.isdigit() or int(value) < 1):
            faults.append(f"{name}: write a whole number of records, such as 10000")
    return faults
