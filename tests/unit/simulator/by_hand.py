# SPDX-License-Identifier: Apache-2.0
"""The simulator's work done in plain Python: recursions record by record, and pipelines by a queue of events."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.records import Allocation


def end_of(start: float, work: float, speeds: Sequence[tuple[float, float]]) -> float:
    """When work begun at `start` ends, under speeds given as (since, speed), rising from time 0."""
    at = start
    for i, (since, speed) in enumerate(speeds):
        until = speeds[i + 1][0] if i + 1 < len(speeds) else float("inf")
        if until <= at:
            continue
        at = max(at, since)
        if work <= (until - at) * speed:
            return at + work / speed
        work -= (until - at) * speed
        at = until
    raise AssertionError("the last speed has no end")


def first_come_first_served(
    arrived: Sequence[float], work: Sequence[float], speeds: Sequence[tuple[float, float]]
) -> list[float]:
    """When each record of a single server is done."""
    done: list[float] = []
    for at, x in zip(arrived, work, strict=True):
        done.append(end_of(max(at, done[-1] if done else 0.0), x, speeds))
    return done


@dataclass(eq=False)
class _Server:
    queue: deque[tuple[float, float, tuple[str, ...]]] = field(default_factory=deque)
    left: float = 0.0
    """Work left of the record in service, which is the first of the queue."""
    ends: int = 0
    """Number of its latest end event: older ones are void."""


@dataclass
class _State:
    active: list[_Server]
    leaving: list[_Server] = field(default_factory=list)
    speed: float = 1.0
    changed_at: float = 0.0
    turn: int = 0
    taken: int = 0
    coming: list[tuple[float, int]] = field(default_factory=list)


class EventPipeline:
    """Operators that take records one by one, by a queue of events: the textbook way, and an independent check.

    Every operator starts with one executor at full share. Of events at one instant, arrivals come before ends, and
    both before changes.
    """

    def __init__(
        self, below: Mapping[str, Sequence[str]], work: Mapping[str, Sequence[float]], start_up: float
    ) -> None:
        self._below, self._work, self._start_up = below, work, start_up
        self._states = {name: _State([_Server()]) for name in below}
        self._events: list[tuple[float, int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._now = 0.0
        self.done: dict[tuple[str, ...], list[tuple[float, float]]] = {}
        """For each path the end and the first arrival of its records."""

    def run(
        self, first: str, arrivals: Sequence[float], changes: Sequence[tuple[float, str, Allocation]]
    ) -> None:  # fmt: skip
        """Let records arrive at an operator, and allocations be asked for."""
        for at in arrivals:
            self._at(at, 0, self._arrive, first, at, (first,))
        for at, name, wanted in changes:
            self._at(at, 3, self._ask, name, wanted)
        while self._events:
            self._now, _, _, what, arguments = heapq.heappop(self._events)
            what(*arguments)

    def _at(self, at: float, rank: int, what: Callable[..., None], *arguments: Any) -> None:
        self._number = getattr(self, "_number", 0) + 1
        heapq.heappush(self._events, (at, rank, self._number, what, arguments))

    def _arrive(self, name: str, origin: float, path: tuple[str, ...]) -> None:
        state = self._states[name]
        server = state.active[state.turn % len(state.active)]
        state.turn += 1
        self._settle(state)
        server.queue.append((self._work[name][state.taken], origin, path))
        state.taken += 1
        if len(server.queue) == 1:
            self._start(name, server)

    def _start(self, name: str, server: _Server) -> None:
        server.left = server.queue[0][0]
        self._expect(name, server)

    def _expect(self, name: str, server: _Server) -> None:
        server.ends += 1
        self._at(self._now + max(0.0, server.left) / self._states[name].speed, 2, self._end, name, server, server.ends)

    def _end(self, name: str, server: _Server, number: int) -> None:
        if number != server.ends:
            return
        self._settle(self._states[name])
        _, origin, path = server.queue.popleft()
        for target in self._below[name]:
            self._at(self._now, 1, self._arrive, target, origin, (*path, target))
        if not self._below[name]:
            self.done.setdefault(path, []).append((self._now, origin))
        if server.queue:
            self._start(name, server)

    def _settle(self, state: _State) -> None:
        """Work off what was done since the last change of anything."""
        for server in (*state.active, *state.leaving):
            server.left -= (self._now - state.changed_at) * state.speed
        state.changed_at = self._now

    def _ask(self, name: str, wanted: Allocation) -> None:
        state = self._states[name]
        self._settle(state)
        state.speed = wanted.cpu_share
        for server in (*state.active, *state.leaving):
            if server.queue:
                self._expect(name, server)
        state.coming = [(at, min(count, wanted.executors)) for at, count in state.coming]
        if wanted.executors <= len(state.active):
            state.coming = []
            if wanted.executors < len(state.active):
                state.turn = 0
            while len(state.active) > wanted.executors:
                state.leaving.append(state.active.pop())
        elif not state.coming or state.coming[-1][1] < wanted.executors:
            state.coming.append((self._now + self._start_up, wanted.executors))
            self._at(self._now + self._start_up, 3, self._come, name)

    def _come(self, name: str) -> None:
        state = self._states[name]
        self._settle(state)
        while state.coming and state.coming[0][0] <= self._now:
            _, count = state.coming.pop(0)
            if count > len(state.active):
                state.active += [_Server() for _ in range(count - len(state.active))]
                state.turn = 0
