# SPDX-License-Identifier: Apache-2.0
"""Task events as the trace writes them: thirteen fields, of which nine matter here."""

from __future__ import annotations

from enum import IntEnum

FIELDS = 13
TIME, JOB, TASK, MACHINE, EVENT, CPU, MEMORY, DISK = 0, 2, 3, 4, 5, 9, 10, 11
"""Places of the fields in a row."""

UNITS = 10**12
"""A request of 1 (all that the largest machine has) in the whole numbers that requests are added up in."""
DECIMALS = 12

TRACE_START_US = 600_000_000
"""The file's time at which the trace starts; 0 stands for everything before."""
AFTER_THE_TRACE_US = (1 << 63) - 1
"""The file's time for everything after the end of the trace."""


class Event(IntEnum):
    """What happened to a task."""

    SUBMIT = 0
    SCHEDULE = 1
    EVICT = 2
    FAIL = 3
    FINISH = 4
    KILL = 5
    LOST = 6
    UPDATE_PENDING = 7
    UPDATE_RUNNING = 8


RUNNING = frozenset({Event.SCHEDULE, Event.UPDATE_RUNNING})
"""After these a task runs on the machine."""
ENDED = frozenset({Event.EVICT, Event.FAIL, Event.FINISH, Event.KILL, Event.LOST})
"""After these it does not."""
