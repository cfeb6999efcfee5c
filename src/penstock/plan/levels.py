# SPDX-License-Identifier: Apache-2.0
"""Levels with their costs, and a pipeline's allocations as vectors of levels with what is predicted for them.

A level of MEAD is a CPU share. Here it may have more executors than one, so that vertical and horizontal scaling are
steps on one ladder (`ladder`).

Symbols, as in MEAD, Sec. V-B: x the vector of levels (here from 0), c(x) its cost, R_pi(x) the latency along path pi.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from penstock.errors import ConfigurationError
from penstock.plan.ladder import ladder
from penstock.ports import NarrowedPathLatency, PathLatency
from penstock.records import Allocation, Limits, Prediction

Vector = tuple[int, ...]

ROUNDING = 1e-9
"""Costs and latencies closer than this, relatively, differ by rounding alone."""


@dataclass(frozen=True, slots=True)
class Levels:
    """The allocations an operator may have, by rising capacity, and what each costs (default: its capacity).

    Parameters
    ----------
    shares
        CPU share of each level.
    costs
        Of each level.
    executors
        Of each level; default: one.

    Examples
    --------
    >>> Levels().cost(0), Levels().top, Levels((0.5, 1.0), costs=(1.0, 3.0)).cost(1)
    (0.4, 4, 3.0)
    >>> [str(level) for level in Levels.within(Limits(1, 2, (0.5, 1.0))).allocations]
    ['1 executor x 50% CPU', '1 executor x 100% CPU', '2 executors x 100% CPU']
    """

    shares: tuple[float, ...] = (0.40, 0.55, 0.70, 0.85, 1.0)
    costs: tuple[float, ...] | None = None
    executors: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not self.shares:
            raise ConfigurationError("levels: give at least one CPU share, such as (1.0,)", field="levels")
        if not all(0.0 < share <= 1.0 for share in self.shares):
            raise ConfigurationError(
                f"levels: {list(self.shares)} must lie above 0 and at most at 1; a share is a fraction of the cores",
                field="levels",
            )
        if self.executors is not None and len(self.executors) != len(self.shares):
            raise ConfigurationError(
                f"executors: {len(self.executors)} numbers for {len(self.shares)} levels; give one for each",
                field="executors",
            )
        if not _rise([level.capacity for level in self.allocations]):
            raise ConfigurationError(
                f"levels: {list(self.shares)} must rise: level 1 is the least CPU, the last the most", field="levels"
            )
        if self.costs is None:
            return
        if len(self.costs) != len(self.shares):
            raise ConfigurationError(
                f"costs: {len(self.costs)} costs for {len(self.shares)} levels; give one for each", field="costs"
            )
        if not (all(math.isfinite(cost) and cost >= 0 for cost in self.costs) and _rise(self.costs)):
            raise ConfigurationError(
                f"costs: {list(self.costs)} must be finite, not negative, and rise with the levels", field="costs"
            )

    @classmethod
    def within(cls, limits: Limits, costs: Sequence[float] | None = None) -> Levels:
        """Give the ladder of what an operator may have, without what costs no less than a level above it.

        `costs` is what an executor costs at each of its CPU shares; default: the share.

        Examples
        --------
        >>> [str(level) for level in Levels.within(Limits(1, 2, (0.6, 1.0)), costs=(0.9, 1.0)).allocations]
        ['1 executor x 60% CPU', '1 executor x 100% CPU', '2 executors x 60% CPU', '2 executors x 100% CPU']
        >>> [str(level) for level in Levels.within(Limits(1, 2, (0.5, 0.6, 1.0)), costs=(1.0, 1.0, 1.1)).allocations]
        ['1 executor x 60% CPU', '1 executor x 100% CPU', '2 executors x 60% CPU', '2 executors x 100% CPU']
        """
        if costs is not None and len(costs) != len(limits.cpu_shares):
            raise ConfigurationError(
                f"costs: {len(costs)} costs for {len(limits.cpu_shares)} CPU shares; give one for each", field="costs"
            )
        of_share = dict(zip(limits.cpu_shares, costs or limits.cpu_shares, strict=True))
        kept: list[tuple[Allocation, float]] = []
        for rung in reversed(ladder(limits)):
            cost = rung.executors * of_share[rung.cpu_share]
            if not kept or cost < kept[-1][1] * (1.0 - ROUNDING):
                kept.append((rung, cost))
        kept.reverse()
        return cls(
            tuple(rung.cpu_share for rung, _ in kept),
            tuple(cost for _, cost in kept),
            tuple(rung.executors for rung, _ in kept),
        )

    @property
    def allocations(self) -> tuple[Allocation, ...]:
        """The levels."""
        executors = self.executors or (1,) * len(self.shares)
        return tuple(Allocation(number, share) for number, share in zip(executors, self.shares, strict=True))

    @property
    def top(self) -> int:
        """Index of the highest level."""
        return len(self.shares) - 1

    @property
    def all_costs(self) -> tuple[float, ...]:
        """What each level costs."""
        return tuple(level.capacity for level in self.allocations) if self.costs is None else self.costs

    def cost(self, level: int) -> float:
        """What a level costs."""
        return self.all_costs[level]

    def at_least(self, allocation: Allocation) -> int:
        """Index of the lowest level that has the allocation's capacity (but for rounding), or of the highest."""
        wanted = allocation.capacity * (1.0 - ROUNDING)
        return next((i for i, level in enumerate(self.allocations) if level.capacity >= wanted), self.top)


