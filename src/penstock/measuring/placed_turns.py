# SPDX-License-Identifier: Apache-2.0
"""Throughput at one size and delay after the other, taken of a single running application.

Each turn asks for executors, a delay and either the most records of a batch or the time that a batch is to take. When
that is in force, some batches pass uncounted, and what comes then is counted: from the end of one full batch to that of
another.

A query with a trigger and without a cap sustains the rate whose batches take just as long as the trigger: longer ones
would fall behind, each having more to do than the one before. This rate is found with everything waiting, by giving
every batch as many records as take the time, by the line through the ones before (`batch_line`). What is left of a
difference in time is taken off by the same line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from penstock.errors import ClusterError
from penstock.measuring.batch_line import BatchLine
from penstock.measuring.throughput import BatchEnd, throughput_of
from penstock.records import BatchProgress

_PATIENCE_SECONDS = 240.0
"""How long executors may take to come or go, and a batch to end."""
_LARGEST_STEP = 2.0
"""Times as many or as few records as the batch before: one that was short by chance is no ground for more."""
_IN_TIME = 0.15
"""A batch may be off by this part of the time that it is to take."""
_LONG = 1.25
"""A batch that takes so many times the time that it is to take has too many records for certain."""
_LEAST_IN_TIME = 2
"""Batches in time one after the other before counting begins: a new cap reaches the batch after the next."""


@dataclass(frozen=True, slots=True)
class PlacedTurn:
    """What an application has while it is measured once.

    Attributes
    ----------
    executors
        Each on a node of its own.
    round_trip_seconds
        From each node to each other one, and to the driver's.
    cap
        Records of every batch; of the first one where batches are to take a time.
    batch_seconds
        The time that a batch is to take; None: it is to have `cap` records.
    """

    executors: int
    round_trip_seconds: float
    cap: int
    batch_seconds: float | None = None

    @property
    def order(self) -> tuple[float, ...]:
        """By batches, then by delay."""
        return self.batch_seconds or 0.0, self.cap, self.round_trip_seconds

    def __str__(self) -> str:
        size = f"{self.cap:,}" if self.batch_seconds is None else f"{self.batch_seconds:g} s"
        return f"{self.executors} x {1000.0 * self.round_trip_seconds:g} ms, batches of {size}"


@dataclass(frozen=True, slots=True)
class CountRules:
    """How a turn is counted.

    Attributes
    ----------
    uncounted_batches
        First batches after the turn is in force.
    least_batches, least_seconds
        Counting ends when both are reached.
    settle_seconds
        Passes uncounted where executors had to go or to come: those that are left take over their work.
    most_takes
        How often a turn is taken at most, where other guests of the machine disturb it.
    """

    uncounted_batches: int = 3
    least_batches: int = 10
    least_seconds: float = 10.0
    settle_seconds: float = 6.0
    most_takes: int = 3


@dataclass(frozen=True, slots=True)
class PlacedJob:
    """What is measured.

    Attributes
    ----------
    operator
        The application, as a settings file has it, without its executors.
    source
        Options of the replay source, without tasks and cap.
    tasks
        Of a batch.
    cores_per_node
        CPU of each node.
    turns
        One after the other, in this order.
    rules
        How each is counted.
    warm_up_seconds, warm_up_most_seconds
        The least and the most time that all executors run without a cap on their node's CPU before the first turn.
    warm_up_cap
        Records of a batch meanwhile: many, since small batches leave executors cold for minutes.
    """

    operator: Mapping[str, Any]
    source: Mapping[str, str]
    tasks: int
    cores_per_node: float
    turns: tuple[PlacedTurn, ...]
    rules: CountRules
    warm_up_seconds: float
    warm_up_most_seconds: float
    warm_up_cap: int

    @property
    def nodes(self) -> tuple[str, ...]:
        """As many as any turn has executors."""
        return tuple(f"node-{i + 1}" for i in range(max(turn.executors for turn in self.turns)))


@dataclass(frozen=True, slots=True)
class PlacedThroughput:
    """Records a second, over so many batches."""

    records_per_second: float
    batches: int
    steal: float | None = None
    """The part of the host's CPU that other guests of the machine had meanwhile; None: it is not known."""


