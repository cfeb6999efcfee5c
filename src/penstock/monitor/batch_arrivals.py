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
_NO_TIMES = "the source does not say when its records arrived"
_NOT_KNOWN = "the source could not say when some records arrived: they came before it was watched, or it did not answer"
MOST_TIMES = 5_000_000
"""Of so many records times are interpolated one by one; a batch after a long stop may carry a thousand times more."""
_SAMPLED = "more arrives than is read beside the query, so that some arrival times lie between those of a sample"


@dataclass(frozen=True, eq=False, slots=True)
class BatchArrivals:
    """Arrival times of one batch's records. `times` is None where nothing is known; not exact: interpolated, `why`.

    Of very many records each time stands for `each` of them.
    """

    times: FloatArray | None
    is_exact: bool
    why: str = ""
    each: int = 1

    @property
    def one_by_one(self) -> FloatArray | None:
        """The times where each stands for one record; None also where they are too many."""
        return self.times if self.each == 1 else None


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
            known, is_exact = [], True
            for source in batch.sources:
                times = self._source.of(source)
                if times is not None:
                    known.append(times)
                    is_exact = is_exact and self._is_answer_exact
            if known:
                self.is_exact = self.is_exact and is_exact
                return BatchArrivals(np.concatenate(known), is_exact, "" if is_exact else _SAMPLED)
        if batch.rows == 0:
            return BatchArrivals(None, is_exact=True)
        # Batches from before somebody watched the arrivals say nothing about those that are watched.
        self.is_exact = self.is_exact and self._timed is not None
        why = _NO_TIMES if self._source is None else _NOT_KNOWN
        if previous is None or previous.run_id != batch.run_id:
            return BatchArrivals(None, False, why)  # what the first batch carried may have come at any time before
        each = -(-batch.rows // MOST_TIMES)
        count = round(batch.rows / each)
        middles = (np.arange(count) + 0.5) / count
        times = previous.started_at + middles * (batch.started_at - previous.started_at)
        return BatchArrivals(times, False, why, each)

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
        self.is_exact = self.is_exact and self._is_answer_exact
        return (times,)

    @property
    def _is_answer_exact(self) -> bool:
        """Whether the source's newest answer holds no time that it interpolated."""
        return self._sampled is None or self._sampled.is_exact
