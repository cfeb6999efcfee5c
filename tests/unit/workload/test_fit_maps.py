# SPDX-License-Identifier: Apache-2.0
"""Processes fitted to windows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from penstock.errors import ConfigurationError, NotReadyError
from penstock.markov import MAP, PH, map2_from_moments, superpose
from penstock.workload import (
    FitResult,
    alternating,
    describe_iats,
    fit_maps,
    predicted_curve,
    predicted_responses,
    replay,
)
from penstock.workload.candidates import ABSURD, Found, Recipe, best_distinct, score
from penstock.workload.fit_map import NEEDED
from penstock.workload.free_chain import Chain
from penstock.workload.least_squares import IsLate
from penstock.workload.simple_fits import is_correlated, negative_fits
from penstock.workload.targets import Targets, targets_of

MAP2 = map2_from_moments(1.0, 5.0, 60.0, 0.9)
MAP4 = superpose(MAP.mmpp([[-0.02, 0.02], [0.05, -0.05]], [0.3, 4.0]), MAP.mmpp([[-0.5, 0.5], [0.3, -0.3]], [0.1, 2.0]))


@pytest.fixture(scope="module")
def bursty() -> FitResult:
    """The fit of a window of MAP4."""
    return fit_maps(MAP4.sample(30_000, np.random.default_rng(1)))


@pytest.mark.parametrize("process", [MAP2, MAP4], ids=["MAP(2)", "MAP(4)"])
def test_known_processes_are_recovered(process: MAP) -> None:
    """The best fit of a sample follows its queue along the load, hardly worse than the true process."""
    rng = np.random.default_rng(2)
    window = process.sample(50_000, rng)
    fit = fit_maps(window)
    best = fit.maps[0]
    assert fit.kind == "correlated"
    assert best.meets_bars
    queue = replay(window, np.random.default_rng(3))
    truth = predicted_responses(process, queue.utilisations) / queue.responses - 1.0
    ours = predicted_responses(best.map, queue.utilisations) / queue.responses - 1.0
    assert np.all((np.abs(ours) <= np.abs(truth) + 0.08) | (queue.utilisations > 0.9))


def test_fitted_process_is_in_the_unit_of_the_window(bursty: FitResult) -> None:
    """Scaling the window scales the processes and changes nothing else.

    Powers of two scale without rounding, so the result is the same to the last digits. Other factors round every time
    in its last digit, and a search goes on from there by another way: its process is as good, and nearly the same.
    """
    window = MAP4.sample(30_000, np.random.default_rng(1))
    for factor, alike in ((2.0**-20, 1e-9), (4096.0, 1e-9), (1e-6, 0.02), (3600.0, 0.02)):
        scaled = fit_maps(window * factor, best=1)
        assert scaled.maps[0].map.mean == pytest.approx(bursty.maps[0].map.mean * factor, rel=1e-6)
        assert scaled.maps[0].map.scv == pytest.approx(bursty.maps[0].map.scv, rel=alike)
        assert scaled.maps[0].meets_bars


def test_best_are_distinct_ranked_and_sane(bursty: FitResult) -> None:
    """Several processes, of growing loss, none absurd, no two alike, none above the states allowed."""
    assert 2 <= len(bursty.maps) <= 5
    losses = [fitted.loss for fitted in bursty.maps]
    assert losses == sorted(losses)
    for i, fitted in enumerate(bursty.maps):
        assert fitted.states <= 16
        assert fitted.worst_queue_factor <= ABSURD
        for other in bursty.maps[:i]:
            assert np.max(np.abs(fitted.fingerprint - other.fingerprint)) > 0.01


def test_errors_are_those_of_the_process_given(bursty: FitResult) -> None:
    """Reported errors can be computed again from the matrices."""
    for fitted in bursty.maps:
        process, trace = fitted.map, bursty.trace
        assert fitted.errors["scv"] == pytest.approx(process.scv / trace.scv - 1.0, abs=1e-9)
        difference = process.autocorrelation(np.arange(1, 101)) - trace.acf[:100]
        assert fitted.errors["acf_rmse"] == pytest.approx(np.sqrt((difference**2).mean()), abs=1e-9)
        mean, percentile = predicted_curve(process, bursty.queue.utilisations)
        assert list(fitted.queue_errors.values()) == pytest.approx(list(mean / bursty.queue.responses - 1), abs=1e-6)
        off = percentile / bursty.queue.percentiles - 1.0
        assert list(fitted.percentile_errors.values()) == pytest.approx(list(off), abs=1e-6)


def test_same_seed_gives_the_same_processes(bursty: FitResult) -> None:
    """Two fits with one seed are equal to the last digit."""
    again = fit_maps(MAP4.sample(30_000, np.random.default_rng(1)))
    assert [fitted.map for fitted in again.maps] == [fitted.map for fitted in bursty.maps]


def test_fewer_states_are_kept_to() -> None:
    """No process has more states than allowed, down to the Poisson process of a single one."""
    window = MAP4.sample(10_000, np.random.default_rng(4))
    for most in (1, 2, 4, 7):
        fit = fit_maps(window, max_states=most)
        assert fit.maps
        assert all(fitted.states <= most for fitted in fit.maps)
    assert fit_maps(window, max_states=1).maps[0].map.order == 1


def test_warm_start_follows_the_stream(bursty: FitResult) -> None:
    """The next window's fit goes on from the last one's and is as good."""
    following = MAP4.sample(60_000, np.random.default_rng(1))[5_000:35_000]
    warm = fit_maps(following, warm=bursty)
    assert warm.is_warm
    assert warm.maps[0].meets_bars


def test_warm_start_from_another_world_searches_anew(bursty: FitResult) -> None:
    """When the last window's processes no longer fit the search starts anew, says so, and is as good as without."""
    other = MAP.mmpp([[-0.0005, 0.0005], [0.002, -0.002]], [0.5, 8.0]).sample(20_000, np.random.default_rng(5))
    fit = fit_maps(other, warm=fit_maps(MAP2.sample(5000, np.random.default_rng(6)), best=1, max_states=2))
    assert fit.maps[0].worst_error <= 1.05 * fit_maps(other).maps[0].worst_error
    assert fit.is_warm or any("anew" in note for note in fit.notes)


