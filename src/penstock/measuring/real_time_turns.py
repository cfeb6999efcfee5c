# SPDX-License-Identifier: Apache-2.0
"""Throughput of a real-time query at one size and delay after the other, taken while it runs.

A batch in real-time mode is a set time, and what it did is reported when that is over. So records are counted where
they come out: marks of how many there were so far, taken all the time. A turn is counted within one batch, for at its
border all tasks pause; the first seconds after a change do not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.errors import ClusterError
from penstock.measuring.placed_turns import PlacedThroughput
from penstock.records import BatchProgress

_PATIENCE_SECONDS = 240.0
"""How long executors may take to come or go, and a batch to end."""
_BEFORE_BORDER_SECONDS = 0.4
"""Uncounted at the end of a batch: tasks do not stop all at once."""


@dataclass(frozen=True, slots=True)
class RealTimeTurn:
    """What a query has while it is measured once.

    Attributes
    ----------
    executors
        Each on a node of its own.
    round_trip_seconds
        From each node to each other one, to the driver and to the broker.
    fetch_bytes
        The most that a consumer gets of a partition at once; it is the same as long as the query runs.
    """

    executors: int
    round_trip_seconds: float
    fetch_bytes: int

    @property
    def order(self) -> tuple[float, ...]:
        """By delay."""
        return (self.round_trip_seconds,)

    def __str__(self) -> str:
        return f"{self.executors} x {1000.0 * self.round_trip_seconds:g} ms, fetches of {self.fetch_bytes:,} bytes"


@dataclass(frozen=True, slots=True)
class WindowRules:
    """Which part of a batch is counted.

    Attributes
    ----------
    batch_seconds
        The set length of a batch.
    settle_seconds
        Pass uncounted after a batch began or a delay changed.
    least_seconds
        A shorter window does not count: the next batch is taken.
    """

    batch_seconds: float = 10.0
    settle_seconds: float = 2.5
    least_seconds: float = 4.0


@dataclass(frozen=True, slots=True)
class RealTimeJob:
    """What is measured.

    Attributes
    ----------
    operator
        The application, as a settings file has it, without its executors and its trigger.
    payload, records
        What the topic is filled with, and how many records in all.
    tasks
        Partitions of the topic; every executor has as many slots, so that one alone can run all.
    cores_per_node
        CPU of each node.
    turns
        One after the other, in this order. A query is started for each run of turns with the same fetches.
    rules
        How each is counted.
    sink
        Options of the query's producers, under Kafka's names.
    warm_up_seconds, warm_up_most_seconds
        The least and the most time that all executors run without a cap on their node's CPU before the first turn.
    """

    operator: Mapping[str, Any]
    payload: str
    records: int
    tasks: int
    cores_per_node: float
    turns: tuple[RealTimeTurn, ...]
    rules: WindowRules
    sink: Mapping[str, str]
    warm_up_seconds: float
    warm_up_most_seconds: float

    @property
    def nodes(self) -> tuple[str, ...]:
        """As many as any turn has executors."""
        return tuple(f"node-{i + 1}" for i in range(max(turn.executors for turn in self.turns)))


@dataclass(frozen=True, slots=True)
class Mark:
    """How many records had come out at an instant."""

    at: float
    records: int


class RealTimeTaking:
    """Takes one turn: sees what looks at the query bring, and says when it is over.

    Parameters
    ----------
    turn, rules
        What is wanted, and how it is counted.
    began_at
        When it was asked for.
    """

    def __init__(self, turn: RealTimeTurn, rules: WindowRules, began_at: float) -> None:
        self.turn = turn
        self._rules = rules
        self._heard_at = began_at
        self._in_force_at: float | None = None
        self._is_resized = False
        self._marks: list[Mark] = []

    def see(self, mark: Mark, batches: Sequence[BatchProgress], executors: int | None) -> PlacedThroughput | None:
        """Take in one look: what has come out, the batches that ended, the executors there are. None: go on looking.

        Raises
        ------
        ClusterError
            Nothing came out, or nothing happens any more.
        """
        self._marks.append(mark)
        if executors is not None and executors != self.turn.executors:
            self._in_force_at, self._is_resized = None, True
        elif executors is not None and self._in_force_at is None:
            self._in_force_at = self._heard_at = mark.at
        for batch in batches:
            self._heard_at = max(self._heard_at, batch.ended_at)
            if self._in_force_at is not None and (found := self._within(batch, self._in_force_at)) is not None:
                return found
        if mark.at - self._heard_at > _PATIENCE_SECONDS:
            what = "no batch ended" if self._in_force_at is not None else "its executors did not come or go"
            raise ClusterError(f"{self.turn}: {what} for {_PATIENCE_SECONDS:g} s", target="measured")
        return None

    def _within(self, batch: BatchProgress, in_force_at: float) -> PlacedThroughput | None:
        """What came out in the part of a batch that counts; None: that part is too short."""
        # Tasks get their executors when a batch begins: where some had to go, it is another batch that has the rest.
        if self._is_resized and batch.started_at < in_force_at:
            return None
        begin = max(batch.started_at, in_force_at) + self._rules.settle_seconds
        end = min(batch.ended_at, batch.started_at + self._rules.batch_seconds) - _BEFORE_BORDER_SECONDS
        counted = [mark for mark in self._marks if begin <= mark.at <= end]
        if len(counted) < 2 or counted[-1].at - counted[0].at < self._rules.least_seconds:
            return None
        first, last = counted[0], counted[-1]
        if last.records <= first.records:
            raise ClusterError(f"{self.turn}: nothing came out; give the topic more records", target="measured")
        return PlacedThroughput((last.records - first.records) / (last.at - first.at), 1)
