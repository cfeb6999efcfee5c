# SPDX-License-Identifier: Apache-2.0
"""Which nodes an operator's executors stand on.

Three ways to choose. *Nearest* (Gesscale, Section IV-E) adds the node with the lowest delay to those in use and
removes the one with the greatest. *Random* knows no delays, as the auto-scalers that Gesscale is compared with.
*Best* takes, of all sets of so many places, one whose longest round trip is least: by the model that is the set of
the greatest throughput. Executors on one node have no delay between them. Where the driver's node is known, it counts
as one in use: the first executor comes to the node that is nearest to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb
from typing import Literal, get_args

import numpy as np

from penstock.errors import ConfigurationError
from penstock.latency_map import NodeDistances
from penstock.ports import FloatArray
from penstock.records import Allocation, Limits

Choice = Literal["nearest", "random", "best"]
CHOICES: tuple[Choice, ...] = get_args(Choice)
_MOST_SETS = 20_000
"""So many sets are looked at one by one; beyond, sets are grown from every node, nearest first."""

Pick = Callable[[Sequence[str], Sequence[str]], str]
"""Takes the nodes to choose among and those in use; gives one of the former."""


@dataclass(frozen=True)
class Placement:
    """Puts executors on nodes.

    Parameters
    ----------
    round_trips
        How far the nodes are apart; None: nobody knows, and all are equally near.
    choice
        How nodes are chosen.
    seed
        Of random choices: the same instant and the same seed give the same nodes.
    """

    round_trips: NodeDistances | None = None
    choice: Choice = "nearest"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.choice not in CHOICES:
            raise ConfigurationError(
                f"nodes: {self.choice!r} is no way to choose; use one of {', '.join(CHOICES)}", field="nodes"
            )

    def resized(
        self,
        current: Allocation,
        executors: int,
        limits: Limits,
        at: float = 0.0,
        room: Mapping[str, int] | None = None,
    ) -> Allocation:
        """The current allocation with another number of executors, on nodes that may be chosen.

        Parameters
        ----------
        current
            Where executors stand now; those on nodes that may not be chosen any more leave first.
        executors
            How many there shall be, within the limits; there are fewer where the nodes hold no more.
        limits
            Which nodes may be chosen, and how many executors each holds.
        at
            The instant of the plan: it numbers random choices.
        room
            Nodes that hold fewer executors than the limits allow, with how many; one that holds 0 is left out. It does
            not count where too little is left for the least of executors.

        Notes
        -----
        Without nodes in the limits, and where these hold fewer executors than the limits want, the cluster chooses.
        """
        holds = _held(limits, room or {})
        if sum(holds.values()) < limits.min_executors:
            holds = _held(limits, {})
        within = min(max(executors, limits.min_executors), limits.max_executors)
        wanted = min(within, sum(holds.values()))
        if not holds or wanted < limits.min_executors:
            return replace(current, executors=within, nodes=())
        if self.choice == "best":
            places = self._best(wanted, holds, current)
        else:
            places = self._moved(wanted, holds, current, at)
        return replace(current, executors=wanted, nodes=tuple(sorted(Counter(places).items())))

    def _moved(self, executors: int, holds: Mapping[str, int], current: Allocation, at: float) -> list[str]:
        """One node after the other comes or goes; the others stay."""
        add, remove = self._picks(at)
        places = [node for node, count in current.nodes for _ in range(min(count, holds.get(node, 0)))]
        while len(places) > executors:
            places.remove(remove(places, places))
        while len(places) < executors:
            places.append(add([node for node in holds if places.count(node) < holds[node]], places))
        return places

    def _picks(self, at: float) -> tuple[Pick, Pick]:
        if self.choice == "random":
            rng = np.random.default_rng([self.seed, round(abs(at) * 1000.0)])
            return (lambda among, _: among[int(rng.integers(len(among)))],) * 2
        return self._nearest, self._farthest

    def _nearest(self, among: Sequence[str], used: Sequence[str]) -> str:
        return min(among, key=lambda node: (*self._reach(node, used), node))

    def _farthest(self, among: Sequence[str], used: Sequence[str]) -> str:
        def reach(node: str) -> tuple[float, float]:
            others = list(used)
            others.remove(node)
            return self._reach(node, others)

        return max(among, key=lambda node: (*reach(node), node))

    def _reach(self, node: str, others: Sequence[str]) -> tuple[float, float]:
        """How far a node is from others and from the driver: the farthest, which the model counts, then their mean."""
        if self.round_trips is None:
            return 0.0, 0.0
        driver = self.round_trips.driver
        delays = [self.round_trips.between(node, other) for other in (*others, *([] if driver is None else [driver]))]
        return (max(delays), sum(delays) / len(delays)) if delays else (0.0, 0.0)

    def _best(self, executors: int, holds: Mapping[str, int], current: Allocation) -> list[str]:
        """The set with the shortest longest round trip; of equal ones the one that moves the fewest executors."""
        stands = Counter(dict(current.nodes))
        sets = list(self._sets(holds, executors))
        if self.round_trips is not None:
            longest = _longest(self.round_trips, tuple(holds), sets)
            sets = [sets[number] for number in np.flatnonzero(longest == longest.min())]

        def moves(nodes: Sequence[str]) -> tuple[int, float]:
            places = self._filled(nodes, executors, holds, stands)
            moved = executors - sum((Counter(places) & stands).values())
            total = 0.0
            if self.round_trips is not None:
                driver = self.round_trips.driver
                taking_part = nodes if driver is None or driver in nodes else (*nodes, driver)
                total = sum(self.round_trips.between(*pair) for pair in combinations(taking_part, 2))
            return moved, total

        best = min(sets, key=lambda nodes: (*moves(nodes), nodes))
        return self._filled(best, executors, holds, stands)

    def _sets(self, holds: Mapping[str, int], executors: int) -> Iterable[tuple[str, ...]]:
        """Sets of nodes that hold so many executors; where nodes hold more and less, of several sizes."""
        nodes, rising = tuple(holds), sorted(holds.values())
        sizes = range(_fewest(reversed(rising), executors), _fewest(rising, executors) + 1)
        if sum(comb(len(nodes), size) for size in sizes) <= _MOST_SETS:
            found = (one for size in sizes for one in combinations(nodes, size))
            return (one for one in found if sum(holds[node] for node in one) >= executors)
        return [self._grown(first, holds, executors) for first in nodes]

    def _grown(self, first: str, holds: Mapping[str, int], executors: int) -> tuple[str, ...]:
        chosen = [first]
        while sum(holds[node] for node in chosen) < executors:
            chosen.append(self._nearest([node for node in holds if node not in chosen], chosen))
        order = list(holds)
        return tuple(sorted(chosen, key=order.index))

    @staticmethod
    def _filled(nodes: Sequence[str], executors: int, holds: Mapping[str, int], stands: Counter[str]) -> list[str]:
        """Executors on these nodes: first where some stand already, then in turn."""
        places = [node for node in nodes for _ in range(min(stands[node], holds[node]))][:executors]
        for node in nodes:
            places += [node] if node not in places and len(places) < executors else []
        for node in nodes:
            places += [node] * min(holds[node] - places.count(node), executors - len(places))
        return places


def _held(limits: Limits, room: Mapping[str, int]) -> dict[str, int]:
    """How many executors each node may hold, without those that hold none."""
    most = limits.max_executors if limits.executors_per_node is None else limits.executors_per_node
    holds = {node: min(most, room.get(node, most)) for node in limits.nodes}
    return {node: count for node, count in holds.items() if count > 0}


def _fewest(holds: Iterable[int], executors: int) -> int:
    """How many of these nodes, taken in this order, hold so many executors."""
    total = 0
    for number, count in enumerate(holds, 1):
        total += count
        if total >= executors:
            return number
    raise AssertionError("the nodes hold fewer than are to be placed on them")


def _longest(apart: NodeDistances, nodes: Sequence[str], sets: Sequence[tuple[str, ...]]) -> FloatArray:
    """The longest round trip within each of these sets of nodes, the driver's included, all in one go."""
    driver, number = apart.driver, {node: place for place, node in enumerate(nodes)}
    trips = np.array([[apart.between(a, driver or b) if a == b else apart.between(a, b) for b in nodes] for a in nodes])
    most = max(map(len, sets))
    # A smaller set names its first node again, which adds no way to it.
    padded = [[number[node] for node in (*one, *(one[:1] * (most - len(one))))] for one in sets]
    found, members = np.zeros(len(sets)), np.array(padded)
    for left in range(members.shape[1]):
        for right in range(left, members.shape[1]):
            np.maximum(found, trips[members[:, left], members[:, right]], out=found)
    return found
