# SPDX-License-Identifier: Apache-2.0
"""Batches that ran wholly under one allocation: those of which it can be said what they cost."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.records import Allocation, BatchProgress


class SteadyBatches:
    """Separates batches that ran under one allocation from those during which CPU or executors changed."""

    def __init__(self) -> None:
        self.allocation: Allocation | None = None
        """What the operator is seen to have."""
        self.batches_since = 0
        """Batches that ran wholly under it."""
        self._since = 0.0

    def take(
        self, at: float, observed: Allocation | None, batches: Sequence[BatchProgress]
    ) -> list[tuple[BatchProgress, Allocation]]:
        """Give those of the new batches that began after what is observed now was first seen, and what that is."""
        if observed != self.allocation:
            self.allocation, self._since, self.batches_since = observed, at, 0
        if observed is None:
            return []
        steady = [(batch, observed) for batch in batches if batch.started_at >= self._since]
        self.batches_since += len(steady)
        return steady
