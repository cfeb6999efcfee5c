# SPDX-License-Identifier: Apache-2.0
"""Round trips between the nodes of a cluster: a table that may have holes, and may differ by direction.

A round trip takes the same time whoever begins it, so two measurements of one pair that differ are two estimates of
one time: the larger counts. A pair that nobody measured is taken to be as far apart as the farthest pair that somebody
did, so that a hole never makes a node look near. Where nothing at all was measured, no pair is farther than another.

On Spark every batch goes through the driver, so its node takes part in whatever set of nodes is chosen: a single
executor far from the driver is far away, though there is no other executor that it could be far from.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Protocol

from penstock.errors import ConfigurationError
from penstock.units import parse_seconds

LONGEST_ROUND_TRIP_SECONDS = 86_400.0
"""A round trip that takes longer cannot be true."""
_COLUMNS = ("from", "to", "round_trip")


class NodeDistances(Protocol):
    """How far nodes are apart, as plans need it: a `LatencyMap`, or one that is kept fresh."""

    @property
    def driver(self) -> str | None:
        """The driver's node, which takes part in every set of nodes; None: it does not count."""
        ...

    def between(self, first: str, second: str) -> float:
        """The round trip between two nodes in seconds."""
        ...

    def largest(self, nodes: Iterable[str]) -> float:
        """The longest round trip within a set of nodes, the driver's included."""
        ...


@dataclass(frozen=True)
class LatencyMap:
    """How long a round trip between two nodes takes.

    Parameters
    ----------
    nodes
        The nodes, in the order in which they were named.
    measured
        A node, another one, and the seconds of a round trip between them, as somebody measured it.
    driver
        The node of the driver, which takes part in every set of nodes; None: it does not count.

    Raises
    ------
    ConfigurationError
        With every mistake: names that are empty or stand twice, times that are none, nodes that are not listed.

    Examples
    --------
    >>> near = LatencyMap(("a", "b", "c"), (("a", "b", 0.02), ("b", "a", 0.03), ("b", "c", 0.2)))
    >>> near.between("a", "b"), near.between("a", "c"), near.largest(["a", "b"])
    (0.03, 0.2, 0.03)
    >>> LatencyMap(near.nodes, near.measured, driver="c").largest(["b"])
    0.2
    """

    nodes: tuple[str, ...]
    measured: tuple[tuple[str, str, float], ...] = ()
    driver: str | None = None

    def __post_init__(self) -> None:
        faults = [f"nodes: {name!r} is no name; give each node one" for name in self.nodes if not name.strip()]
        faults += [
            f"nodes: {name!r} stands {self.nodes.count(name)} times; name it once"
            for name in dict.fromkeys(self.nodes)
            if self.nodes.count(name) > 1
        ]
        for first, second, seconds in self.measured:
            faults += [
                f"round_trip: {name!r} is not one of the nodes ({', '.join(self.nodes)}); add it, or leave the pair out"
                for name in (first, second)
                if name not in self.nodes
            ]
            fault = _time_fault(first, second, seconds)
            faults += [] if fault is None else [fault]
        if self.driver is not None and self.driver not in self.nodes:
            faults.append(f"driver: {self.driver!r} is not one of the nodes ({', '.join(self.nodes)}); add it")
        if faults:
            raise ConfigurationError.of_all("latency map", faults)

    @classmethod
    def of(
        cls, measured: Iterable[tuple[str, str, float]], nodes: Sequence[str] = (), driver: str | None = None
    ) -> LatencyMap:
        """The map of these measurements, with nodes that have none added to those that do."""
        pairs = tuple(measured)
        named = [*nodes, *(name for pair in pairs for name in pair[:2]), *([] if driver is None else [driver])]
        return cls(tuple(dict.fromkeys(named)), pairs, driver)

    @cached_property
    def _known(self) -> dict[frozenset[str], float]:
        found: dict[frozenset[str], float] = {}
        for first, second, seconds in self.measured:
            if first != second:
                pair = frozenset((first, second))
                found[pair] = max(found.get(pair, 0.0), seconds)
        return found

    @cached_property
    def assumed_seconds(self) -> float:
        """What a pair that nobody measured is taken for: the longest round trip that somebody did."""
        return max(self._known.values(), default=0.0)

    def known(self, first: str, second: str) -> float | None:
        """The round trip between two nodes as it was measured; None: it was not."""
        return 0.0 if first == second else self._known.get(frozenset((first, second)))

    def between(self, first: str, second: str) -> float:
        """The round trip between two nodes; where it was not measured, the longest there is."""
        found = self.known(first, second)
        return self.assumed_seconds if found is None else found

    def largest(self, nodes: Iterable[str]) -> float:
        """The longest round trip between any two of these nodes and the driver's; 0 for a single one, and for none."""
        chosen = set(nodes)
        taking_part = sorted(chosen | {self.driver} if chosen and self.driver is not None else chosen)
        return max((self.between(*pair) for pair in combinations(taking_part, 2)), default=0.0)

    @property
    def holes(self) -> tuple[tuple[str, str], ...]:
        """The pairs that nobody measured."""
        return tuple(pair for pair in combinations(self.nodes, 2) if self.known(*pair) is None)


