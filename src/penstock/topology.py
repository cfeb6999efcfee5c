# SPDX-License-Identifier: Apache-2.0
"""The shape of a pipeline: operators, the streams that join them, and the paths that they form.

Settings, models, the simulator and running pipelines all describe who reads from whom with this one type.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import TypeAlias

from penstock.errors import ConfigurationError

Path: TypeAlias = tuple[str, ...]
"""Names of operators, from one that reads the arrivals to one that nobody reads from."""

ARRIVALS = "arrivals"
"""The name of the pipeline's source."""

MOST_PATHS = 1000
"""Each path has an objective and an account of its own, so a graph with more of them is refused."""

_ARROW = "->"


def path_text(path: Path) -> str:
    """Write a path for people and files.

    Examples
    --------
    >>> path_text(("parser", "matcher"))
    'parser -> matcher'
    """
    return f" {_ARROW} ".join(path)


def parse_path(text: str) -> Path:
    """Read what `path_text` wrote.

    Examples
    --------
    >>> parse_path("parser->matcher")
    ('parser', 'matcher')
    """
    return tuple(name.strip() for name in text.split(_ARROW))


@dataclass(frozen=True, slots=True)
class Stream:
    """Carries records from the arrivals or an operator to an operator.

    Every stream out of an operator carries a copy of each record. `selectivity` is the stream's own, after the
    operator's: a stream with 0.3 carries three records of ten. Streams out of one operator that carry parts carry
    different records as far as they can: 0.3 and 0.7 split them.
    """

    source: str
    target: str
    selectivity: float = 1.0

    def __post_init__(self) -> None:
        check_selectivity(f"stream {self}", self.selectivity)

    def __str__(self) -> str:
        return f"{self.source} {_ARROW} {self.target}"


