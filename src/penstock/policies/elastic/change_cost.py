# SPDX-License-Identifier: Apache-2.0
"""What a change of the allocation costs, learnt from the changes of the run.

Three things cost: executors that go are paid for until they are gone, and do not work; batches that run across a
change take longer than they would have, had new executors worked at once; and so does the first one that begins on
these, which load and compile their code. Those that come are not there yet: that costs time, which plans look ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import median

from penstock.records import Allocation, BatchProgress, ClusterState, Decision

_FIRST_SETTLE_SECONDS = 10.0
"""Until one was measured: an executor of Spark was seen to come within 5 to 20 s."""
_FIRST_PAUSE_SECONDS = 2.0
"""Until one was measured: a batch across a change was seen to take up to 3 s longer."""
_NEWEST = 0.5
"""How much the newest measurement counts against all before it."""
_REMEMBERED_SECONDS = 1800.0
_DWELLS = 3

ExpectedSeconds = Callable[[int, Allocation], float | None]
"""How long a batch of so many rows should take under an allocation; None: not known."""


class ChangeCost:
    """Takes every look at one operator, and measures its changes."""

    def __init__(self) -> None:
        self.settle_out_seconds = _FIRST_SETTLE_SECONDS
        """From asking for more executors until they are there."""
        self.settle_in_seconds = _FIRST_SETTLE_SECONDS
        """From asking for fewer until they are gone."""
        self.pause_out_seconds = _FIRST_PAUSE_SECONDS
        """By how much batches across a change to more executors, and the first one on these, are longer."""
        self.pause_in_seconds = _FIRST_PAUSE_SECONDS
        """By how much batches across a change to fewer executors are longer."""
        self.measured = 0
        """How many changes were seen to their end."""
        self._requested: Allocation | None = None
        self._change: tuple[float, Allocation, Allocation] | None = None
        self._across: _Across | None = None

    def watch(
        self, at: float, cluster: ClusterState, batches: Sequence[BatchProgress], expected: ExpectedSeconds
    ) -> None:
        """Take in one look."""
        requested, observed = cluster.requested, cluster.observed
        if requested is not None and requested != self._requested:
            before = self._requested or observed
            self._requested = requested
            if before is not None and before.executors != requested.executors:
                self._change = (at, before, requested)
        if self._change is not None and observed is not None:
            began, before, after = self._change
            if observed.executors == after.executors:
                self._settled(at - began, is_out=after.executors > before.executors)
                self._change = None
                self._across = _Across(began, at, before, after)
        for batch in batches:
            self._look_at(batch, expected)

    def _settled(self, seconds: float, *, is_out: bool) -> None:
        self.measured += 1
        if is_out:
            self.settle_out_seconds += _NEWEST * (seconds - self.settle_out_seconds)
        else:
            self.settle_in_seconds += _NEWEST * (seconds - self.settle_in_seconds)

    def _look_at(self, batch: BatchProgress, expected: ExpectedSeconds) -> None:
        across = self._across
        if across is None or batch.rows == 0 or batch.ended_at < across.began:
            return
        is_across = batch.started_at <= across.ended
        if is_across or across.is_out:
            seconds = across.expected_seconds(batch, expected)
            if seconds is None:
                across.is_known = False
            else:
                across.extra_seconds += max(0.0, batch.duration_seconds - seconds)
        if is_across:
            return
        self._across = None
        if not across.is_known:
            return
        if across.is_out:
            self.pause_out_seconds += _NEWEST * (across.extra_seconds - self.pause_out_seconds)
        else:
            self.pause_in_seconds += _NEWEST * (across.extra_seconds - self.pause_in_seconds)

    def of(self, before: Allocation, after: Allocation) -> float:
        """The cost of a change in executor seconds; a change of the CPU share alone is in force at once.

        Examples
        --------
        >>> ChangeCost().of(Allocation(2), Allocation(4)), ChangeCost().of(Allocation(2, 0.5), Allocation(2, 1.0))
        (8.0, 0.0)
        """
        if before.executors == after.executors:
            return 0.0
        if after.executors > before.executors:
            return self.pause_out_seconds * max(before.capacity, after.capacity)
        going = max(0.0, before.capacity - after.capacity)
        return self.pause_in_seconds * max(before.capacity, after.capacity) + self.settle_in_seconds * going


class _Across:
    """A change that is in force, until the first batch under it alone has ended."""

    def __init__(self, began: float, ended: float, before: Allocation, after: Allocation) -> None:
        self.began, self.ended, self.after = began, ended, after
        self.smaller = min(before, after, key=lambda allocation: allocation.capacity)
        self.is_out = after.executors > before.executors
        self.extra_seconds, self.is_known = 0.0, True

    def expected_seconds(self, batch: BatchProgress, expected: ExpectedSeconds) -> float | None:
        """How long a batch would have taken if new executors worked as the others do from when they came."""
        together = expected(batch.rows, self.after)
        if batch.started_at > self.ended:
            return together
        alone = expected(batch.rows, self.smaller)
        if not self.is_out or alone is None or together is None:
            return alone
        before = self.ended - batch.started_at
        return alone if before >= alone else before + (1.0 - before / alone) * together


def failed_rate(recent: Sequence[Decision], now: float, rung: Allocation, soon_seconds: float) -> float | None:
    """The least arrival rate for which an allocation, or a larger one, was not enough; None: none is known.

    It was not if more was needed again within `soon_seconds` of its being taken: whatever is known of its throughput,
    the arrivals of then were too much for it.
    """
    changes = [d for d in recent if d.is_change and not d.is_restart and 0.0 <= now - d.at <= _REMEMBERED_SECONDS]
    rates = [
        later.evidence.get("arrival_rate_rows_per_second")
        for change, later in pairwise(changes)
        if not change.is_growth
        and later.is_growth
        and later.at - change.at <= soon_seconds
        and change.target.capacity >= rung.capacity
    ]
    return min((rate for rate in rates if isinstance(rate, float)), default=None)


def usual_dwell_seconds(recent: Sequence[Decision], now: float, rung: Allocation) -> float | None:
    """How long, lately, no more than an allocation was enough: from a change to it or less until more was needed.

    None: not known. It is the median of the last three: one burst does not make every step down look short. Changes
    among smaller allocations say nothing of this one.
    """
    changes = [d for d in recent if d.is_change and not d.is_restart and 0.0 <= now - d.at <= _REMEMBERED_SECONDS]
    dwells = [
        next(
            (
                later.at - change.at
                for later in changes[i + 1 :]
                if later.is_growth and later.target.capacity > rung.capacity
            ),
            None,
        )
        for i, change in enumerate(changes)
        if not change.is_growth and change.target.capacity <= rung.capacity
    ]
    known = [dwell for dwell in dwells if dwell is not None][-_DWELLS:]
    return median(known) if len(known) == _DWELLS else None
