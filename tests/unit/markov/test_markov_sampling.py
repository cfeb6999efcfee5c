# SPDX-License-Identifier: Apache-2.0
"""Tests of sampling: right in distribution, correlated throughout, repeatable."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from penstock.errors import InvalidProcessError
from penstock.markov import MAP, PH, MapSampler
from penstock.markov.sampling import LARGEST_CONDITIONED, AliasTable

PROCESS = MAP(
    [[-5.0, 1.0, 0.5], [0.2, -2.0, 0.3], [0.0, 0.4, -1.0]], [[3.0, 0.5, 0.0], [0.5, 0.7, 0.3], [0.1, 0.0, 0.5]]
)


def correlation(values: np.ndarray, lag: int) -> float:
    """Sample autocorrelation."""
    centred = values - values.mean()
    return float(centred[lag:] @ centred[:-lag] / (centred @ centred))


@pytest.mark.parametrize("step_by_step", [False, True])
def test_samples_have_moments_and_correlation(step_by_step: bool) -> None:
    """Both ways of drawing give the mean, the distribution and the autocorrelation of the process."""
    rng = np.random.default_rng(17)
    sampler = MapSampler(PROCESS.D0, PROCESS.D1, PROCESS.P, 0, step_by_step=step_by_step)
    draws = sampler.draw(300_000, rng)
    # The variance of a mean of n correlated intervals is IDI(n) m^2 / n.
    error = PROCESS.mean * np.sqrt(float(PROCESS.idi(draws.size)) / draws.size)
    assert draws.mean() == pytest.approx(PROCESS.mean, abs=5 * error)
    apart = draws[::40]  # far enough apart to count as independent
    assert stats.kstest(PROCESS.intervals.cdf(apart), "uniform").pvalue > 1e-3
    assert [correlation(draws, k) for k in (1, 2, 5)] == pytest.approx(
        PROCESS.autocorrelation([1, 2, 5]).tolist(), abs=0.015
    )


def test_counts_of_samples_have_the_dispersion() -> None:
    """Windows over a long sample have the index of dispersion that the process has: no correlation is lost."""
    slow = MAP.mmpp([[-0.002, 0.002], [0.002, -0.002]], [2.0, 0.2])
    times = np.cumsum(slow.sample(400_000, np.random.default_rng(3)))
    window = 400.0
    counts = np.bincount((times / window).astype(np.int64))[:-1]
    # About 900 windows, correlated with their neighbours: the ratio is right to a quarter.
    assert counts.var() / counts.mean() == pytest.approx(float(slow.idc(window)), rel=0.25)


def test_path_has_no_seams() -> None:
    """Phases that can only follow each other in a cycle do so through all blocks and from one draw to the next."""
    D1 = np.roll(np.diag([1.0, 2.0, 3.0]), 1, axis=1)
    cycle = MAP(-np.diag([1.0, 2.0, 3.0]), D1)
    rng = np.random.default_rng(5)
    sampler = cycle.sampler(rng, start=0)
    path = [sampler.draw_with_phases(size, rng)[1] for size in (70_001, 1, 65_536)]
    phases = np.concatenate([[0], *path])
    assert np.array_equal(np.diff(phases) % 3, np.ones(phases.size - 1))
    assert sampler.phase == phases[-1]


def test_hidden_phases_are_conditioned_on_where_they_end() -> None:
    """Intervals given their first and last phase have the mean that the process implies."""
    rng = np.random.default_rng(29)
    sampler = PROCESS.sampler(rng, start=0)
    intervals, after = sampler.draw_with_phases(400_000, rng)
    before = np.concatenate([[0], after[:-1]])
    # E[X; next phase j | phase i] = (M P)[i, j], the joint moment of an interval and the phase after it.
    joint = PROCESS.M @ PROCESS.P
    for i in range(3):
        for j in range(3):
            chosen = intervals[(before == i) & (after == j)]
            error = chosen.std() / np.sqrt(chosen.size)
            assert chosen.mean() == pytest.approx(joint[i, j] / PROCESS.P[i, j], abs=5 * error)


def test_large_processes_are_drawn_step_by_step() -> None:
    """Beyond the largest order for tables, the mean is still that of the process."""
    order = LARGEST_CONDITIONED + 6
    renewal = MAP.renewal(PH.erlang(order, mean=1.0))
    draws = renewal.sample(2_000, np.random.default_rng(2))
    assert draws.mean() == pytest.approx(1.0, abs=5 / np.sqrt(order * draws.size))
    assert draws.var() == pytest.approx(1.0 / order, rel=0.2)


def test_draws_repeat_for_a_seed() -> None:
    """The same seed gives the same intervals."""
    one = PROCESS.sample(1000, np.random.default_rng(9))
    assert np.array_equal(one, PROCESS.sample(1000, np.random.default_rng(9)))
    assert not np.array_equal(one, PROCESS.sample(1000, np.random.default_rng(10)))


def test_start_is_drawn_from_the_phases_at_arrivals() -> None:
    """Samplers start in each phase as often as an arrival leads into it."""
    rng = np.random.default_rng(1)
    starts = np.bincount([PROCESS.sampler(rng).phase for _ in range(500)], minlength=3)
    assert stats.chisquare(starts, PROCESS.pi * 500).pvalue > 1e-3


def test_nothing_is_drawn_on_request() -> None:
    """A draw of none is empty and leaves the phase alone."""
    sampler = PROCESS.sampler(np.random.default_rng(1), start=2)
    assert sampler.draw(0, np.random.default_rng(1)).size == 0
    assert sampler.phase == 2


def test_bad_arguments_are_named() -> None:
    """Sizes are whole and not negative, a start is a phase."""
    rng = np.random.default_rng(1)
    with pytest.raises(InvalidProcessError, match="size = -1"):
        PROCESS.sample(-1, rng)
    with pytest.raises(InvalidProcessError, match='start = 3 must be "arrival" or a phase from 0 to 2'):
        PROCESS.sampler(rng, start=3)


def test_alias_table_has_the_probabilities() -> None:
    """Each row is drawn with its own probabilities, and what is impossible never comes."""
    rows = np.array([[0.0, 0.25, 0.75], [1.0, 0.0, 0.0], [0.2, 0.5, 0.3]])
    table = AliasTable(rows)
    rng = np.random.default_rng(6)
    for i, row in enumerate(rows):
        seen = np.bincount(table.draw(np.full(20_000, i), rng), minlength=3)
        assert np.all(seen[row == 0] == 0)
        assert stats.chisquare(seen[row > 0], row[row > 0] * 20_000).pvalue > 1e-3 or np.count_nonzero(row) == 1


def test_sure_outcomes_are_drawn_without_disturbing_what_follows() -> None:
    """Rows with one outcome each give it, and leave the generator as any other rows do."""
    sure, open_ = AliasTable(np.array([[0.0, 2.0, 0.0], [0.0, 0.0, 1.0]])), AliasTable(np.full((2, 3), 1.0))
    rows = np.array([0, 1, 1, 0])
    one, other = np.random.default_rng(3), np.random.default_rng(3)
    assert sure.draw(rows, one).tolist() == [1, 2, 2, 1]
    open_.draw(rows, other)
    assert one.random() == other.random()