@dataclass(frozen=True)
class Topology:
    """Operators and streams that form a graph without a cycle, all reached from the arrivals.

    Raises
    ------
    ConfigurationError
        With every mistake: repeated or unknown names, cycles, operators that nothing reaches.

    Examples
    --------
    >>> fork = Topology.from_inputs({"parser": [ARRIVALS], "counter": ["parser"], "matcher": ["parser"]})
    >>> fork.paths
    (('parser', 'counter'), ('parser', 'matcher'))
    >>> fork.order, fork.sinks
    (('parser', 'counter', 'matcher'), ('counter', 'matcher'))
    """

    operators: tuple[str, ...]
    streams: tuple[Stream, ...]
    name: str = "pipeline"

    def __post_init__(self) -> None:
        faults = topology_faults(self.operators, [(s.source, s.target) for s in self.streams])
        if faults:
            raise ConfigurationError.of_all(self.name, faults)

    @classmethod
    def of_one(cls, operator: str) -> Topology:
        """A pipeline of one operator."""
        return cls((operator,), (Stream(ARRIVALS, operator),), operator)

    @classmethod
    def from_inputs(cls, inputs: Mapping[str, Sequence[str]], name: str = "pipeline") -> Topology:
        """A pipeline given as what each operator reads from."""
        streams = tuple(Stream(source, target) for target, sources in inputs.items() for source in sources)
        return cls(tuple(inputs), streams, name)

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The operators, each after all that it reads from, otherwise in the order given."""
        sorter = TopologicalSorter({name: [s.source for s in self.inputs(name)] for name in self.operators})
        sorter.prepare()
        placed: list[str] = []
        waiting: list[str] = []
        while sorter.is_active():
            waiting += sorter.get_ready()
            first = min(waiting, key=lambda name: -1 if name == ARRIVALS else self.operators.index(name))
            waiting.remove(first)
            sorter.done(first)
            placed.append(first)
        return tuple(name for name in placed if name != ARRIVALS)

    def inputs(self, operator: str) -> tuple[Stream, ...]:
        """The streams into an operator."""
        return tuple(stream for stream in self.streams if stream.target == operator)

    def outputs(self, operator: str) -> tuple[Stream, ...]:
        """The streams out of an operator."""
        return tuple(stream for stream in self.streams if stream.source == operator)

    @cached_property
    def entries(self) -> tuple[str, ...]:
        """The operators that read the arrivals."""
        return tuple(name for name in self.order if any(s.source == ARRIVALS for s in self.inputs(name)))

    @cached_property
    def sinks(self) -> tuple[str, ...]:
        """The operators that nobody reads from."""
        return tuple(name for name in self.order if not self.outputs(name))

    @cached_property
    def ways(self) -> Mapping[str, tuple[Path, ...]]:
        """For each operator the ways from the arrivals to it, itself included, in the order of its streams."""
        ways: dict[str, tuple[Path, ...]] = {ARRIVALS: ((),)}
        for name in self.order:
            ways[name] = tuple((*way, name) for stream in self.inputs(name) for way in ways[stream.source])
            if sum(len(found) for found in ways.values()) > MOST_PATHS:
                raise ConfigurationError(
                    f"{self.name}: there are more than {MOST_PATHS} ways through it, and each has an account of its "
                    "own; use a smaller graph",
                    field="operators",
                )
        return ways

    @cached_property
    def paths(self) -> tuple[Path, ...]:
        """Every path from the arrivals to an operator that nobody reads from."""
        return tuple(way for name in self.sinks for way in self.ways[name])

    def visits(self, selectivity: Mapping[str, float]) -> dict[str, float]:
        """Records that each operator takes for one that arrives, given each operator's records out for one in.

        Examples
        --------
        >>> Topology.from_inputs({"a": [ARRIVALS], "b": ["a"], "c": ["a", "b"]}).visits({"a": 0.5, "b": 2.0})
        {'a': 1.0, 'b': 0.5, 'c': 1.5}
        """
        visits: dict[str, float] = {}
        for name in self.order:
            visits[name] = math.fsum(
                s.selectivity * (1.0 if s.source == ARRIVALS else visits[s.source] * selectivity.get(s.source, 1.0))
                for s in self.inputs(name)
            )
        return visits


def topology_faults(operators: Sequence[str], streams: Sequence[tuple[str, str]]) -> list[str]:
    """Every mistake in a graph, each with what to do about it; empty where it is a pipeline."""
    faults: list[str] = []
    if not operators:
        faults.append("operators: give at least one")
    for name in sorted({name for name in operators if list(operators).count(name) > 1}):
        faults.append(f"operators: {name!r} is named twice; give every operator a name of its own")
    if ARRIVALS in operators:
        faults.append(f"operators: {ARRIVALS!r} is the name of the pipeline's source; choose another name")
    known = [ARRIVALS, *operators]
    for source, target in streams:
        arrow = f"{source} {_ARROW} {target}"
        faults += [
            f"streams: {arrow}: {end!r} is not one of {', '.join(known)}"
            for end in (source, target)
            if end not in known
        ]
        if target == ARRIVALS:
            faults.append(f"streams: {arrow}: nothing flows into the arrivals")
        if list(streams).count((source, target)) > 1:
            faults.append(f"streams: {arrow} is there twice; one stream carries every record once")
    faults = list(dict.fromkeys(faults))
    if faults:
        return faults
    inputs = {name: [source for source, target in streams if target == name] for name in operators}
    try:
        order = list(TopologicalSorter(inputs).static_order())
    except CycleError as fault:
        return [
            f"streams: {path_text(tuple(fault.args[1]))} is a cycle; a pipeline flows one way, so remove one stream"
        ]
    reached = {ARRIVALS}
    for name in order:
        if any(source in reached for source in inputs.get(name, ())):
            reached.add(name)
    return [
        f"operators: nothing reaches {name!r}; add a stream into it, such as {ARRIVALS} {_ARROW} {name}"
        for name in operators
        if name not in reached
    ]


def input_faults(inputs: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """Every mistake in operators that are given one after the other, each with what it reads from.

    An operator reads the arrivals or what stands above it, so that no circle can be written. Each fault names the
    field of a settings file.

    Examples
    --------
    >>> input_faults([("parser", [ARRIVALS]), ("counter", ["parsr"])])
    ["operators.1.input: 'parsr' is none of arrivals, parser; an operator reads what stands above it"]
    """
    faults: list[str] = []
    known, every = [ARRIVALS], [name for name, _ in inputs]
    for i, (name, sources) in enumerate(inputs):
        where = f"operators.{i}"
        if not sources:
            faults.append(f"{where}.input: it reads nothing; give {ARRIVALS} or the name of an operator above it")
        for source in dict.fromkeys(sources):
            if source in every and source not in known:
                faults.append(
                    f"{where}.input: {source!r} does not stand above it; move it up, or, where the two read from "
                    "each other, cut the circle: records would go round for ever"
                )
            elif source not in known:
                faults.append(
                    f"{where}.input: {source!r} is none of {', '.join(known)}; an operator reads what stands above it"
                )
            if list(sources).count(source) > 1:
                faults.append(f"{where}.input: {source!r} is there twice; one stream carries every record once")
        if name == ARRIVALS:
            faults.append(f"{where}.name: {name!r} is the name of the pipeline's source; choose another name")
        elif name in known:
            faults.append(f"{where}.name: {name!r} is taken; give every operator a name of its own")
        known.append(name)
    return faults


def check_selectivity(where: str, value: float) -> None:
    """Refuse a selectivity that is not a positive number."""
    if not 0.0 < value < math.inf:
        raise ConfigurationError(
            f"{where}: selectivity: {value!r} must be a positive number of records out for each in", field="selectivity"
        )