def test_budget_is_kept() -> None:
    """A tiny budget ends the search after its first step, with a process and a note."""
    window = MAP4.sample(20_000, np.random.default_rng(7))
    fit = fit_maps(window, budget_seconds=1e-6)
    assert fit.maps
    assert any("budget" in note for note in fit.notes)


def test_absurd_fits_are_owned_up_to() -> None:
    """When a single state has to stand for a bursty window, a note warns against planning by it."""
    fit = fit_maps(MAP4.sample(20_000, np.random.default_rng(7)), max_states=1)
    assert fit.maps[0].worst_queue_factor > ABSURD
    assert any("do not plan with it" in note for note in fit.notes)


def test_poisson_is_recognised() -> None:
    """A Poisson window gives the Poisson process of its rate, first."""
    window = np.random.default_rng(8).exponential(0.2, 30_000)
    fit = fit_maps(window)
    assert fit.kind == "poisson"
    assert fit.maps[0].states == 1
    assert fit.maps[0].map.rate == pytest.approx(1.0 / window.mean())


@pytest.mark.parametrize(
    "intervals", [PH.hyperexponential([0.1, 0.9], [0.2, 2.0]), PH.erlang(3, mean=2.0)], ids=["more", "less"]
)
def test_independent_times_are_recognised(intervals: PH) -> None:
    """Independent times more or less variable than exponential give a renewal process with their moments."""
    fit = fit_maps(MAP.renewal(intervals).sample(30_000, np.random.default_rng(9)))
    assert fit.kind == "renewal"
    best = fit.maps[0]
    assert best.meets_bars
    assert np.max(np.abs(best.map.autocorrelation(np.arange(1, 10)))) < 1e-9


