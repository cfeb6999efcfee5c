# SPDX-License-Identifier: Apache-2.0
"""How many records a batch may take, so that it takes about a set time.

A batch of r records takes about f + c r seconds. With everything waiting and no cap, the first batch would take all of
it; with a small cap, the fixed part f would be measured and not the application. So throughput is measured at batches
of a set length, and the cap that gives it is found by trial: the query is started again with a better one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SHORTEST, LONGEST = 0.75, 1.35
"""A batch may take this many times the time that was set. The throughput of a batch of t seconds is (t - f) / (c t):
where f is half of t, a batch a quarter shorter has a third less."""
_HOPELESS = 2.0
"""Times longer or shorter than that: more batches will not make it fit."""
_LARGEST_STEP = 20.0
"""Times the cap before: a single short batch is no ground for more."""


@dataclass(frozen=True, slots=True)
class CapTrial:
    """A cap that was tried, and how long batches took with it."""

    cap: int
    batch_seconds: float


def is_fitting(trial: CapTrial, wanted_seconds: float) -> bool:
    """Whether batches take about the time that was set.

    Examples
    --------
    >>> is_fitting(CapTrial(1000, 2.5), 3.0), is_fitting(CapTrial(1000, 2.0), 3.0)
    (True, False)
    """
    return SHORTEST * wanted_seconds <= trial.batch_seconds <= LONGEST * wanted_seconds


def is_hopeless(trial: CapTrial, wanted_seconds: float) -> bool:
    """Whether the first batches are so far off that later ones, which are faster, need not be waited for.

    Examples
    --------
    >>> is_hopeless(CapTrial(1000, 2.0), 3.0), is_hopeless(CapTrial(1000, 0.8), 3.0)
    (False, True)
    """
    return not 1 / _HOPELESS <= trial.batch_seconds / wanted_seconds <= _HOPELESS


def next_cap(trials: Sequence[CapTrial], wanted_seconds: float) -> int:
    """The cap to try next: from f and c of the last two trials, or in proportion to the last one.

    Examples
    --------
    >>> next_cap([CapTrial(1000, 1.0)], 3.0)
    3000
    >>> next_cap([CapTrial(1000, 1.0), CapTrial(3000, 1.5)], 3.0)  # 0.75 s and 0.25 ms a record
    9000
    """
    last = trials[-1]
    wanted = last.cap * wanted_seconds / max(last.batch_seconds, 1e-3)
    if len(trials) > 1 and trials[-2].cap != last.cap:
        before = trials[-2]
        each = (last.batch_seconds - before.batch_seconds) / (last.cap - before.cap)
        fixed = last.batch_seconds - each * last.cap
        if each > 0 and 0 <= fixed < wanted_seconds:
            wanted = (wanted_seconds - fixed) / each
    return max(1, round(min(max(wanted, last.cap / _LARGEST_STEP), last.cap * _LARGEST_STEP)))


def scaled_cap(caps: dict[int, int], executors: int, first: int) -> int:
    """The cap to begin a size with: that of the nearest size that is known, in proportion; else `first` an executor.

    Examples
    --------
    >>> scaled_cap({1: 1000, 4: 3600}, 8, 500), scaled_cap({}, 2, 500)
    (7200, 1000)
    """
    if not caps:
        return first * executors
    nearest = min(caps, key=lambda size: abs(size - executors))
    return max(1, round(caps[nearest] * executors / nearest))
