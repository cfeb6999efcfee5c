# SPDX-License-Identifier: Apache-2.0
"""What is simulated: operators, the streams that join them, and the paths that they form."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from penstock.errors import ConfigurationError
from penstock.paths import Path
from penstock.records import Limits
from penstock.simulator.micro_batch import MicroBatch
from penstock.simulator.service import Service

ARRIVALS = "arrivals"
"""What the streams call the pipeline's source."""

MOST_WAYS = 1000


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator, and what it may have.

    Parameters
    ----------
    name
        Unlike every other's.
    server
        The work of a record (a `Service`), or of a batch (`MicroBatch`).
    selectivity
        Records that go on for each that is done: below 1 some are dropped, above 1 some are many; drawn for each
        record, so that the mean is met.
    limits
        Executors and CPU shares; it starts at the top.
    start_up_seconds
        How long after asking a new executor takes its first record.
    """

    name: str
    server: Service | MicroBatch
    selectivity: float = 1.0
    limits: Limits = field(default_factory=Limits)
    start_up_seconds: float = 0.0

    def __post_init__(self) -> None:
        _check_selectivity(f"operator {self.name}", self.selectivity)
        if not 0.0 <= self.start_up_seconds < math.inf:
            raise ConfigurationError(
                f"operator {self.name}: start_up_seconds: {self.start_up_seconds!r} must be zero or a positive time",
                field="start_up_seconds",
            )


@dataclass(frozen=True, slots=True)
class Stream:
    """From the arrivals or an operator to an operator; each stream out of one carries a copy of every record.

    `selectivity` is the stream's own, after the operator's: with 0.3 it carries three records of ten. Streams out of
    one operator that carry parts carry different records as far as they can: 0.3 and 0.7 split them.
    """

    source: str
    target: str
    selectivity: float = 1.0

    def __post_init__(self) -> None:
        _check_selectivity(f"stream {self}", self.selectivity)

    def __str__(self) -> str:
        return f"{self.source} -> {self.target}"


@dataclass(frozen=True)
class Pipeline:
    """Operators and streams that form a graph without a cycle, all reached from the arrivals.

    Raises
    ------
    ConfigurationError
        With every mistake: names taken twice or not known, cycles, operators that nothing reaches.
    """

    operators: tuple[Operator, ...]
    streams: tuple[Stream, ...]
    name: str = "pipeline"

    def __post_init__(self) -> None:
        faults = graph_faults([o.name for o in self.operators], [(s.source, s.target) for s in self.streams])
        if faults:
            raise ConfigurationError.of_all(self.name, faults)

    @classmethod
    def of_one(cls, operator: Operator) -> Pipeline:
        """A pipeline of one operator."""
        return cls((operator,), (Stream(ARRIVALS, operator.name),), operator.name)

    @cached_property
    def by_name(self) -> Mapping[str, Operator]:
        """The operators by their names."""
        return {operator.name: operator for operator in self.operators}

    @cached_property
    def order(self) -> tuple[Operator, ...]:
        """The operators, each after all it reads from."""
        placed: list[Operator] = []
        names = {ARRIVALS}
        while len(placed) < len(self.operators):
            for operator in self.operators:
                ready = all(s.source in names for s in self.streams if s.target == operator.name)
                if ready and operator.name not in names:
                    placed.append(operator)
                    names.add(operator.name)
        return tuple(placed)

    def inputs(self, operator: str) -> tuple[Stream, ...]:
        """The streams into an operator."""
        return tuple(stream for stream in self.streams if stream.target == operator)

    def is_sink(self, operator: str) -> bool:
        """Whether no operator reads from it."""
        return all(stream.source != operator for stream in self.streams)

    @cached_property
    def ways(self) -> Mapping[str, tuple[Path, ...]]:
        """For each operator the ways from the arrivals to it, itself included, in the order of its streams."""
        ways: dict[str, tuple[Path, ...]] = {ARRIVALS: ((),)}
        for operator in self.order:
            ways[operator.name] = tuple(
                (*way, operator.name) for stream in self.inputs(operator.name) for way in ways[stream.source]
            )
            if sum(len(found) for found in ways.values()) > MOST_WAYS:
                raise ConfigurationError(
                    f"{self.name}: there are more than {MOST_WAYS} ways through it; each is accounted for by itself, "
                    "so simulate a smaller graph",
                    field="streams",
                )
        return ways

    @cached_property
    def paths(self) -> tuple[Path, ...]:
        """Every path from the arrivals to an operator that nobody reads from."""
        return tuple(way for o in self.order if self.is_sink(o.name) for way in self.ways[o.name])


def graph_faults(operators: list[str], streams: list[tuple[str, str]]) -> list[str]:
    """Say everything that is wrong with a graph."""
    faults: list[str] = []
    if not operators:
        faults.append("operators: give at least one")
    for name in sorted({name for name in operators if operators.count(name) > 1}):
        faults.append(f"operators: {name!r} is named twice; give every operator a name of its own")
    if ARRIVALS in operators:
        faults.append(f"operators: {ARRIVALS!r} is what streams call the pipeline's source; choose another name")
    known = [ARRIVALS, *operators]
    for source, target in streams:
        for end in (source, target):
            if end not in known:
                faults.append(f"streams: {source} -> {target}: {end!r} is none of {', '.join(known)}")
        if target == ARRIVALS:
            faults.append(f"streams: {source} -> {target}: nothing flows into the arrivals")
        if streams.count((source, target)) > 1:
            faults.append(f"streams: {source} -> {target} is there twice; one stream carries every record once")
    faults = list(dict.fromkeys(faults))
    if faults:
        return faults
    cycle = _cycle(operators, streams)
    if cycle:
        return [f"streams: {' -> '.join(cycle)} is a cycle; a pipeline flows one way, take one of these streams out"]
    reached = {ARRIVALS}
    for _ in operators:
        reached |= {target for source, target in streams if source in reached}
    return [
        f"operators: nothing reaches {name!r}; add a stream into it, such as {ARRIVALS} -> {name}"
        for name in operators
        if name not in reached
    ]


def _cycle(operators: list[str], streams: list[tuple[str, str]]) -> list[str]:
    """The names along a cycle, the first again at the end; empty where there is none."""
    left = set(operators)
    while free := {o for o in left if not any(s in left and t == o for s, t in streams)}:
        left -= free
    if not left:
        return []
    # Every operator left has one of them above it, so going upwards must come back to one met before.
    walk = [min(left)]
    while walk.count(walk[-1]) == 1:
        walk.append(min(s for s, t in streams if t == walk[-1] and s in left))
    return walk[walk.index(walk[-1]) :][::-1]


def _check_selectivity(where: str, value: float) -> None:
    if not 0.0 < value < math.inf:
        raise ConfigurationError(
            f"{where}: selectivity: {value!r} must be a positive number of records out for each in", field="selectivity"
        )
