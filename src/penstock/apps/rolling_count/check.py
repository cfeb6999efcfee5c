# SPDX-License-Identifier: Apache-2.0
"""The same rows without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


def expected_rows(
    records: Iterable[tuple[int, str]], every_us: int, lateness_us: int = 0
) -> dict[tuple[int, str], int]:
    """Count words by the start of their period, in microseconds, and the word.

    Parameters
    ----------
    records
        Arrival in microseconds since 1970, and line.
    every_us, lateness_us
        The options. A period counts as over when a record came so much later than its end, to the millisecond.
    """
    counts: Counter[tuple[int, str]] = Counter()
    newest = 0
    for arrival_us, line in records:
        newest = max(newest, arrival_us)
        counts.update((arrival_us // every_us * every_us, word) for word in line.split())
    # Spark counts time that has passed in whole milliseconds.
    passed_us = (newest // 1000 - lateness_us // 1000) * 1000
    return {key: count for key, count in counts.items() if key[0] + every_us <= passed_us}
