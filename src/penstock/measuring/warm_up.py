# SPDX-License-Identifier: Apache-2.0
"""Whether executors are warm: the work that a record takes no longer falls.

A young JVM compiles what it runs, and Python workers import what they need. That takes tens of seconds of CPU for each
executor, and until it is done a record was seen to take three times the CPU that it takes later. Held to a fifth of a
core, an executor would compile for minutes, and one that shares the records with seven others for eight times as many
records. So executors warm up before they are held to a share, and how long that takes is not guessed but seen.
"""

from __future__ import annotations

from dataclasses import dataclass

_WINDOW_SECONDS = 3.0
"""Of work, for each executor: so much is compared with as much before it."""
_STILL_FALLING = 0.95
"""A record that takes less than this part of what it took before says that compiling goes on."""
_FIRST_BATCHES = 2
"""The first batch starts Python workers and compiles the query, so the work is counted from the second on."""


@dataclass(frozen=True, slots=True)
class _Mark:
    """What was done by the end of a batch."""

    records: int
    work_seconds: float


class WarmUp:
    """The first time of an application, before it is held to its size.

    Parameters
    ----------
    executors
        How many are warmed up side by side.
    at_least_seconds, at_most_seconds
        It takes no less time from the end of the first batch, and no more.
    """

    def __init__(self, executors: int, at_least_seconds: float, at_most_seconds: float) -> None:
        self._executors = executors
        self._at_least, self._at_most = at_least_seconds, max(at_least_seconds, at_most_seconds)
        self._first_end: float | None = None
        self._batches = 0
        self._marks: list[_Mark] = []

    def see(self, ended_at: float, records_done: int, cpu_seconds: float | None) -> None:
        """Take in the end of a batch: all records so far, and the CPU that executors have used.

        Where their CPU is not known, the time that has passed stands for it.
        """
        self._first_end = ended_at if self._first_end is None else self._first_end
        self._batches += 1
        work = ended_at * self._executors if cpu_seconds is None else cpu_seconds
        self._marks.append(_Mark(records_done, work))

    def forget(self) -> None:
        """Compare only what comes from now on: batches have another size, and so another share of fixed work."""
        self._marks = self._marks[-1:]

    def is_over(self, now: float) -> bool:
        """Whether the application is warm, or has had all its time."""
        if self._first_end is None or self._batches < _FIRST_BATCHES:
            return False
        passed = now - self._first_end
        return passed >= self._at_least and (passed >= self._at_most or self._is_settled())

    def _is_settled(self) -> bool:
        marks = self._marks[1:] if len(self._marks) == self._batches else self._marks
        last = self._back_from(len(marks) - 1, marks)
        before = None if last is None else self._back_from(last, marks)
        if last is None or before is None:
            return False
        return _work_of_a_record(marks[last], marks[-1]) >= _STILL_FALLING * _work_of_a_record(
            marks[before], marks[last]
        )

    def _back_from(self, place: int, marks: list[_Mark]) -> int | None:
        """The latest mark that lies a window of work before another."""
        if place < 0:
            return None
        until = marks[place].work_seconds - _WINDOW_SECONDS * self._executors
        return next((i for i in range(place - 1, -1, -1) if marks[i].work_seconds <= until), None)


def _work_of_a_record(first: _Mark, last: _Mark) -> float:
    return (last.work_seconds - first.work_seconds) / max(1, last.records - first.records)
