# SPDX-License-Identifier: Apache-2.0
"""When the records of a batch arrived: resolved once for each batch, for everybody who needs to know.

Without arrival times for a source they are interpolated: a batch takes all that came since the batch before, so its
records are taken to have come evenly between the two batch starts. What rests on such times is marked as not exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.ports import ArrivalTimes, FloatArray, SampledArrivalTimes, TimedArrivalTimes
from penstock.records import BatchProgress

_BEHIND_SECONDS = 1.0
"""How long ago arrivals must be to be taken as they come: whoever watches them is a little behind."""


@dataclass(frozen=True, eq=False, slots=True)
class BatchArrivals:
    """Arrival times of one batch's records. `times` is None where nothing is known; not exact: interpolated."""

    times: FloatArray | None
    is_exact: bool


class ArrivalResolver:
    """Finds the arrival times of batches, and of records that are not in any batch yet.

    Parameters
    ----------
    arrival_times
        Where they come from; None: they are interpolated.
    """

    def __init__(self, arrival_times: ArrivalTimes | None) -> None:
        self._source = arrival_times
        # Asked once: looking a protocol up at every batch takes longer than counting its records.
        self._sampled = arrival_times if isinstance(arrival_times, SampledArrivalTimes) else None
        self._timed = arrival_times if isinstance(arrival_times, TimedArrivalTimes) else None
        self._previous: BatchProgress | None = None
        self._taken_to: float | None = None
        self._has_begun = False
        self.is_exact = True
        """Whether every time given so far was known. Where arrivals come before batches, those of `since_last`."""

    def resolve(self, batch: BatchProgress) -> BatchArrivals:
        """Arrival times of a batch's records; call it once for each batch, in order."""
        previous, self._previous = self._previous, batch
        if self._source is not None:
            known = [times for source in batch.sources if (times := self._source.of(source)) is not None]
            if known:
                self._note_exactness()
                return BatchArrivals(np.concatenate(known), self.is_exact)
        if batch.rows == 0:
            return BatchArrivals(None, is_exact=True)
        # Batches from before somebody watched the arrivals say nothing about those that are watched.
        self.is_exact = self.is_exact and self._timed is not None
        if previous is None or previous.run_id != batch.run_id:
            return BatchArrivals(None, is_exact=False)  # what the first batch carried may have come at any time before
        middles = (np.arange(batch.rows) + 0.5) / batch.rows
        return BatchArrivals(previous.started_at + middles * (batch.started_at - previous.started_at), is_exact=False)

    @property
    def comes_before_batches(self) -> bool:
        """Whether arrivals are known as they come, before a batch has carried them."""
        return self._timed is not None

    def since_last(self, at: float) -> tuple[FloatArray | None, ...]:
        """The arrivals since the last call, as they came; None stands for a gap."""
        assert self._timed is not None
        end = at - _BEHIND_SECONDS
        if self._taken_to is None:
            self._taken_to = end
            return ()
        if end <= self._taken_to:
            return ()
        times = self._timed.between(self._taken_to, end)
        if times is None and not self._has_begun:
            return ()  # not known yet; it may be from the beginning, later
        self._has_begun, self._taken_to = True, end
        self._note_exactness()
        return (times,)

    def _note_exactness(self) -> None:
        if self._sampled is not None:
            self.is_exact = self.is_exact and self._sampled.is_exact
