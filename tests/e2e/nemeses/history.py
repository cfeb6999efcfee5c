# SPDX-License-Identifier: Apache-2.0
"""What was done to a run, and what was seen of it: a file of JSON lines, whole up to the last line whatever happens."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Load:
    """What was sent: the numbers from 0 to `records`, from `epoch` on."""

    records: int
    keys: int
    steps: tuple[tuple[float, float], ...]
    """Seconds, and records a second, one after the other."""
    epoch: float
    seed: int

    def due_at(self, number: int) -> float:
        """When a number was to be sent, in seconds since 1970."""
        at, before = self.epoch, 0.0
        for seconds, rate in self.steps:
            if number < before + seconds * rate:
                return at + (number - before) / rate
            at, before = at + seconds, before + seconds * rate
        return at


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: to whom it came, from when to when, and what was seen."""

    number: int
    kind: str
    target: str
    began: float
    ended: float
    seen: str
    is_done: bool = True
    """False: it could not be imitated, and `seen` says why."""

    def __str__(self) -> str:
        return f"fault {self.number}, {self.kind} ({self.target}), {self.ended - self.began:.0f} s"


@dataclass(frozen=True, slots=True)
class History:
    """A load and the faults that came to it, in order."""

    load: Load
    faults: tuple[Fault, ...] = field(default=())

    @classmethod
    def read(cls, path: Path) -> History:
        """Read a file that `HistoryFile` wrote. A last line that was cut off is left out."""
        first, *others = path.read_text(encoding="utf-8").splitlines()
        faults = []
        for place, line in enumerate(others):
            try:
                faults.append(Fault(**json.loads(line)))
            except json.JSONDecodeError:
                if place < len(others) - 1:
                    raise
        load = json.loads(first)
        steps = tuple((seconds, rate) for seconds, rate in load.pop("steps"))
        return cls(Load(steps=steps, **load), tuple(faults))

    def around(self, instant: float, slack_seconds: float) -> tuple[Fault, ...]:
        """The faults that were in force at an instant, or within so many seconds of it."""
        return tuple(
            fault
            for fault in self.faults
            if fault.is_done and fault.began - slack_seconds <= instant <= fault.ended + slack_seconds
        )

    def times(self) -> dict[str, int]:
        """How often each kind of fault was done."""
        counts: dict[str, int] = {}
        for fault in self.faults:
            counts[fault.kind] = counts.get(fault.kind, 0) + fault.is_done
        return counts


class HistoryFile:
    """Writes a history as it happens: a line for the load, then one for each fault."""

    def __init__(self, path: Path, load: Load) -> None:
        self._path = path
        path.write_text(json.dumps(asdict(load)) + "\n", encoding="utf-8")

    def add(self, fault: Fault) -> None:
        """Append a fault."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(fault)) + "\n")
