# SPDX-License-Identifier: Apache-2.0
"""What a record that arrives now has before it, while a batch runs.

Records count as done when their batch ends. So a backlog rises while a batch runs, and falls by all of its records in
the end. With batches of 10 s or more that is more than what decides about an executor: a policy that takes it as it is
takes less after a batch and more before the next one's end. What a record has to wait for rises and falls with the load
alone: what is left of the running batch, all that came before it, and the records of its own batch, which end together.
By when the last batch ended, and what the allocation does a second, it is known how far the running one has come.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.ports import Look, OperatorSite
from penstock.records import Allocation

_NOT_AS_KNOWN = 2.0
"""A batch that runs this many times as long as it should does not go on as known: nothing of it counts as done."""


class RunningBatch:
    """Takes every look at one operator, and follows the batch that runs.

    Parameters
    ----------
    site
        How the operator was introduced.
    """

    def __init__(self, site: OperatorSite) -> None:
        self._cap, self._trigger = site.cap, site.trigger_seconds or 0.0
        self._began: float | None = None
        self._rows: int | None = None
        self._had: Allocation | None = None

    def watch(self, look: Look) -> None:
        """Take in one look."""
        batches, seen = look.telemetry.batches, look.observation
        if batches:
            last = batches[-1]
            self._began = max(last.ended_at, last.started_at + self._trigger)
            self._rows, self._had = None, seen.cluster.observed
        if self._began is not None and self._rows is None and seen.backlog_records is not None:
            # It took what waited when it began, which was just now.
            self._rows = seen.backlog_records if self._cap is None else min(seen.backlog_records, self._cap)

    def before_the_last(self, backlog: float, at: float, rate_of: Callable[[Allocation], float]) -> float:
        """Records that are done before one that arrives now, and with it in its batch.

        Where it is not known how far the running batch is, all of the backlog, which is as much at its highest.

        Parameters
        ----------
        backlog
            Records that wait or are in work.
        at
            When.
        rate_of
            What an allocation does, in records a second.
        """
        if self._began is None or self._rows is None or self._had is None:
            return backlog
        # Executors that came since have none of its tasks, as far as these were given out.
        done = rate_of(self._had) * max(0.0, at - self._began)
        if done > _NOT_AS_KNOWN * self._rows:
            return backlog
        before = max(0.0, backlog - min(done, float(self._rows)))
        return before + (before if self._cap is None else min(before, float(self._cap)))