@dataclass(eq=False)
class AllocationSpace:
    """All allocations of a pipeline, as vectors of levels in the order of `latency.operators`.

    Every prediction is asked for once and kept; `evaluations` counts them.
    """

    latency: PathLatency
    levels: Mapping[str, Levels]
    evaluations: int = field(default=0, init=False)
    _known: dict[Vector, tuple[Prediction, ...]] = field(default_factory=dict, repr=False)
    _allocations: dict[str, tuple[Allocation, ...]] = field(init=False, repr=False)
    _costs: tuple[tuple[float, ...], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        missing = [name for name in self.latency.operators if name not in self.levels]
        if missing:
            raise ConfigurationError(f"levels: none given for {', '.join(missing)}", field="levels")
        if not self.latency.paths:
            raise ConfigurationError("paths: the pipeline has none; give at least one operator", field="paths")
        self._allocations = {name: self.levels[name].allocations for name in self.operators}
        self._costs = tuple(self.levels[name].all_costs for name in self.operators)

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators, in the order of the vectors."""
        return self.latency.operators

    @property
    def bottom(self) -> Vector:
        """Every operator at its lowest level."""
        return (0,) * len(self.operators)

    @cached_property
    def top(self) -> Vector:
        """Every operator at its highest level."""
        return tuple(self.levels[name].top for name in self.operators)

    def allocations(self, x: Vector) -> dict[str, Allocation]:
        """What a vector gives each operator."""
        return {name: self._allocations[name][level] for name, level in zip(self.operators, x, strict=True)}

    def cost(self, x: Vector) -> float:
        """What a vector costs."""
        return math.fsum(costs[level] for costs, level in zip(self._costs, x, strict=True))

    def costs(self, i: int) -> tuple[float, ...]:
        """What each level of operator `i` costs."""
        return self._costs[i]

    def predict(self, x: Vector) -> tuple[Prediction, ...]:
        """What is predicted of every path."""
        if x not in self._known:
            self._known[x] = self.latency.predict(self.allocations(x))
            self.evaluations += 1
        return self._known[x]

    def known(self, x: Vector) -> tuple[Prediction, ...] | None:
        """What was predicted of every path already, if it was."""
        return self._known.get(x)

    def widen(self, x: Vector) -> bool:
        """Look at a vector under models of the workload that were left out so far; True: predict all anew."""
        if not isinstance(self.latency, NarrowedPathLatency) or not self.latency.widen(self.allocations(x)):
            return False
        self._known.clear()
        return True

    def is_met(self, x: Vector) -> bool:
        """Whether every path keeps its bound."""
        return all(path.is_met for path in self.predict(x))

    def binding(self, x: Vector) -> Prediction:
        """The path closest to its bound, or furthest beyond."""
        return max(self.predict(x), key=lambda path: path.counted_seconds / path.bound_seconds)

    def breach(self) -> float:
        """By how much, relatively, a path was at worst predicted slower with one level more of one operator."""
        worst = 1.0
        for x, predicted in self._known.items():
            for i in range(len(x)):
                more = self._known.get((*x[:i], x[i] + 1, *x[i + 1 :]))
                for path, faster in zip(predicted, more or (), strict=False):
                    if faster.seconds > path.seconds * (1.0 + ROUNDING):
                        worst = max(worst, faster.seconds / path.seconds)
        return worst - 1.0


def _rise(values: Sequence[float]) -> bool:
    return all(one < two for one, two in pairwise(values))
