# SPDX-License-Identifier: Apache-2.0
"""What executors did in a run while more waited than they took: the throughput that a run itself shows.

Executors that have just come are slower than warm ones, and those of an accelerated run are young all the time. So what
such a run could have done is taken from its like, not from executors that were warmed up for a measurement.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from penstock.measuring.throughput import BatchEnd, throughput_of
from penstock.records import Allocation, Observation, ThroughputSample

_UNCOUNTED = 2
"""Batches after a change: the first began before it, the second waits for executors that have just come."""
_LEAST_SECONDS = 12.0
"""That a sample is taken over."""


def samples_at_maximum(observations: Sequence[Observation], cap: int) -> list[ThroughputSample]:
    """Samples of an operator's maximum, one for each so many seconds on the same nodes behind which a full batch waits.

    Parameters
    ----------
    observations
        Of one operator, look by look.
    cap
        Most records of a batch.
    """
    ends: dict[int, tuple[Allocation | None, BatchEnd]] = {}
    for one in observations:
        if one.last_batch_id is None or one.records_done is None:
            continue
        is_full = one.backlog_records is not None and one.backlog_records >= cap
        ends.setdefault(
            one.last_batch_id, (one.cluster.observed if is_full else None, BatchEnd(one.at, one.records_done))
        )
    found = []
    for allocation, group in groupby((ends[batch] for batch in sorted(ends)), key=lambda end: end[0]):
        if allocation is None:
            continue
        chosen: list[BatchEnd] = []
        for _, end in list(group)[_UNCOUNTED:]:
            chosen.append(end)
            if end.at - chosen[0].at >= _LEAST_SECONDS:
                done = throughput_of(chosen)
                assert done is not None, "two ends give one"
                found.append(ThroughputSample(allocation, done.mean, end.at))
                chosen = [end]
    return found
