# SPDX-License-Identifier: Apache-2.0
"""Measurements that wait for the controller."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import msgspec

from penstock.adaptors.agent.arrival_report import ArrivalReport
from penstock.adaptors.agent.followed_path import PathReport
from penstock.adaptors.agent.wire import REPLY_LIMIT_BYTES, Collected
from penstock.ports import ArrivalTimes, MetricSource
from penstock.records import BatchProgress

BATCH_BYTES_PER_REPLY = REPLY_LIMIT_BYTES // 4
"""What batches may take of a reply; the rest is for executors and faults."""
_FAULTS_KEPT = 100
_FAULT_CHARACTERS = 2000


class Outbox:
    """Keeps measurements until the controller confirms them, so that a lost reply loses no batch.

    Parameters
    ----------
    source
        Measures the operator.
    batches_per_reply, bytes_per_reply
        A reply ends at whichever is reached first; what is left comes with the next ones.
    batches_kept
        How many batches wait for a controller before the oldest are given up.
    arrivals
        When records arrived, for a controller that cannot find that out itself; None: nobody says.
    path
        When records that are done had first arrived at the pipeline; None: that is not followed.
    """

    def __init__(
        self,
        source: MetricSource,
        batches_per_reply: int,
        batches_kept: int,
        *,
        bytes_per_reply: int = BATCH_BYTES_PER_REPLY,
        arrivals: ArrivalTimes | None = None,
        path: PathReport | None = None,
    ) -> None:
        self._source = source
        self._arrivals = None if arrivals is None else ArrivalReport(arrivals)
        self._path = path
        self._per_reply = batches_per_reply
        self._bytes_per_reply = bytes_per_reply
        self._kept = batches_kept
        self._number = 0
        self._sent: list[BatchProgress] = []
        self._sent_faults: list[str] = []
        self._unsent: deque[BatchProgress] = deque()
        self._unsent_faults: list[str] = []
        self._faults_dropped = 0

    @property
    def is_empty(self) -> bool:
        """Whether every batch measured so far is in a reply."""
        return not self._unsent

    def add_fault(self, fault: str) -> None:
        """Report `fault` with the next reply; of many, the newest."""
        self._unsent_faults.append(fault[:_FAULT_CHARACTERS])
        if (more := len(self._unsent_faults) - _FAULTS_KEPT) > 0:
            del self._unsent_faults[:more]
            self._faults_dropped += more

    def next_reply(self, ack: int) -> Collected:
        """Return the next reply. It repeats the last one's content unless `ack` confirms that one."""
        was_received = ack == self._number
        if not was_received:
            self._unsent.extendleft(reversed(self._sent))
            self._unsent_faults[:0] = self._sent_faults
        self._sent, self._sent_faults = [], []
        telemetry = self._source.collect()
        self._unsent.extend(telemetry.batches)
        lost = len(self._unsent) - self._kept
        if lost > 0:
            for _ in range(lost):
                self._unsent.popleft()
            self.add_fault(f"{lost} batches were lost: no controller collected them in time")
        self._sent = self._take()
        if self._faults_dropped:
            self._unsent_faults.append(f"{self._faults_dropped} earlier faults are not listed")
            self._faults_dropped = 0
        self._sent_faults, self._unsent_faults = self._unsent_faults, []
        self._number += 1
        reply = replace(telemetry, batches=tuple(self._sent), faults=(*self._sent_faults, *telemetry.faults))
        arrived = None if self._arrivals is None else self._arrivals.of(reply, was_received=was_received)
        came = [] if self._path is None else self._path.next(was_received=was_received)
        return Collected(self._number, reply, arrived, came)

    def _take(self) -> list[BatchProgress]:
        """Take the batches that one reply may hold."""
        taken: list[BatchProgress] = []
        room = self._bytes_per_reply
        while self._unsent and len(taken) < self._per_reply:
            size = len(msgspec.msgpack.encode(self._unsent[0]))
            if size > self._bytes_per_reply:
                batch = self._unsent.popleft()
                self.add_fault(f"batch {batch.batch_id} is left out: its report of {size} bytes is too long to be sent")
                continue
            if size > room:
                break
            taken.append(self._unsent.popleft())
            room -= size
        return taken
