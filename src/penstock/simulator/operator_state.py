# SPDX-License-Identifier: Apache-2.0
"""One operator while it runs: records in, records out, and an allocation that changes under way."""

from __future__ import annotations

import math
from collections import Counter, deque
from dataclasses import replace
from typing import Protocol

import numpy as np

from penstock.latency_map import LatencyMap
from penstock.ports import FloatArray
from penstock.records import Allocation
from penstock.simulator.block import Block, IntArray, join
from penstock.simulator.draws import IndexedDraws
from penstock.simulator.micro_batch import FinishedBatch, MicroBatch, MicroBatchStation
from penstock.simulator.per_record import PerRecordStation
from penstock.simulator.pipeline import Operator


class Station(Protocol):
    """What serves an operator's records. Calls come in the order of time."""

    def set_share(self, at: float, share: float) -> None:
        """From `at` on every executor has this share."""
        ...

    def set_executors(self, at: float, count: int) -> None:
        """From `at` on there are so many executors."""
        ...

    def admit(self, block: Block) -> None:
        """Take records that arrived after all before."""
        ...

    def release(self, until: float) -> Block:
        """Give the records that are done by `until`, in the order in which they were."""
        ...

    def work_done(self, now: float) -> float:
        """CPU seconds of work done so far."""
        ...


