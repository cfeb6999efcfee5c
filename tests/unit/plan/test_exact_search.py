# SPDX-License-Identifier: Apache-2.0
"""The cheapest allocation, proven."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product

import numpy as np
import pytest

from penstock.errors import ConfigurationError
from penstock.plan.exact_search import exact_search
from penstock.plan.levels import AllocationSpace, Levels
from penstock.policies.mead.search import figure_5, refined
from penstock.records import Allocation, Prediction
from penstock.testing.path_latencies import FakePathLatency


class TablePathLatency:
    """Latencies out of tables of random numbers that fall with every level; they follow no formula."""

    def __init__(self, rng: np.random.Generator, operators: int, levels: int, paths: int) -> None:
        self.operators = tuple(f"o{i}" for i in range(operators))
        self.shares = tuple(float(share) for share in np.linspace(0.3, 1.0, levels))
        self.paths = tuple(
            tuple(name for name in self.operators if rng.random() < 0.7) or self.operators[:1] for _ in range(paths)
        )
        self.tables = []
        for path in self.paths:
            table = rng.lognormal(0.0, 1.0, (levels,) * len(path))
            for axis in range(table.ndim):
                table = np.minimum.accumulate(table, axis=axis)
            self.tables.append(table)
        # Bounds such that the highest levels sometimes do not keep them.
        self.bounds = [float(np.quantile(table, rng.uniform(0.0, 0.7))) * 0.999 for table in self.tables]

    def predict(self, allocations: Mapping[str, Allocation]) -> tuple[Prediction, ...]:
        """The numbers in the tables."""
        predicted = []
        for path, table, bound in zip(self.paths, self.tables, self.bounds, strict=True):
            at = tuple(self.shares.index(allocations[name].cpu_share) for name in path)
            parts = {name: float(table[at]) / len(path) for name in path}
            predicted.append(Prediction(path, float(table[at]), bound, parts, dict.fromkeys(path, 0.5), "table"))
        return tuple(predicted)


def cheapest(space: AllocationSpace) -> float:
    """The least cost that keeps all bounds, by trying everything."""
    every = product(*(range(top + 1) for top in space.top))
    return min((space.cost(x) for x in every if space.is_met(x)), default=math.inf)


@pytest.mark.parametrize("seed", range(60))
def test_equals_trying_everything_and_is_never_dearer_than_the_heuristic(seed: int) -> None:
    """On random falling tables the answer costs what brute force finds; heuristics never cost less nor break more."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    latency = TablePathLatency(rng, n, m, int(rng.integers(1, 4)))
    costs = tuple(float(c) for c in np.cumsum(rng.uniform(0.1, 1.0, m)))
    levels = dict.fromkeys(latency.operators, Levels(latency.shares, costs))
    answer = exact_search(AllocationSpace(latency, levels))
    brute = AllocationSpace(latency, levels)
    assert answer.cost == pytest.approx(cheapest(brute))
    assert answer.breach == 0.0
    if answer.x is None:
        assert not brute.is_met(brute.top)
        assert not refined(brute, 0.05).is_met
        return
    assert answer.is_proven
    assert brute.is_met(answer.x)
    for found in (figure_5(brute, 0.05), refined(brute, 0.05)):
        if found.is_met:
            assert brute.is_met(found.x)
            assert brute.cost(found.x) >= answer.cost * (1 - 1e-9)
    assert refined(brute, 0.05).is_met


def test_eight_operators_with_eight_levels_take_few_predictions() -> None:
    """Of 16.7 million allocations less than one in a hundred is looked at, and the answer is proven."""
    names = [f"o{i}" for i in range(8)]
    demands = {name: 0.1 * (i + 1) for i, name in enumerate(names)}
    paths = {tuple(names[:6]): 4.0, (*names[:4], *names[6:]): 5.0}
    space = AllocationSpace(
        FakePathLatency(paths, demands, rate=0.4),
        dict.fromkeys(names, Levels(tuple(float(s) for s in np.linspace(0.4, 1.0, 8)))),
    )
    answer = exact_search(space)
    assert answer.is_proven
    assert answer.x is not None
    assert space.is_met(answer.x)
    for i in range(8):
        lower = (*answer.x[:i], answer.x[i] - 1, *answer.x[i + 1 :])
        assert answer.x[i] == 0 or not space.is_met(lower)
    assert answer.evaluations < 8**8 / 100


def test_an_interrupted_search_says_how_far_it_came() -> None:
    """With few predictions allowed the answer keeps the bounds, with a lower bound that is true and no proof."""
    names = [f"o{i}" for i in range(6)]
    latency = FakePathLatency({tuple(names): 5.0}, {name: 0.1 * (i + 2) for i, name in enumerate(names)}, rate=0.3)
    levels = dict.fromkeys(names, Levels(tuple(float(s) for s in np.linspace(0.4, 1.0, 8))))
    whole = exact_search(AllocationSpace(latency, levels))
    part = exact_search(AllocationSpace(latency, levels), most_evaluations=20)
    assert not part.is_proven
    assert part.lower_bound <= whole.cost <= part.cost
    with pytest.raises(ConfigurationError, match="most_evaluations"):
        exact_search(AllocationSpace(latency, levels), most_evaluations=0)


def test_predictions_that_rise_with_the_share_are_reported() -> None:
    """A predictor that breaks its promise does not get a proof."""

    class Rising(FakePathLatency):
        def predict(self, allocations: Mapping[str, Allocation]) -> tuple[Prediction, ...]:
            seconds = 3.0 + allocations["b"].cpu_share - 2.0 * allocations["a"].cpu_share
            parts = {"a": seconds, "b": 0.0}
            return (Prediction(("a", "b"), seconds, 2.05, parts, dict.fromkeys(parts, 0.5), "odd"),)

    answer = exact_search(
        AllocationSpace(Rising({("a", "b"): 1.0}, {"a": 1.0, "b": 1.0}), {"a": Levels(), "b": Levels()})
    )
    assert answer.x is not None
    assert answer.breach > 0.0
    assert not answer.is_proven
