# SPDX-License-Identifier: Apache-2.0
"""Spark's side of the ring buffers: takes them out of the store, hands them a batch, and puts them back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from penstock.apps.one_value_state import OneValueProcessor
from penstock.apps.rolling_sort.ring_buffer import RingBuffer, Sorted


class SortProcessor(OneValueProcessor):
    """The ring buffer of a group of records.

    Parameters
    ----------
    size, every_us
        As `RingBuffer` takes them.
    """

    def __init__(self, size: int, every_us: int) -> None:
        self._size, self._every_us = size, every_us

    def handleInputRows(  # type: ignore[override]  # noqa: N802 - Spark's name, and its rows as pandas
        self, key: Any, rows: Iterator[pd.DataFrame], _timers: Any
    ) -> Iterator[pd.DataFrame]:
        """Take in the records of a batch; yield what sorts gave."""
        buffer = RingBuffer(self._size, self._every_us, self._kept())
        # A shuffle brings the records of a batch in any order.
        records = pd.concat(list(rows)).sort_values("index")
        results = buffer.take(zip(records["arrival_us"].tolist(), records["value"].tolist(), strict=True))
        self._keep(buffer.to_bytes())
        yield pd.DataFrame(results, columns=list(Sorted._fields)).assign(group=int(key[0]))