class OperatorState:
    """An operator under the virtual clock.

    Parameters
    ----------
    operator
        What it is.
    seed
        Of the run.
    start
        The allocation at time zero; where the limits have nodes and it names none, the first of them are taken.
    round_trips
        How far nodes are apart; None: not at all.
    """

    def __init__(self, operator: Operator, seed: int, start: Allocation, round_trips: LatencyMap | None = None) -> None:
        self.operator = operator
        self._round_trips = round_trips
        start = self._placed(start)
        self._batches = (
            MicroBatchStation(operator.server, seed, operator.name, start)
            if isinstance(operator.server, MicroBatch)
            else None
        )
        self._station: Station = self._batches or _per_record(operator, seed, start)
        self._share = start.cpu_share
        self._executors = start.executors
        self._nodes = start.nodes
        self._asked = start
        self._coming: list[tuple[float, int]] = []
        """When there will be how many executors, both rising."""
        self._moving: tuple[float, Allocation] | None = None
        """When executors will stand as they were asked to, where nodes are chosen or a change is a standstill."""
        self._set_delay(0.0)
        self._had: list[tuple[float, Allocation]] = [(0.0, start)]
        self._history: deque[FloatArray] | None = None
        self._history_seconds = 0.0
        self._history_starts_at = 0
        self._finished: list[Block] = []
        self.arrived = 0
        self.done = 0

    # --- the allocation --------------------------------------------------------------------------------------

    @property
    def allocation(self) -> Allocation:
        """What is there now."""
        return Allocation(self._executors, self._share, nodes=self._nodes)

    @property
    def asked(self) -> Allocation:
        """What was asked for last."""
        return self._asked

    def ask(self, at: float, wanted: Allocation) -> None:
        """Change the share and give executors up at once; get new executors after the start-up time."""
        wanted = self._placed(wanted)
        self._asked = wanted
        self._share = wanted.cpu_share
        self._station.set_share(at, wanted.cpu_share)
        if self._nodes or wanted.nodes or self.operator.standstill_seconds > 0.0:
            self._move(at, wanted)
            self._note(at)
            return
        # Those on their way and still wanted come when they would have; what is beyond them starts up now.
        self._coming = [(due, min(count, wanted.executors)) for due, count in self._coming]
        if wanted.executors <= self._executors:
            self._coming = []
            self._set_executors(at, wanted.executors)
        elif not self._coming or self._coming[-1][1] < wanted.executors:
            self._coming.append((at + self.operator.start_up_seconds, wanted.executors))
            if self._coming[0][0] <= at:
                self._executors_come()
        self._note(at)

    def _move(self, at: float, wanted: Allocation) -> None:
        """Let executors stand as wanted: after a standstill, or when new ones have come; some are given up at once."""
        standstill, now = self.operator.standstill_seconds, self.allocation
        if (wanted.executors, wanted.nodes) == (now.executors, now.nodes):
            self._moving = None
            return
        gives_up = not standstill and all(count <= dict(now.nodes).get(node, 0) for node, count in wanted.nodes)
        due = at if gives_up else at + max(standstill, self.operator.start_up_seconds)
        if standstill and self._batches is not None:
            self._batches.pause(due)
        self._moving = (due, wanted)
        if due <= at:
            self._moved()

    def _moved(self) -> None:
        assert self._moving is not None
        (at, wanted), self._moving = self._moving, None
        self._nodes = wanted.nodes
        self._set_executors(at, wanted.executors)
        self._set_delay(at)
        self._note(at)

    def _set_delay(self, at: float) -> None:
        if self._batches is not None and self._round_trips is not None:
            self._batches.set_delay(at, self._round_trips.largest(node for node, _ in self._nodes))

    def _placed(self, wanted: Allocation) -> Allocation:
        limits = self.operator.limits
        if wanted.nodes or not limits.nodes:
            return wanted
        most = limits.executors_per_node or -(-wanted.executors // len(limits.nodes))
        places = [node for node in limits.nodes for _ in range(most)][: wanted.executors]
        return replace(wanted, nodes=tuple(sorted(Counter(places).items())))

    def _executors_come(self) -> None:
        at, count = self._coming.pop(0)
        self._set_executors(at, count)
        self._note(at)

    def _set_executors(self, at: float, count: int) -> None:
        if count != self._executors:
            self._executors = count
            self._station.set_executors(at, count)

    def _note(self, at: float) -> None:
        if self._had[-1][1] != self.allocation:
            self._had.append((at, self.allocation))

    def used(self, until: float) -> tuple[float, float]:
        """Executor seconds, and executor seconds weighted by the share, up to `until`."""
        executors, capacity = 0.0, 0.0
        for i, (since, had) in enumerate(self._had):
            end = until if i + 1 == len(self._had) else min(until, self._had[i + 1][0])
            executors += max(0.0, end - since) * had.executors
            capacity += max(0.0, end - since) * had.capacity
        return executors, capacity

    def work_done(self, now: float) -> float:
        """CPU seconds of work done up to `now`."""
        return self._station.work_done(now)

    def task_seconds(self, now: float) -> float:
        """Time that each executor has spent in tasks up to `now`; 0 for an operator without batches."""
        return 0.0 if self._batches is None else self._batches.task_seconds(now)

    # --- the records -----------------------------------------------------------------------------------------

    def advance(self, until: float, arrived: FloatArray, origin: FloatArray, way: IntArray | None) -> Block:
        """Take what arrived up to `until`; gives what is done by then, in order."""
        numbers = np.arange(self.arrived, self.arrived + len(arrived), dtype=np.int64)
        block = Block(arrived, origin, way, numbers, arrived)
        self.arrived += len(arrived)
        self._remember(arrived, until)
        parts: list[Block] = []
        if self._moving is not None and self._moving[0] <= until:
            at = self._moving[0]
            early = int(np.searchsorted(block.arrived, at, side="right"))
            self._station.admit(block.part(slice(0, early)))
            # Up to the instant before: a batch that starts with the change has what it brings.
            parts.append(self._station.release(math.nextafter(at, -math.inf)))
            self._moved()
            block = block.part(slice(early, None))
        while self._coming and self._coming[0][0] <= until:
            at = self._coming[0][0]
            early = int(np.searchsorted(block.arrived, at, side="right"))
            self._station.admit(block.part(slice(0, early)))
            parts.append(self._station.release(at))
            self._executors_come()
            block = block.part(slice(early, None))
        self._station.admit(block)
        parts.append(self._station.release(until))
        finished = join([part for part in parts if len(part)])
        self.done += len(finished)
        if self._batches is None and self._history is not None:
            self._finished.append(finished)
        return finished

    def take_batches(self) -> list[FinishedBatch] | None:
        """Give the batches ended since the last call; None for an operator without batches."""
        return None if self._batches is None else self._batches.take_finished()

    def take_done(self) -> Block:
        """Give the records done since the last call, of an operator without batches that is watched."""
        finished, self._finished = self._finished, []
        return join([block for block in finished if len(block)])

    # --- arrivals, for whoever watches ---------------------------------------------------------------------------

    def watch(self, history_seconds: float) -> None:
        """Remember arrivals of the last `history_seconds`, and what is done until it is taken."""
        if self.arrived:
            raise ValueError(f"{self.operator.name}: watch it before the first record arrives")
        self._history = deque()
        self._history_seconds = history_seconds
        if self._batches is not None:
            self._batches.is_watched = True

    def arrived_by(self, at: float) -> int | None:
        """How many records have arrived at it up to `at`; None where that is not remembered any more."""
        if self._history is None:
            return None
        if not self._history:
            return 0
        if at < float(self._history[0][0]):
            return 0 if self._history_starts_at == 0 else None
        count = self._history_starts_at
        for times in self._history:
            if float(times[-1]) > at:
                return count + int(np.searchsorted(times, at, side="right"))
            count += len(times)
        return count

    def _remember(self, arrived: FloatArray, until: float) -> None:
        if self._history is None:
            return
        if len(arrived):
            self._history.append(arrived)
        # One block stays even when it is old, so that "none since" differs from "not known".
        while len(self._history) > 1 and float(self._history[0][-1]) < until - self._history_seconds:
            self._history_starts_at += len(self._history.popleft())


def _per_record(operator: Operator, seed: int, start: Allocation) -> PerRecordStation:
    assert not isinstance(operator.server, MicroBatch)
    return PerRecordStation(operator.server, IndexedDraws(operator.server.draw, seed, f"{operator.name}/work"), start)