def test_negative_correlation_is_recognised() -> None:
    """A window in which short times follow long ones keeps its negative autocorrelation."""
    fit = fit_maps(map2_from_moments(1.0, 3.0, 14.0, -0.3).sample(50_000, np.random.default_rng(10)))
    assert fit.kind == "negative"
    best = fit.maps[0]
    assert best.meets_bars
    assert float(best.map.autocorrelation(1)) == pytest.approx(fit.trace.acf[0], abs=0.01)


def test_strong_negative_correlation_of_regular_times_is_reached() -> None:
    """Alternating times of low variability, out of reach of two phases, are met by more."""
    rng = np.random.default_rng(11)
    window = np.where(np.arange(20_000) % 2 == 0, 1.5, 0.5) * rng.gamma(8.0, 1.0 / 8.0, 20_000)
    trace = describe_iats(window)
    assert trace.acf[0] < -0.5
    fit = fit_maps(window)
    assert fit.kind == "negative"
    assert float(fit.maps[0].map.autocorrelation(1)) == pytest.approx(trace.acf[0], abs=0.1)
    assert fit.maps[0].map.scv == pytest.approx(trace.scv, rel=0.02)


def test_alternating_processes_have_the_moments_asked_for() -> None:
    """Closed forms of alternating processes meet SCV and first autocorrelation exactly."""
    rng = np.random.default_rng(12)
    trace = describe_iats(np.where(np.arange(4000) % 2 == 0, 1.5, 0.5) * rng.gamma(4.0, 0.25, 4000))
    found = [process for name, process, _ in negative_fits(trace, 16) if name.startswith("alternating")]
    assert found
    for process in found:
        assert process.mean == pytest.approx(1.0)
        assert process.scv == pytest.approx(trace.scv, rel=1e-6)
        assert float(process.autocorrelation(1)) == pytest.approx(trace.acf[0], rel=1e-6)


def test_skewed_times_with_negative_correlation_are_searched() -> None:
    """Negatively correlated lognormal times, out of reach of closed forms, meet moments and queue."""
    rng = np.random.default_rng(20)
    z = np.zeros(20_000)
    noise = rng.normal(size=z.size)
    for i in range(1, z.size):
        z[i] = -0.7 * z[i - 1] + noise[i]
    fit = fit_maps(np.exp(0.55 * z))
    best = fit.maps[0]
    assert fit.kind == "negative"
    assert float(best.map.autocorrelation(1)) < 0.6 * fit.trace.acf[0]
    assert abs(best.errors["scv"] or 0.0) < 0.02
    assert best.worst_queue_factor < 1.2