class TurnTaking:
    """Takes one turn: sees what looks at the application bring, and says when it is over.

    Parameters
    ----------
    turn, rules
        What is wanted, and how it is counted.
    began_at
        When it was asked for.
    first_cap
        Records of the batches to begin with, where they are to take a time; None: those of the turn.
    """

    def __init__(self, turn: PlacedTurn, rules: CountRules, began_at: float, first_cap: int | None = None) -> None:
        self.turn = turn
        self.cap = first_cap if first_cap is not None and turn.batch_seconds is not None else turn.cap
        """The most records of a batch that is wanted now."""
        self._in_time = 0
        self._line = BatchLine()
        self._rules = rules
        self._heard_at = began_at
        self._settle_seconds = 0.0
        self._in_force_at: float | None = None
        self._uncounted = 0
        self._ends: list[BatchEnd] = []

    def see(self, at: float, batches: Sequence[BatchProgress], executors: int | None) -> PlacedThroughput | None:
        """Take in one look: the batches that ended since the last, and the executors there are. None: go on looking.

        Raises
        ------
        ClusterError
            The records have run out, or nothing happens any more.
        """
        if executors is not None and executors != self.turn.executors:
            # One that died, too: what was counted with fewer is of another turn.
            self._in_force_at, self._uncounted, self._in_time, self._ends = None, 0, 0, []
            self._line = BatchLine()
            self._settle_seconds = self._rules.settle_seconds
        elif executors is not None and self._in_force_at is None:
            self._in_force_at = self._heard_at = at + self._settle_seconds
        for batch in batches:
            self._heard_at = max(self._heard_at, batch.ended_at)
            if self._in_force_at is not None and batch.started_at >= self._in_force_at:
                self._take(batch)
            if (found := self._counted()) is not None:
                return found
        if at - self._heard_at > _PATIENCE_SECONDS:
            what = "no batch ended" if self._in_force_at is not None else "its executors did not come or go"
            raise ClusterError(f"{self.turn}: {what} for {_PATIENCE_SECONDS:g} s", target="measured")
        return None

    def _take(self, batch: BatchProgress) -> None:
        if self.turn.batch_seconds is not None:
            if not self._took_its_time(batch, self.turn.batch_seconds):
                return
        elif batch.rows != self.turn.cap:
            if self._ends or batch.rows == 0:
                raise ClusterError(
                    f"{self.turn}: a batch had {batch.rows:,} records; let more arrive", target="measured"
                )
            return  # the first batch may still have the cap of the turn before
        self._uncounted += 1
        if self._uncounted >= max(1, self._rules.uncounted_batches):
            done = self._ends[-1].records_done if self._ends else 0
            self._ends.append(BatchEnd(batch.ended_at, done + batch.rows))

    def _took_its_time(self, batch: BatchProgress, wanted: float) -> bool:
        """Give later batches as many records as take the time; whether batches do, so that they count."""
        if batch.rows == 0 or batch.duration_seconds <= 0.0:
            raise ClusterError(f"{self.turn}: a batch had no records; let more arrive", target="measured")
        self._line.add(batch.rows, batch.duration_seconds)
        off = batch.duration_seconds / wanted
        if self._line.is_known:
            aim = self._line.rows_for(wanted, batch.rows, batch.duration_seconds)
            self._in_time = self._in_time + 1 if abs(off - 1.0) <= _IN_TIME else 0
        else:
            # Other sizes are looked at first: what a record takes has to be seen.
            aim = batch.rows * (_LARGEST_STEP if off < _LONG else 1.0 / _LARGEST_STEP)
        self.cap = max(1, round(min(max(aim, batch.rows / _LARGEST_STEP), batch.rows * _LARGEST_STEP)))
        return bool(self._ends) or self._in_time >= _LEAST_IN_TIME

    def _counted(self) -> PlacedThroughput | None:
        if len(self._ends) <= self._rules.least_batches:
            return None
        if self._ends[-1].at - self._ends[0].at < self._rules.least_seconds:
            return None
        found = throughput_of(self._ends)
        assert found is not None, "two ends give one"
        if self.turn.batch_seconds is None:
            return PlacedThroughput(found.mean, found.batches)
        seconds = (self._ends[-1].at - self._ends[0].at) / found.batches
        rows = self._line.rows_for(self.turn.batch_seconds, found.mean * seconds, seconds)
        return PlacedThroughput(rows / self.turn.batch_seconds, found.batches)


class SizedTurn(Protocol):
    """A turn, as far as its place among others goes."""

    @property
    def executors(self) -> int:
        """How many it has."""
        ...

    @property
    def order(self) -> tuple[float, ...]:
        """Among turns with as many executors."""
        ...


Turn = TypeVar("Turn", bound=SizedTurn)


def as_ordered(turns: Sequence[Turn]) -> list[Turn]:
    """The turns so that executors only ever go, never come: a new one would have to warm up.

    With each number of executors there are rounds, each with every turn once: delays rise in one and fall in the next,
    so that a drift of the machine falls on all of them.
    """
    found: list[Turn] = []
    left = Counter(turns)
    for size in sorted({turn.executors for turn in turns}, reverse=True):
        kinds = sorted((t for t in left if t.executors == size), key=lambda turn: turn.order)
        for number in range(max(left[turn] for turn in kinds)):
            this_round = [turn for turn in kinds if left[turn] > number]
            found += this_round if number % 2 == 0 else this_round[::-1]
    return found
