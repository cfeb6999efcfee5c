# SPDX-License-Identifier: Apache-2.0
"""The verdict of a soak run: flat series pass, growing ones fail, and what cannot be known is not called flat."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from benchmarks.soak.judgement import judge_all
from benchmarks.soak.sampling import DISK, LIVE, MEMORY, PROCESSES
from benchmarks.soak.verdict import LEAST_BLOCKS, Finding, Verdict, judge

SECONDS = np.arange(0.0, 4 * 3600.0, 10.0)
WARM_UP, BLOCK = 3600.0, 120.0
Values: TypeAlias = "npt.NDArray[np.floating[Any]]"


def verdict_of(values: Values, seconds: Values = SECONDS, least_growth: float = 8.0) -> Verdict:
    """Judge a series of three hours after one of warm-up."""
    return judge(list(seconds), list(values), warm_up_seconds=WARM_UP, block_seconds=BLOCK, least_growth=least_growth)


def noise(scale: float, seed: int = 1) -> Values:
    """Independent from sample to sample."""
    return np.random.default_rng(seed).normal(0.0, scale, len(SECONDS))


def test_a_flat_series_is_flat() -> None:
    """Nothing moves, nothing is found."""
    found = verdict_of(np.full(len(SECONDS), 500.0))
    assert found.is_flat
    assert found.growth == 0.0
    assert found.level == 500.0


@pytest.mark.parametrize("seed", range(5))
def test_a_noisy_series_without_growth_is_flat(seed: int) -> None:
    """A fifth of the level from sample to sample, as a JVM between two collections."""
    assert verdict_of(500.0 + noise(100.0, seed)).is_flat


def test_a_saw_that_follows_the_scaling_is_flat() -> None:
    """A block holds whole cycles, so that where the run was cut off does not matter."""
    assert verdict_of(500.0 + 200.0 * ((SECONDS % BLOCK) < BLOCK / 2)).is_flat


def test_wild_blocks_do_not_make_a_series_grow() -> None:
    """A fifth of the time at ten times the level, all of it late."""
    values = np.full(len(SECONDS), 500.0) + noise(10.0)
    values[(SECONDS > 3.2 * 3600.0) & (SECONDS < 3.7 * 3600.0)] *= 10.0
    assert verdict_of(values).is_flat


@pytest.mark.parametrize("scale", [0.0, 20.0, 60.0])
def test_a_series_that_grows_by_a_quarter_is_found_in_noise(scale: float) -> None:
    """42 MiB an hour on 500, over three hours, whatever the noise."""
    found = verdict_of(500.0 + 42.0 * SECONDS / 3600.0 + noise(scale))
    assert found.finding is Finding.GROWS
    assert found.growth == pytest.approx(42.0 * 3.0, rel=0.15)


def test_growth_in_the_warm_up_alone_is_not_judged() -> None:
    """Heaps fill and classes are loaded in the first hour."""
    assert verdict_of(500.0 * np.minimum(1.0, SECONDS / WARM_UP)).is_flat


def test_a_step_late_in_the_run_is_not_called_flat_where_it_lasts() -> None:
    """A leak that comes in one piece: from the middle on half as much again."""
    assert not verdict_of(500.0 + 250.0 * (SECONDS > 2.2 * 3600.0) + noise(5.0)).is_flat


def test_a_tenth_is_allowed_and_so_is_a_little_of_very_little() -> None:
    """The threshold is the larger of both, over the time that is judged."""
    hours = (SECONDS - WARM_UP) / 3600.0
    assert verdict_of(500.0 + 15.0 * hours).is_flat
    assert verdict_of(500.0 + 18.5 * hours).finding is Finding.GROWS
    assert verdict_of(1.0 + 2.0 * hours).is_flat
    assert verdict_of(1.0 + 2.0 * hours, least_growth=1.0).finding is Finding.GROWS


def test_what_fills_up_by_design_is_allowed_on_top() -> None:
    """Of the series that it is known of alone."""
    hours = (SECONDS - WARM_UP) / 3600.0
    series = {(name, MEMORY): (list(SECONDS), list(500.0 + 30.0 * hours)) for name in ("controller", "broker")}
    judged = judge_all(series, warm_up_seconds=WARM_UP, block_seconds=BLOCK, expected={("controller", MEMORY): 50.0})
    assert {one.subject: one.is_bad for one in judged} == {"broker": True, "controller": False}


def test_what_is_too_noisy_for_its_length_is_unclear_and_not_flat() -> None:
    """A series of a few blocks that go up and down by half."""
    seconds = SECONDS[SECONDS < WARM_UP + 10 * BLOCK]
    blocks = np.random.default_rng(4).normal(500.0, 250.0, 400)
    found = verdict_of(blocks[(seconds // BLOCK).astype(int)], seconds)
    assert found.finding is Finding.UNCLEAR
    assert not found.is_flat


def test_too_few_blocks_are_too_short_and_not_flat() -> None:
    """A run that ended in its warm-up shows nothing; neither does one without a sample."""
    seconds = SECONDS[SECONDS < WARM_UP + (LEAST_BLOCKS - 1) * BLOCK]
    found = verdict_of(np.full(len(seconds), 1.0), seconds)
    assert found.finding is Finding.TOO_SHORT
    assert not found.is_flat
    assert "at least 8 are needed" in str(found)
    assert verdict_of(np.empty(0), np.empty(0)).finding is Finding.TOO_SHORT


def test_a_shrinking_series_is_flat() -> None:
    """Only growth does harm."""
    assert verdict_of(500.0 - 40.0 * SECONDS / 3600.0).is_flat


def test_what_is_measured_at_few_looks_is_judged_by_those() -> None:
    """Live heaps are asked for once in a cycle, of every role that is there."""
    times = list(SECONDS)
    asked = [second for second in SECONDS if second % BLOCK == 0.0]
    series: dict[tuple[str, str], tuple[list[float], list[float]]] = {
        ("executor", MEMORY): (times, [300.0] * len(times)),
        ("executor", LIVE): (asked, [second / 10.0 for second in asked]),
        ("broker", LIVE): (asked, [40.0] * len(asked)),
        ("other", LIVE): (asked[::4], [40.0] * len(asked[::4])),
    }
    judged = {
        (one.subject, one.quantity): one for one in judge_all(series, warm_up_seconds=WARM_UP, block_seconds=BLOCK)
    }
    assert {key for key, one in judged.items() if one.is_bad} == {("executor", LIVE)}
    assert {key for key, one in judged.items() if one.verdict is None} == {("other", LIVE)}


def test_what_grows_by_design_is_shown_and_not_judged() -> None:
    """The store grows, the executors do not; a role that is seldom there is judged by its number alone."""
    times, seldom = list(SECONDS), [second for second in SECONDS if second % 600.0 == 0.0]
    growing, flat = list(SECONDS / 10.0), [300.0] * len(times)
    series: dict[tuple[str, str], tuple[list[float], list[float]]] = {
        ("store", DISK): (times, growing),
        ("executor", MEMORY): (times, flat),
        ("checkpoints", DISK): (times, growing),
        ("other", MEMORY): (seldom, [10.0] * len(seldom)),
        ("other", PROCESSES): (seldom, [1.0] * len(seldom)),
    }
    judged = {
        (one.subject, one.quantity): one for one in judge_all(series, warm_up_seconds=WARM_UP, block_seconds=BLOCK)
    }
    assert {key for key, one in judged.items() if one.is_bad} == {("checkpoints", DISK)}
    assert "keeps every observation" in judged["store", DISK].why_not
    assert judged["other", MEMORY].verdict is None
    assert "there in 18 of 1080 looks" in judged["other", MEMORY].line()
    found = judged["other", PROCESSES].verdict
    assert found is not None
    assert found.level == 0.0
