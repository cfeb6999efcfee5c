# SPDX-License-Identifier: Apache-2.0
"""The ring buffers of the rolling sort."""

from __future__ import annotations

import random

from penstock.apps.rolling_sort.check import expected_rows
from penstock.apps.rolling_sort.ring_buffer import RingBuffer


def test_a_sort_covers_the_newest_records_before_its_time() -> None:
    """Records from the due time on are not in it, and of those before only as many as the buffer holds."""
    buffer = RingBuffer(3, every_us=10)
    assert buffer.take([(1, "d"), (2, "c"), (8, "a"), (9, "b")]) == []
    (first,) = buffer.take([(10, "z"), (11, "y")])
    assert first[:4] == (10, 3, "a", "c")
    (second,) = buffer.take([(35, "x")])
    assert second[:4] == (20, 3, "b", "z")


def test_results_do_not_depend_on_batches() -> None:
    """Cut anywhere, and kept as bytes in between, the buffer gives what a direct computation gives."""
    rng = random.Random(1)
    times = sorted(rng.randrange(1000) for _ in range(400))
    records = [(time, str(rng.randrange(50))) for time in times]
    whole = RingBuffer(20, every_us=90).take(records)
    kept, pieces = None, []
    for start in range(0, 400, 37):
        buffer = RingBuffer(20, 90, kept)
        pieces += buffer.take(records[start : start + 37])
        kept = buffer.to_bytes()
    assert pieces == whole == [row for _, row in expected_rows(records, 90, 20, groups=1)]
    assert len(whole) == 11
