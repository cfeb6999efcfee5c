# SPDX-License-Identifier: Apache-2.0
"""Operators that take records one by one (real-time mode): a single server per executor, first come first served.

In work time the n-th record of a server is done at

    d_n = max(d_(n-1), w_n) + x_n

(Lindley, "The theory of queues with a single server", 1952) with w_n the work time of its arrival and x_n its work.
With S_n = x_1 + ... + x_n this unrolls to d_n = S_n + max(d_0, max over j <= n of (w_j - S_(j-1))): a running sum and
a running maximum, over whole arrays. The sum starts anew every so many records, so that it stays small beside the
times it is added to; it starts at record numbers, not at control instants, so that cutting a run differently does not
even change the rounding.
"""

from __future__ import annotations

import numpy as np

from penstock.ports import FloatArray
from penstock.records import Allocation
from penstock.simulator.block import Block, BlockQueue, join
from penstock.simulator.draws import IndexedDraws
from penstock.simulator.service import Service
from penstock.simulator.work_time import WorkTime

_SUM_OVER = 1 << 14


class Server:
    """One server: the records it has, each with the work time at which it will be done."""

    def __init__(self, start_work: float) -> None:
        self._last = start_work
        self._sum = 0.0
        self._peak = start_work
        self._in_sum = 0
        self._queue = BlockQueue()
        self._admitted_work = 0.0

    def __len__(self) -> int:
        return len(self._queue)

    def admit(self, block: Block, arrived_work: FloatArray, work: FloatArray) -> None:
        """Take records that came after all it has."""
        if not len(block):
            return
        self._admitted_work += float(work.sum())
        done = self._done(arrived_work, work)
        self._queue.put(Block(block.arrived, block.origin, block.way, block.number, done))

    def release(self, clock: WorkTime, until: float) -> list[Block]:
        """Give the records that are done by `until`, with the times at which they were."""
        given: list[Block] = []
        while len(self._queue):
            count = clock.count_until(self._queue.first.done, until)
            if not count:
                break
            for block in self._queue.take(count):
                # Never before it came: work far below the rounding of the time itself would else end too early.
                done = np.maximum(clock.times(block.done), block.arrived)
                given.append(Block(block.arrived, block.origin, block.way, block.number, done))
        return given

    def work_done(self, now_work: float) -> float:
        """The work done so far."""
        return self._admitted_work - max(0.0, self._last - now_work)

    def _done(self, arrived: FloatArray, work: FloatArray) -> FloatArray:
        done = np.empty(len(work))
        at = 0
        while at < len(work):
            if self._in_sum == _SUM_OVER:
                self._sum, self._peak, self._in_sum = 0.0, self._last, 0
            end = min(len(work), at + _SUM_OVER - self._in_sum)
            sums = np.empty(end - at + 1)
            sums[0], sums[1:] = self._sum, work[at:end]
            np.cumsum(sums, out=sums)
            peaks = np.empty(end - at + 1)
            peaks[0] = self._peak
            np.subtract(arrived[at:end], sums[:-1], out=peaks[1:])
            np.maximum.accumulate(peaks, out=peaks)
            np.add(sums[1:], peaks[1:], out=done[at:end])
            self._sum, self._peak, self._last = float(sums[-1]), float(peaks[-1]), float(done[end - 1])
            self._in_sum += end - at
            at = end
        return done


class PerRecordStation:
    """The servers of an operator: one per executor, records dealt to them in turn.

    An executor that leaves takes no more records and works off those it has.

    Parameters
    ----------
    service
        The work of a record.
    draws
        Its numbers by record.
    start
        The allocation at time zero.
    """

    def __init__(self, service: Service, draws: IndexedDraws, start: Allocation) -> None:
        self.service = service
        self._draws = draws
        self._clock = WorkTime(start.cpu_share)
        self._active = [Server(0.0) for _ in range(start.executors)]
        self._leaving: list[Server] = []
        self._work_of_those_gone = 0.0
        self._turn = 0

    def set_share(self, at: float, share: float) -> None:
        """From `at` on every executor has this share."""
        self._clock.set_speed(at, share)

    def set_executors(self, at: float, count: int) -> None:
        """From `at` on records are dealt to so many executors."""
        while len(self._active) > count:
            self._leaving.append(self._active.pop())
        while len(self._active) < count:
            self._active.append(Server(self._clock.work(at)))
        self._turn = 0

    def admit(self, block: Block) -> None:
        """Take records that arrived after all before."""
        if not len(block):
            return
        first = int(block.number[0])
        work = self._draws.between(first, first + len(block))
        arrived = self._clock.work(block.arrived)
        count = len(self._active)
        if count == 1:
            self._active[0].admit(block, arrived, work)
            return
        for place, server in enumerate(self._active):
            mine = slice((place - self._turn) % count, None, count)
            server.admit(block.part(mine), arrived[mine], work[mine])
        self._turn = (self._turn + len(block)) % count

    def release(self, until: float) -> Block:
        """Give the records that are done by `until`, in the order in which they were."""
        servers = [*self._active, *self._leaving]
        parts = [block for server in servers for block in server.release(self._clock, until)]
        work = self._clock.work(until)
        self._work_of_those_gone += sum(server.work_done(work) for server in self._leaving if not len(server))
        self._leaving = [server for server in self._leaving if len(server)]
        whole = join(parts)
        return whole.sorted_by_done() if len(servers) > 1 else whole

    def work_done(self, now: float) -> float:
        """CPU seconds of work done so far."""
        work = self._clock.work(now)
        return self._work_of_those_gone + sum(server.work_done(work) for server in [*self._active, *self._leaving])
