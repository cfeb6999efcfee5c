# SPDX-License-Identifier: Apache-2.0
"""Spark's offset texts, read and written."""

from __future__ import annotations

import pytest

from penstock.adaptors.kafka.offsets import parse_offsets, render_offsets


def test_what_was_written_is_read_back() -> None:
    """Offsets of several topics and partitions survive the way to text and back."""
    offsets = {("clicks", 0): 17, ("clicks", 10): 4, ("views", 2): 0}
    assert parse_offsets(render_offsets(offsets)) == offsets


@pytest.mark.parametrize(
    "text",
    [None, "", "{", "[]", "{}", "7", '{"logOffset": 3}', '{"epoch_us": 1, "index": 2}', '{"t": {"0": null}}',
     '{"t": {"a": 1}}', '{"t": {"0": -2}}'],
)  # fmt: skip
def test_other_sources_offsets_are_not_taken_for_kafkas(text: str | None) -> None:
    """A text that is not of a Kafka source is None, never an offset of zero."""
    assert parse_offsets(text) is None
