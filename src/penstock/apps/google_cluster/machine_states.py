# SPDX-License-Identifier: Apache-2.0
"""The tasks that run on some machines, and what they ask for.

Pure Python: Spark hands it events and keeps its bytes.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import NamedTuple

from penstock.apps.google_cluster.events import AFTER_THE_TRACE_US, ENDED, RUNNING

Request = tuple[int, int, int]
"""CPU, memory and disk, in units."""
_NOTHING: Request = (0, 0, 0)
_RELEVANT = RUNNING | ENDED


class TaskEvent(NamedTuple):
    """An event of a task, with its place in the trace."""

    time: int
    row: int
    machine: int
    """-1: none."""
    job: int
    task: int
    event: int
    cpu: int
    memory: int
    disk: int


class MachineState(NamedTuple):
    """A machine after an event."""

    row: int
    time: int
    machine: int
    tasks: int
    cpu: int
    memory: int
    disk: int
    is_late: bool


class MachineStates:
    """The state of a group of machines. Events come in order; those that do not are applied, and marked.

    Parameters
    ----------
    kept
        What `to_bytes` returned. None: no event yet.
    """

    def __init__(self, kept: bytes | None = None) -> None:
        self._tasks: dict[int, dict[tuple[int, int], Request]] = {}
        self._sums: dict[int, list[int]] = {}
        self._newest = (-1, -1)
        if kept is not None:
            self._tasks, self._sums, self._newest = pickle.loads(kept)

    def to_bytes(self) -> bytes:
        """Everything, for the next batch."""
        return pickle.dumps((self._tasks, self._sums, self._newest), protocol=5)

    def apply(self, events: Iterable[TaskEvent]) -> list[MachineState]:
        """Take in the events of a batch; return the state of the machine after each that matters."""
        states: list[MachineState] = []
        newest_before = self._newest
        for event in sorted(events):
            if event.machine < 0 or event.event not in _RELEVANT or event.time == AFTER_THE_TRACE_US:
                continue
            tasks = self._tasks.setdefault(event.machine, {})
            # Tasks, CPU, memory, disk: kept beside the tasks, so that an event costs the same however many there are.
            sums = self._sums.setdefault(event.machine, [0, 0, 0, 0])
            key = (event.job, event.task)
            before = tasks.pop(key, None)
            if before is not None:
                sums[0] -= 1
            if event.event in RUNNING:
                after: Request = (event.cpu, event.memory, event.disk)
                tasks[key] = after
                sums[0] += 1
            else:
                after = _NOTHING
            was = before or _NOTHING
            for i in range(3):
                sums[i + 1] += after[i] - was[i]
            stamp = (event.time, event.row)
            running, cpu, memory, disk = sums
            is_late = stamp < newest_before
            states.append(MachineState(event.row, event.time, event.machine, running, cpu, memory, disk, is_late))
            self._newest = max(self._newest, stamp)
        return states