class FreshLatencyMap:
    """A latency map that is asked for anew every few seconds: plans follow what was measured last.

    Parameters
    ----------
    read
        Gives the map as of now.
    keep_seconds
        How long an answer is used: one plan asks for thousands of pairs.
    monotonic
        A clock that nobody sets.
    """

    def __init__(
        self,
        read: Callable[[], LatencyMap],
        keep_seconds: float = 5.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._keep_seconds = keep_seconds
        self._monotonic = monotonic
        self._newest: tuple[float, LatencyMap] | None = None

    @property
    def now(self) -> LatencyMap:
        """The map that counts now."""
        at = self._monotonic()
        if self._newest is None or at - self._newest[0] >= self._keep_seconds:
            self._newest = (at, self._read())
        return self._newest[1]

    @property
    def driver(self) -> str | None:
        """The driver's node."""
        return self.now.driver

    def between(self, first: str, second: str) -> float:
        """The round trip between two nodes, as of now."""
        return self.now.between(first, second)

    def largest(self, nodes: Iterable[str]) -> float:
        """The longest round trip within a set of nodes, as of now."""
        return self.now.largest(nodes)


def read_latency_map(path: Path, nodes: Sequence[str] = (), driver: str | None = None) -> LatencyMap:
    """Read a table of round trips: a CSV file with the columns ``from``, ``to`` and ``round_trip``.

    Parameters
    ----------
    path
        The file. A row is a pair and its time, such as ``edge-1,edge-2,120ms``; a bare number counts seconds. Pairs
        may be missing, and may stand in both directions. Lines that begin with ``#`` are comments.
    nodes
        Only these and the driver's count, also where the table has more; empty: those of the table.
    driver
        The driver's node; None: it does not count.

    Raises
    ------
    ConfigurationError
        With every mistake and its line.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")  # some spreadsheets begin a file with a mark of its encoding
    except (OSError, UnicodeDecodeError) as fault:
        why = fault.strerror if isinstance(fault, OSError) else "it is no text"
        raise ConfigurationError(
            f"round_trips: {path} cannot be read: {why}; give a CSV file with the columns {', '.join(_COLUMNS)}",
            field="round_trips",
        ) from fault
    numbered = [(n, line) for n, line in enumerate(text.splitlines(), 1) if line.strip() and line.lstrip()[0] != "#"]
    header = _cells(numbered[0][1]) if numbered else []
    if tuple(name.strip() for name in header) != _COLUMNS:
        raise ConfigurationError(
            f"{path}: its first line is {','.join(header)!r}; write the columns {','.join(_COLUMNS)}",
            field="round_trips",
        )
    faults: list[str] = []
    pairs: list[tuple[str, str, float]] = []
    for number, line in numbered[1:]:
        try:
            pairs.append(_pair(_cells(line)))
        except ConfigurationError as fault:
            faults.append(f"line {number}: {fault}")
    if faults:
        raise ConfigurationError.of_all(str(path), faults)
    if nodes:
        counted = {*nodes, driver}
        pairs = [pair for pair in pairs if pair[0] in counted and pair[1] in counted]
    return LatencyMap.of(pairs, nodes, driver)


def _cells(line: str) -> list[str]:
    try:
        return next(csv.reader([line]))
    except csv.Error as fault:  # a cell that is longer than the csv module reads
        raise ConfigurationError(f"its cells cannot be read ({fault}); write {','.join(_COLUMNS)}") from fault


def _pair(cells: list[str]) -> tuple[str, str, float]:
    if len(cells) != len(_COLUMNS):
        raise ConfigurationError(f"{len(cells)} cells; write from,to,round_trip, such as edge-1,edge-2,120ms")
    first, second, written = (cell.strip() for cell in cells)
    if not (first and second):
        raise ConfigurationError("from and to: a node has no name; write two names")
    seconds = parse_seconds(written, "round_trip")
    fault = _time_fault(first, second, seconds)
    if fault is not None:
        raise ConfigurationError(fault)
    return first, second, seconds


def _time_fault(first: str, second: str, seconds: float) -> str | None:
    if not 0.0 <= seconds <= LONGEST_ROUND_TRIP_SECONDS:
        return (
            f"round_trip: {seconds!r} between {first} and {second} is no time of a round trip; give seconds from 0 to "
            f"{LONGEST_ROUND_TRIP_SECONDS:,.0f}"
        )
    if first == second and seconds > 0.0:
        return f"round_trip: {first} is {seconds:g} s away from itself; leave the pair out"
    return None
