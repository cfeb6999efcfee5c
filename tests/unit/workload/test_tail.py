# SPDX-License-Identifier: Apache-2.0
"""Windows whose variance may be infinite are told from those whose is not."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.workload.tail import tail_index, tail_note


@pytest.mark.parametrize("power", [1.1, 1.4])
def test_power_laws_of_infinite_variance_are_told(power: float) -> None:
    """Of thirty windows that fall off like a power well below 2 nearly all are told, in words."""
    windows = [np.random.default_rng(seed).pareto(power, 20_000) for seed in range(30)]
    notes = [tail_note(window) for window in windows]
    assert sum(note is not None for note in notes) >= 28
    assert all("infinite" in note for note in notes if note is not None)


@pytest.mark.parametrize("kind", ["exponential", "two rates", "weibull", "power 4"])
def test_finite_variances_are_rarely_doubted(kind: str) -> None:
    """Of thirty windows of finite variance, however variable, at most two are doubted."""
    doubted = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        slow = rng.random(20_000) < 0.05
        window = {
            "exponential": rng.exponential(1.0, 20_000),
            "two rates": np.where(slow, rng.exponential(20.0, 20_000), rng.exponential(0.5, 20_000)),
            "weibull": rng.weibull(0.4, 20_000),
            "power 4": rng.pareto(4.0, 20_000),
        }[kind]
        doubted += tail_note(window) is not None
    assert doubted <= 2


def test_the_index_does_not_depend_on_the_unit_and_knows_ties() -> None:
    """Scaling changes nothing; where the largest are all the same there is no tail."""
    window = np.random.default_rng(1).pareto(1.5, 5000)
    assert tail_index(1e6 * window)[0] == pytest.approx(tail_index(window)[0])
    assert tail_index(np.ones(300)) == (np.inf, 0.0)
    assert tail_index(np.zeros(300)) == (np.inf, 0.0)


def test_one_giant_among_regular_times_is_told() -> None:
    """A single value that makes most of the second moment is told although the rest has no tail."""
    window = np.append(np.random.default_rng(2).gamma(9.0, 1.0 / 9.0, 2000), 1e4)
    assert "30 %" in (tail_note(window) or "")
