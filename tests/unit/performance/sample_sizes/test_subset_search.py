# SPDX-License-Identifier: Apache-2.0
"""The search for sizes worth measuring: right errors, all sets, the same best by chance, and clear refusals."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from benchmarks.mst_subset.run import LARGEST, NUMBERS, SIZES, as_records, made_samples, plain_error

from penstock.errors import ConfigurationError
from penstock.performance.sample_sizes import BenchmarkSamples, d_optimal_sizes, search_all, search_at_random
from penstock.performance.sample_sizes.subset_scores import score_subsets
from penstock.records import Allocation, ThroughputSample


@pytest.fixture(scope="module")
def samples() -> BenchmarkSamples:
    """Three applications at the paper's sizes."""
    return BenchmarkSamples.of(as_records(made_samples()))


def exact(curve: Callable[[float], float], sizes: tuple[int, ...]) -> list[ThroughputSample]:
    """Measurements without noise, two of each size."""
    return [ThroughputSample(Allocation(m), curve(m)) for m in sizes for _ in range(2)]


def test_errors_are_those_of_a_plain_loop(samples: BenchmarkSamples) -> None:
    """Eq. 8 of sets of 3, 4 and 5 sizes is what scipy's fits give, one by one."""
    generator = np.random.default_rng(4)
    every = [chosen for number in NUMBERS for chosen in combinations(range(12), number)]
    for i in generator.choice(len(every), 40, replace=False):
        found = score_subsets(samples, np.array([every[i]]))[0]
        assert found == pytest.approx(plain_error(made_samples(), every[i]), abs=2e-3)


def test_all_sets_are_tried(samples: BenchmarkSamples) -> None:
    """12 sizes up to 32 have 220 + 495 + 792 sets of 3, 4 and 5, and the best of any is found."""
    search = search_all(samples, NUMBERS, LARGEST)
    assert (search.tried, search.possible, search.is_exhaustive) == (1507, 1507, True)
    errors = [score_subsets(samples, np.array([chosen]))[0] for chosen in combinations(range(12), 3)]
    assert search.best[0].error <= min(errors)
    assert search.best[0].sizes[-1] <= LARGEST


def test_more_sizes_to_choose_from_never_make_it_worse(samples: BenchmarkSamples) -> None:
    """The error of the best set falls with the largest size that may be measured, as in the paper's Table 1."""
    search = search_all(samples, NUMBERS, LARGEST)
    rows = [search.within(largest) for largest in (5, 6, 7, 8, 12, 16, 24, 32)]
    errors = [row.error for row in rows if row is not None]
    assert len(errors) == 8
    assert errors == sorted(errors, reverse=True)
    assert search.within(2) is None


def test_a_model_that_is_true_leaves_no_error_of_its_own() -> None:
    """On samples of model 2 without noise, sets of three sizes determine it: what error is left is model 1's."""
    sizes = (1, 2, 4, 8, 16, 32)
    only = BenchmarkSamples.of({"a": exact(lambda m: 5.0, sizes)})
    assert search_all(only, (3,)).best[0].error == pytest.approx(0.0, abs=1e-6)  # a constant is both models


def test_chance_finds_the_same_best(samples: BenchmarkSamples) -> None:
    """Few random sets, improved by exchanges, end at the best of all; the same seed gives the same answer."""
    best = search_all(samples, NUMBERS, LARGEST).best[0]
    found = search_at_random(samples, NUMBERS, LARGEST, draws=60, seed=3)
    assert found.best[0] == best
    assert search_at_random(samples, NUMBERS, LARGEST, draws=60, seed=3).best == found.best


def test_applications_may_have_different_numbers_of_samples() -> None:
    """An application with more samples of a size is trained and graded with all of them."""
    records = as_records(made_samples())
    records["linear"] += records["linear"][:6]
    mixed = BenchmarkSamples.of(records)
    assert mixed.counts[1, 0] == 12
    assert np.isfinite(score_subsets(mixed, np.array([[0, 5, 9]]))).all()


