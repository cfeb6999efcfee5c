# SPDX-License-Identifier: Apache-2.0
"""Measurements that wait for the controller."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Any

from penstock.ports import MetricSource
from penstock.records import BatchProgress, encode


class Outbox:
    """Keeps measurements until the controller confirms them, so that a lost reply loses no batch."""

    def __init__(self, source: MetricSource, batches_per_reply: int, batches_kept: int) -> None:
        self._source = source
        self._per_reply = batches_per_reply
        self._kept = batches_kept
        self._number = 0
        self._sent: list[BatchProgress] = []
        self._sent_faults: list[str] = []
        self._unsent: deque[BatchProgress] = deque()
        self._unsent_faults: list[str] = []

    @property
    def is_empty(self) -> bool:
        """Whether every batch measured so far is in a reply."""
        return not self._unsent

    def add_fault(self, fault: str) -> None:
        """Report `fault` with the next reply."""
        self._unsent_faults.append(fault)

    def next_reply(self, ack: int) -> dict[str, Any]:
        """Return the next reply. It repeats the last one's content unless `ack` confirms that one."""
        if ack != self._number:
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
        self._sent = [self._unsent.popleft() for _ in range(min(self._per_reply, len(self._unsent)))]
        self._sent_faults, self._unsent_faults = self._unsent_faults, []
        self._number += 1
        reply = replace(telemetry, batches=tuple(self._sent), faults=(*self._sent_faults, *telemetry.faults))
        return {"number": self._number, "telemetry": encode(reply)}
