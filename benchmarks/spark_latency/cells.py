# SPDX-License-Identifier: Apache-2.0
"""What is compared: allocations, loads and kinds of arrivals, in the order in which they are measured."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from penstock.performance.adaptive_interval import AdaptiveInterval, Margin
from penstock.records import Allocation, Limits, Objective

EXECUTORS = (1, 2)
SHARES, LOADS = (0.6, 0.8, 1.0), (0.3, 0.5, 0.7)
LEARNT_SHARES, LEARNT_LOADS = (0.5, 0.7, 0.9), (0.2, 0.4, 0.6)
"""What a batch costs is learnt at these, at which nothing is predicted."""
LIMITS = Limits(min(EXECUTORS), max(EXECUTORS), tuple(sorted({*SHARES, *LEARNT_SHARES})))
POISSON, BURSTS = "poisson", "bursts"
KINDS = (POISSON, BURSTS)
OBJECTIVE = Objective("p95", 6.0)
"""As in the demo. The width of an interval around a short latency depends on it."""
_IN_A_ROW = 3
"""Cells with as many executors that follow each other: an executor takes seconds to come and go."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One allocation under one load; the load is the part of the allocation's capacity that records need."""

    kind: str
    executors: int
    share: float
    load: float

    @property
    def allocation(self) -> Allocation:
        """What the query has."""
        return Allocation(self.executors, self.share)

    def __str__(self) -> str:
        return f"{self.kind}, {self.allocation}, load {self.load:g}"


@dataclass(frozen=True, slots=True)
class Measured:
    """A cell that was measured, with what was predicted for it before; times in seconds."""

    cell: Cell
    at: float
    rate: float
    record_seconds: float
    """What a record was taken to cost when the rates were chosen."""
    records: int
    batches: int
    batch_seconds: float
    """Mean."""
    mean: float
    p95: float
    predicted_mean: float
    predicted_p95: float
    low: float
    high: float
    """The interval of the 95th percentile that was given with its prediction."""
    margin: tuple[float, float]
    """The same as scores: what the interval was made with."""
    fitted_mean: float
    fitted_p95: float
    """As predicted, with `queues: map`."""
    fixed_seconds: float
    fixed_cpu_seconds: float
    per_record_seconds: float
    """The demand as it was learnt by then."""
    version: str
    commit: str | None

    @property
    def errors(self) -> tuple[float, float]:
        """Predicted over measured, less one: mean, 95th percentile."""
        return self.predicted_mean / self.mean - 1.0, self.predicted_p95 / self.p95 - 1.0

    @property
    def is_covered(self) -> bool:
        """Whether the 95th percentile lay at or below the upper end."""
        return self.p95 <= self.high

    def to_json(self) -> dict[str, Any]:
        """One line of the file."""
        return asdict(self)


def all_cells(number: int = 1) -> list[Cell]:
    """Every cell of a round, by lot: neighbours in the list are no neighbours in load or share."""
    lot = Random(15 + number)
    by_executors = {
        n: [Cell(kind, n, share, load) for kind, share, load in product(KINDS, SHARES, LOADS)] for n in EXECUTORS
    }
    for cells in by_executors.values():
        lot.shuffle(cells)
    each = len(KINDS) * len(SHARES) * len(LOADS)
    return [
        cell
        for begin in range(0, each, _IN_A_ROW)
        for n in EXECUTORS
        for cell in by_executors[n][begin : begin + _IN_A_ROW]
    ]


def missing_cells(rounds: int, measured: Sequence[Measured]) -> list[Cell]:
    """What is still to be measured, round after round."""
    times = Counter(one.cell for one in measured)
    return [cell for number in range(1, rounds + 1) for cell in all_cells(number) if times[cell] < number]


def read(file: Path) -> list[Measured]:
    """What was measured so far, oldest first."""
    if not file.exists():
        return []
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [
        Measured(**{**line, "cell": Cell(**line["cell"]), "margin": (line["margin"][0], line["margin"][1])})
        for line in lines
    ]


def write(file: Path, measured: Measured) -> None:
    """Add a cell."""
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(_short(measured.to_json())) + "\n")


def _short(value: Any) -> Any:
    """The same in fewer digits: the file is kept in the repository."""
    if isinstance(value, dict):
        return {name: _short(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_short(one) for one in value]
    return round(value, 7) if isinstance(value, float) else value


def interval_after(measured: Sequence[Measured]) -> AdaptiveInterval:
    """The interval as `mead` would have it after these, with a plan for each cell."""
    assert OBJECTIVE.seconds is not None
    interval = AdaptiveInterval(0.9, OBJECTIVE.seconds)
    for one in measured:
        given = Margin(*one.margin, floor_seconds=interval.margin.floor_seconds)
        interval.update(one.predicted_p95, one.p95, given)
    return interval