def test_an_application_that_lacks_a_size_is_named() -> None:
    """All applications have to be measured at the same sizes; the error says which lacks what."""
    records = {"a": exact(float, (1, 2, 4)), "b": exact(float, (1, 2, 8))}
    with pytest.raises(ConfigurationError, match="2 mistakes") as fault:
        BenchmarkSamples.of(records)
    assert "a: no sample with 8 executors" in str(fault.value)
    assert "b: no sample with 4 executors" in str(fault.value)


@pytest.mark.parametrize(("numbers", "largest", "says"), [((3,), 2, "2 sizes up to 2"), ((1,), None, "2 or more"),
                                                          ((17,), None, "none is left")])  # fmt: skip
def test_impossible_choices_are_refused(
    samples: BenchmarkSamples, numbers: tuple[int, ...], largest: int | None, says: str
) -> None:
    """Too few sizes to choose from, too few to choose, or none left to test on."""
    with pytest.raises(ConfigurationError, match=says):
        search_all(samples, numbers, largest)


def test_too_many_sets_are_refused_with_a_way_out() -> None:
    """Hundreds of sizes have more sets than can be tried; the message names what to do instead."""
    sizes = tuple(range(1, 301))
    many = BenchmarkSamples.of({"a": exact(lambda m: m / (1 + 0.01 * m), sizes)})
    with pytest.raises(ConfigurationError, match="at random"):
        search_all(many, (5,))
    assert len(search_at_random(many, (3,), 100, draws=200).best[0].sizes) == 3


def test_d_optimal_sizes_span_the_range() -> None:
    """Both ends are among the sizes that determine weights best, and no exchange of one size is better."""
    found = d_optimal_sizes(range(1, 33), 4)
    assert (found[0], found[-1]) == (1, 32)
    assert len(set(found)) == 4
    assert d_optimal_sizes(SIZES, 5)[-1] == 128
    with pytest.raises(ConfigurationError, match="cannot be chosen"):
        d_optimal_sizes((1, 2), 3)


def test_sets_that_chance_comes_by_again_count_once() -> None:
    """Exchanges meet the same sets over and over: a search that tried a part of all sets does not pass for all."""
    many = BenchmarkSamples.of({"a": exact(lambda m: m / (1 + 0.01 * m), tuple(range(1, 17)))})
    found = search_at_random(many, (5,), draws=2, seed=1)
    assert 0 < found.tried < found.possible
    assert not found.is_exhaustive


def test_many_sets_are_scored_in_pieces(samples: BenchmarkSamples, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded, and errors are the same."""
    subsets = np.array(list(combinations(range(12), 3)))
    whole = score_subsets(samples, subsets)
    monkeypatch.setattr("penstock.performance.sample_sizes.subset_scores.MOST_CELLS", 17 * 7)
    assert score_subsets(samples, subsets) == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize(("number", "most"), [(2, 9), (3, 12), (4, 12), (5, 11)])
def test_no_exchange_of_one_size_is_better(number: int, most: int) -> None:
    """By plain determinants of all neighbours."""

    def information(sizes: tuple[int, ...]) -> float:
        at, largest = np.array(sizes, dtype=float), float(most)
        time = np.array([np.ones(number), 1.0 / at, at / largest, (at / largest) ** 2])
        rate = np.array([np.ones(number), at / largest, -((at / largest) ** 2)])
        return float(sum(np.linalg.slogdet(x @ x.T + 1e-10 * np.eye(len(x)))[1] for x in (time, rate)))

    found = d_optimal_sizes(range(1, most + 1), number)
    others = [size for size in range(1, most + 1) if size not in found]
    near = [tuple(sorted({*found} - {out} | {new})) for out in found for new in others]
    assert information(found) >= max(map(information, near)) - 1e-6


def test_d_optimal_sizes_of_very_many() -> None:
    """No set is written down for each possible exchange: a hundred thousand sizes take little memory."""
    tracemalloc.start()
    try:
        found = d_optimal_sizes(range(1, 100_001), 4)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (found[0], found[-1]) == (1, 100_000)
    assert peak < 1e8
