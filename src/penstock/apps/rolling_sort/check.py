# SPDX-License-Identifier: Apache-2.0
"""The same rows without Spark and without a ring buffer: at each due time, the newest records before it are sorted."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from penstock.apps.rolling_sort.ring_buffer import Sorted


def expected_rows(
    records: Sequence[tuple[int, str]], every_us: int, size: int, groups: int
) -> list[tuple[int, Sorted]]:
    """Return the group and what its sort gave, for every period that a later record of the group ended.

    Parameters
    ----------
    records
        Arrival in microseconds and text of each record, by index.
    every_us, size, groups
        The options.
    """
    rows = []
    for group in range(groups):
        of_group = records[group::groups]
        periods = sorted({arrival_us // every_us for arrival_us, _ in of_group})
        for period in periods[:-1]:
            due_us = (period + 1) * every_us
            in_order = sorted([text for arrival_us, text in of_group if arrival_us < due_us][-size:])
            checksum = zlib.crc32(b"".join(text.encode() + b"\n" for text in in_order))
            rows.append((group, Sorted(due_us, len(in_order), in_order[0], in_order[-1], checksum)))
    return rows
