# SPDX-License-Identifier: Apache-2.0
"""Spark's offset texts."""

from __future__ import annotations

import pytest

from penstock.adaptors.kafka.offsets import parse_offsets


def test_every_partition_of_every_topic_is_read() -> None:
    """Offsets of several topics and partitions come out under their topic and number."""
    text = '{"clicks": {"0": 17, "10": 4}, "views": {"2": 0}}'
    assert parse_offsets(text) == {("clicks", 0): 17, ("clicks", 10): 4, ("views", 2): 0}


@pytest.mark.parametrize(
    "text",
    [None, "", "{", "[]", "{}", "7", '{"logOffset": 3}', '{"epoch_us": 1, "index": 2}', '{"t": {"0": null}}',
     '{"t": {"a": 1}}', '{"t": {"0": -2}}'],
)  # fmt: skip
def test_other_sources_offsets_are_not_taken_for_kafkas(text: str | None) -> None:
    """A text that is not of a Kafka source is None, never an offset of zero."""
    assert parse_offsets(text) is None
