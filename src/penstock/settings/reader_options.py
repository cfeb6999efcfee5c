# SPDX-License-Identifier: Apache-2.0
"""What a user may say to the reader of a topic, beside what Penstock says to it."""

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
