# SPDX-License-Identifier: Apache-2.0
"""How many records a batch may take, so that it takes about a set time.

A batch of r records takes about f + c r seconds. With everything waiting and no cap, the first batch would take all of
it; with a small cap, the fixed part f would be measured and not the application. So throughput is measured at batches
of a set length, and the cap that gives it is found by trial. It grows with the executors: each has its own fixed part,
so a cap that is the same for all sizes would make every size look worse than the one before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

SHORTEST, LONGEST = 0.75, 1.35
"""A batch may take this many times the time that was set. The throughput of a batch of t seconds is (t - f) / (c t):
where f is half of t, a batch a quarter shorter has a third less."""
_HOPELESS = 2.0
"""Times longer or shorter than that: more batches will not make it fit."""
_LARGEST_STEP = 20.0
"""Times the cap before: a single short batch is no ground for more."""
_LEAST_GROWTH = 2.5
_RECENT_TRIALS = 3
"""Those before were made while the application still compiled."""
_TRIALS = 4
_TUNINGS = 20
_TRIAL_BATCHES = (2, 5)
"""Batches after which a cap is judged: the first ones may still compile."""


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
    """The cap to try next, from the latest trials.

    Between a cap that was too small and one that was too large it lies on the line through both. Otherwise it follows
    from f and c of the last two trials, or is in proportion to the last one. A cap that was too small grows at least
    `_LEAST_GROWTH` times: where batches are mostly fixed work, in proportion it would creep.

    Examples
    --------
    >>> next_cap([CapTrial(1000, 1.0)], 3.0), next_cap([CapTrial(1000, 2.0)], 3.0)
    (3000, 2500)
    >>> next_cap([CapTrial(1000, 1.0), CapTrial(3000, 1.5)], 3.0)  # 0.75 s and 0.25 ms a record
    9000
    >>> next_cap([CapTrial(1000, 2.0), CapTrial(3000, 4.0)], 3.0)
    2000
    """
    recent = trials[-_RECENT_TRIALS:]
    last = recent[-1]
    small = [trial for trial in recent if trial.batch_seconds < wanted_seconds]
    large = [trial for trial in recent if trial.batch_seconds >= wanted_seconds]
    wanted = last.cap * wanted_seconds / max(last.batch_seconds, 1e-3)
    if small and large and max(small, key=_cap).cap < min(large, key=_cap).cap:
        below, above = max(small, key=_cap), min(large, key=_cap)
        part = (wanted_seconds - below.batch_seconds) / (above.batch_seconds - below.batch_seconds)
        wanted = below.cap + part * (above.cap - below.cap)
    elif small and last is small[-1]:
        wanted = max(wanted, last.cap * _LEAST_GROWTH, _on_the_line(recent, wanted_seconds))
    else:  # too large: where batches are mostly fixed work, in proportion it would become far too small
        wanted = max(wanted, min(last.cap, _on_the_line(recent, wanted_seconds)))
    return max(1, round(min(max(wanted, last.cap / _LARGEST_STEP), last.cap * _LARGEST_STEP)))


def _cap(trial: CapTrial) -> int:
    return trial.cap


def _on_the_line(trials: Sequence[CapTrial], wanted_seconds: float) -> float:
    """The cap by f and c of the last two trials; 0 where they do not give any."""
    if len(trials) < 2 or trials[-1].cap == trials[-2].cap:
        return 0.0
    before, last = trials[-2:]
    each = (last.batch_seconds - before.batch_seconds) / (last.cap - before.cap)
    fixed = last.batch_seconds - each * last.cap
    return (wanted_seconds - fixed) / each if each > 0 and 0 <= fixed < wanted_seconds else 0.0


class CapSearch:
    """The cap of a running application: judged by its batches, and replaced while that is open.

    Parameters
    ----------
    cap, wanted_seconds
        The cap to begin with, and how long a batch should take.
    is_open
        Whether the cap may be replaced.
    is_scaled
        Whether it is in proportion to the cap of another size. Then each executor has as many records of a batch as
        there, which makes the two comparable, and only a cap that is far off is replaced.
    trials
        How many caps may be judged.
    """

    def __init__(
        self, cap: int, wanted_seconds: float, *, is_open: bool, is_scaled: bool = False, trials: int = _TRIALS
    ) -> None:
        self.cap = self.cap_before = cap
        self._is_scaled = is_scaled
        self._wanted = wanted_seconds
        self._left = trials if is_open else 0
        self._trials: list[CapTrial] = []
        self._tunings = 0

    @property
    def is_open(self) -> bool:
        """Whether another cap may still be tried."""
        return self._left > 0

    def is_of_this_cap(self, rows: int) -> bool:
        """Whether a batch was planned with the present cap: one that was under way at the change has the old one.

        Examples
        --------
        >>> search = CapSearch(1000, 5.0, is_open=True)
        >>> search.tune([1.0, 1.0])
        True
        >>> search.cap, search.is_of_this_cap(1000), search.is_of_this_cap(5000)
        (5000, False, True)
        """
        return abs(rows - self.cap) <= abs(rows - self.cap_before)

    def tune(self, seconds: Sequence[float]) -> bool:
        """Replace a cap while the application warms up, by what its last batches will take when it is held.

        Such batches are short, so that many caps can be tried; they do not count among the trials. They will become
        shorter still when the application has compiled, so only a cap that is far too large is made smaller.
        """
        if not self.is_open or self._is_scaled or len(seconds) < _TRIAL_BATCHES[0] or self._tunings >= _TUNINGS:
            return False
        trial = CapTrial(self.cap, median(seconds[-_TRIAL_BATCHES[0] :]))
        if SHORTEST * self._wanted <= trial.batch_seconds <= _HOPELESS * self._wanted:
            return False
        self._tunings += 1
        self._trials.append(trial)
        return self._replace(next_cap(self._trials, self._wanted))

    def is_wrong(self, trial: CapTrial) -> bool:
        """Whether a cap is to be replaced."""
        return is_hopeless(trial, self._wanted) if self._is_scaled else not is_fitting(trial, self._wanted)

    def judge(self, durations: Sequence[float], *, is_last: bool = False) -> bool:
        """Replace a cap whose batches came out too short or too long; whether it was replaced.

        It is judged after its first batches, and by the latest once throughput is steady (`is_last`), not in between:
        a passing disturbance is no ground for another cap.
        """
        if not self.is_open or not (is_last or len(durations) in _TRIAL_BATCHES):
            return False
        trial = CapTrial(self.cap, median(durations))
        if not self.is_wrong(trial):
            return False
        self._left -= 1
        self._trials.append(trial)
        return self._replace(next_cap(self._trials, self._wanted))

    def _replace(self, cap: int) -> bool:
        if cap == self.cap:
            return False
        self.cap_before, self.cap = self.cap, cap
        return True


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
