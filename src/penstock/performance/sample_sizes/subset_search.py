# SPDX-License-Identifier: Apache-2.0
"""Which sizes to measure: the set of few sizes from which models predict all others best (Imai et al., Sec. 4.4).

All sets are tried where that is a matter of seconds. Otherwise sets are drawn at random, and those that came out best
are improved by exchanging one size at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from math import comb

import numpy as np

from penstock.errors import ConfigurationError
from penstock.performance.sample_sizes.benchmark_samples import BenchmarkSamples, IntArray
from penstock.performance.sample_sizes.subset_scores import MOST_CELLS, score_subsets

Progress = Callable[[float], None]
MOST_SETS = 2_000_000
"""As many sets can be tried within about ten seconds."""
_AT_ONCE = 20_000
_IMPROVED = 8


@dataclass(frozen=True, slots=True)
class SizeSet:
    """A set of sizes, and the error of what models trained on it predict for the others.

    Attributes
    ----------
    sizes
        Numbers of executors, ascending.
    error
        RMSE, in parts of an application's largest throughput.
    """

    sizes: tuple[int, ...]
    error: float


@dataclass(frozen=True, slots=True)
class SubsetSearch:
    """What a search found.

    Attributes
    ----------
    best
        The best set for each number of sizes and each largest size, that of the least error first.
    tried
        How many different sets were tried.
    possible
        How many there are.
    """

    best: tuple[SizeSet, ...]
    tried: int
    possible: int

    @property
    def is_exhaustive(self) -> bool:
        """Whether all sets were tried."""
        return self.tried >= self.possible

    def within(self, largest: int) -> SizeSet | None:
        """The best set of sizes up to `largest`; None where there is none (a row of the paper's Table 1)."""
        return next((one for one in self.best if one.sizes[-1] <= largest), None)


def search_all(
    samples: BenchmarkSamples,
    numbers: Sequence[int] = (3, 4, 5),
    largest: int | None = None,
    progress: Progress | None = None,
) -> SubsetSearch:
    """Try every set of so many sizes up to `largest`.

    Raises
    ------
    ConfigurationError
        There are too few sizes, or more than `MOST_SETS` sets.
    """
    candidates = _candidates(samples, numbers, largest)
    possible = sum(comb(len(candidates), number) for number in numbers)
    if possible > MOST_SETS:
        raise ConfigurationError(
            f"method: there are {possible:,} sets of sizes, more than the {MOST_SETS:,} that are tried in full; search "
            "at random, by D-optimality, or among fewer sizes",
            field="method",
        )
    found = _Best(samples)
    for number in numbers:
        for subsets in _chunks(combinations(candidates.tolist(), number)):
            found.add(subsets)
            if progress is not None:
                progress(found.tried / possible)
    return found.result(possible)


def search_at_random(
    samples: BenchmarkSamples,
    numbers: Sequence[int] = (3, 4, 5),
    largest: int | None = None,
    *,
    draws: int = 20_000,
    seed: int = 0,
    progress: Progress | None = None,
) -> SubsetSearch:
    """Try `draws` random sets of each number of sizes, then exchange sizes of the best until none is better."""
    if draws < 1:
        raise ConfigurationError(f"draws: {draws} must be at least 1", field="draws")
    candidates = _candidates(samples, numbers, largest)
    possible = sum(comb(len(candidates), number) for number in numbers)
    generator, found = np.random.default_rng(seed), _Best(samples, may_repeat=True)
    at_once = min(_AT_ONCE, max(1, MOST_CELLS // len(candidates)))
    for done, number in enumerate(numbers, start=1):
        tops: list[tuple[float, tuple[int, ...]]] = []
        left = min(draws, comb(len(candidates), number))
        while left:
            count = min(left, at_once)
            keys = generator.random((count, len(candidates)))
            chosen = np.sort(np.argpartition(keys, number - 1, axis=1)[:, :number], axis=1)
            subsets = np.unique(candidates[chosen], axis=0)
            errors = found.add(subsets)
            order = np.argsort(errors)[:_IMPROVED]
            tops += [(float(errors[i]), tuple(subsets[i].tolist())) for i in order]
            left -= count
        for _, start in sorted(tops)[:_IMPROVED]:
            _improve(found, start, candidates)
        if progress is not None:
            progress(done / len(numbers))
    return found.result(possible)


def search_sizes(
    samples: BenchmarkSamples,
    numbers: Sequence[int] = (3, 4, 5),
    largest: int | None = None,
    *,
    draws: int = 20_000,
    seed: int = 0,
    progress: Progress | None = None,
) -> SubsetSearch:
    """Try every set where that is a matter of seconds, and sets at random otherwise."""
    many = np.count_nonzero(samples.sizes <= (samples.sizes[-1] if largest is None else largest))
    if sum(comb(int(many), number) for number in numbers) <= MOST_SETS:
        return search_all(samples, numbers, largest, progress)
    return search_at_random(samples, numbers, largest, draws=draws, seed=seed, progress=progress)


def _improve(found: _Best, start: tuple[int, ...], candidates: IntArray) -> None:
    """Exchange one size at a time for the best other, as long as the error falls."""
    current, error = start, np.inf
    while True:
        others = [c for c in candidates.tolist() if c not in current]
        near = [tuple(sorted({*current} - {out} | {new})) for out in current for new in others]
        errors = found.add(np.array([current, *near], dtype=np.int64))
        least = int(np.nanargmin(errors))
        if errors[least] >= error:
            return
        current, error = (current, *near)[least], float(errors[least])


def _candidates(samples: BenchmarkSamples, numbers: Sequence[int], largest: int | None) -> IntArray:
    if not numbers or min(numbers) < 2:
        raise ConfigurationError("numbers: give how many sizes to measure, 2 or more", field="numbers")
    candidates = np.flatnonzero(samples.sizes <= (samples.sizes[-1] if largest is None else largest))
    if len(candidates) < max(numbers):
        raise ConfigurationError(
            f"samples: there are samples of {len(candidates)} sizes"
            + ("" if largest is None else f" up to {largest} executors")
            + f", and {max(numbers)} are to be chosen; measure more sizes, or choose fewer",
            field="samples",
        )
    if len(samples.sizes) <= max(numbers):
        raise ConfigurationError(
            f"samples: all {len(samples.sizes)} sizes may be chosen, and none is left to judge a prediction by; "
            "measure more sizes, or choose fewer",
            field="samples",
        )
    return candidates


def _chunks(sets: Iterator[tuple[int, ...]]) -> Iterator[IntArray]:
    while taken := list(islice(sets, _AT_ONCE)):
        yield np.array(taken, dtype=np.int64)


class _Best:
    """Keeps the best set for each number of sizes and each largest size.

    A search that `may_repeat` comes by the same sets again: they count once, or a few would pass for all there are.
    """

    def __init__(self, samples: BenchmarkSamples, *, may_repeat: bool = False) -> None:
        self.samples, self.tried = samples, 0
        self._seen: set[bytes] | None = set() if may_repeat else None
        self._best: dict[tuple[int, int], SizeSet] = {}

    def add(self, subsets: IntArray) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Try these sets; gives their errors."""
        errors = score_subsets(self.samples, subsets)
        if self._seen is None:
            self.tried += len(subsets)
        else:
            self._seen.update(row.tobytes() for row in subsets)
            self.tried = len(self._seen)
        order = np.argsort(errors, kind="stable")
        last = subsets[order, -1]
        for at in np.unique(last, return_index=True)[1]:
            i = int(order[at])
            key = (subsets.shape[1], int(subsets[i, -1]))
            if key not in self._best or errors[i] < self._best[key].error:
                sizes = tuple(self.samples.sizes[subsets[i]].tolist())
                self._best[key] = SizeSet(sizes, float(errors[i]))
        return errors

    def result(self, possible: int) -> SubsetSearch:
        """What was found."""
        best = sorted(self._best.values(), key=lambda one: (one.error, one.sizes))
        return SubsetSearch(tuple(best), self.tried, possible)
