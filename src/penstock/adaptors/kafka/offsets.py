# SPDX-License-Identifier: Apache-2.0
"""Parses the offsets in the progress of Spark's Kafka source: ``{"topic": {"0": 17, "1": 4}}``."""

from __future__ import annotations

import json
from typing import TypeAlias

Partition: TypeAlias = tuple[str, int]
"""A topic and the number of one of its partitions."""
_MOST_DIGITS = 10
"""Of a partition's number, which is a 32-bit one."""


def parse_offsets(text: str | None) -> dict[Partition, int] | None:
    """Return each partition's first offset that is not done, or None if the text is not a Kafka source's.

    Examples
    --------
    >>> parse_offsets('{"clicks": {"0": 17, "1": 4}}')
    {('clicks', 0): 17, ('clicks', 1): 4}
    >>> parse_offsets('{"logOffset": 3}') is None
    True
    """
    try:
        topics = json.loads(text) if text else None
    except (ValueError, RecursionError):  # no JSON, a number of thousands of digits, or nested without end
        return None
    if not isinstance(topics, dict) or not topics:
        return None
    found: dict[Partition, int] = {}
    for topic, partitions in topics.items():
        if not isinstance(partitions, dict):
            return None
        for number, offset in partitions.items():
            is_number = number.isascii() and number.isdigit() and len(number) <= _MOST_DIGITS
            if not is_number or isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
                return None
            found[topic, int(number)] = offset
    return found