def test_chains_of_alternating_times_are_given_up_where_they_are_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A burst at every full hour makes long gaps rare; two small chains tell that alternating times do not help.

    The search went on to 96 states and took half a minute.
    """
    searched = []

    def counted(chain: Chain, targets: Targets, is_late: IsLate) -> Iterator[Found]:
        searched.append(int(chain.phases.sum()))
        return search_on(chain, targets, is_late)

    search_on = alternating._free
    monkeypatch.setattr(alternating, "_free", counted)
    rng = np.random.default_rng(1)
    stamps = [3600 * hour + rng.integers(0, 60, rng.integers(110, 131)) for hour in range(30)]
    fit = fit_maps(np.diff(np.sort(np.concatenate(stamps))), best=1)
    assert searched == [4, 8]
    assert fit.maps[0].family.startswith("cycle")


def test_chains_of_alternating_times_stay_small() -> None:
    """However many states are allowed, chains that take long to search are not."""
    rng = np.random.default_rng(11)
    window = np.where(np.arange(2000) % 2 == 0, 1.5, 0.5) * rng.gamma(8.0, 1.0 / 8.0, 2000)
    targets = targets_of(describe_iats(window), replay(window, rng))
    found = alternating.alternate(targets, 96, lambda: True)
    assert [process.order for process, _ in found] == [4, 8, 12, 16, 20]


def test_independent_times_of_another_shape_keep_their_queue() -> None:
    """Weibull times have three moments like many others; the mixture with their tail predicts their queue."""
    fit = fit_maps(np.random.default_rng(21).weibull(0.4, 30_000))
    assert fit.kind == "renewal"
    assert fit.maps[0].meets_bars


def test_independent_times_are_rarely_called_correlated() -> None:
    """Of thirty windows of independent, very variable times at most one is taken for correlated."""
    rng = np.random.default_rng(22)
    process = MAP.renewal(PH.hyperexponential([0.1, 0.9], [0.2, 2.0]))
    windows = [describe_iats(process.sample(10_000, rng)) for _ in range(30)]
    assert sum(is_correlated(trace) for trace in windows) <= 1


def test_low_variability_with_positive_correlation_is_fitted() -> None:
    """Times less variable than exponential and positively correlated meet the bars, and keep their variability."""
    rng = np.random.default_rng(13)
    level = np.repeat(np.where(rng.random(600) < 0.5, 0.75, 1.25), 50)
    fit = fit_maps(level * rng.gamma(6.0, 1.0 / 6.0, level.size))
    assert fit.kind == "correlated"
    assert fit.maps[0].errors["scv"] == pytest.approx(0.0, abs=0.05)
    assert fit.maps[0].worst_queue_factor < 1.05


def test_constant_times_fall_back_to_erlang_and_say_so() -> None:
    """A constant window gives the least variable process of the states allowed, with a note."""
    fit = fit_maps(np.full(1000, 0.5), max_states=8)
    assert fit.kind == "constant"
    assert fit.maps[0].map.scv == pytest.approx(1.0 / 8.0)
    assert fit.maps[0].map.mean == pytest.approx(0.5)
    assert any("below the minimum of 8 states" in note for note in fit.notes)


def test_heavy_tail_is_fitted_and_noted() -> None:
    """A sample of infinite variance is fitted by its own moments, with a note."""
    window = np.random.default_rng(14).pareto(1.1, 5000)
    fit = fit_maps(window)
    assert fit.maps
    assert any("infinite" in note for note in fit.notes)


def test_too_short_a_window_says_what_is_needed() -> None:
    """NotReadyError carries the number needed, also when there are hardly any times."""
    for size in (3, NEEDED - 1):
        with pytest.raises(NotReadyError) as caught:
            fit_maps(np.random.default_rng(15).exponential(1.0, size))
        assert caught.value.needed == NEEDED
        assert caught.value.available == size
    assert fit_maps(np.random.default_rng(16).exponential(1.0, NEEDED)).maps


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("best", {"best": 0}),
        ("max_states", {"max_states": 0}),
        ("budget_seconds", {"budget_seconds": 0.0}),
        ("method", {"method": "em"}),
    ],
)
def test_bad_arguments_are_named(field: str, arguments: dict[str, object]) -> None:
    """An argument out of range is refused by name."""
    with pytest.raises(ConfigurationError) as caught:
        fit_maps(np.ones(1000), **arguments)  # type: ignore[arg-type]
    assert caught.value.field == field


def test_absurd_candidates_are_dropped_whatever_their_loss() -> None:
    """A candidate whose queue is off by more than a factor 2 is left out unless there is no other."""
    window = MAP4.sample(10_000, np.random.default_rng(17))
    trace, queue = describe_iats(window), replay(window, np.random.default_rng(18))
    good = score(MAP4.with_rate(1.0), trace, queue, Recipe("true"))
    absurd = score(MAP.poisson(1.0), trace, queue, Recipe("poisson"))
    assert absurd.worst_queue_factor > ABSURD
    chosen, dropped = best_distinct([absurd, good, good], 5)
    assert chosen == [good]
    assert dropped == 1
    assert best_distinct([absurd], 5) == ([absurd], 0)
