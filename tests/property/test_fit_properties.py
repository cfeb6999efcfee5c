# SPDX-License-Identifier: Apache-2.0
"""What holds for every window and every parameter, whatever they are."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.markov import MAP, map2_from_moments
from penstock.markov.queue_gradient import queue_means
from penstock.workload import describe_iats, fit_maps, product_form, replay
from penstock.workload.burst_chain import Bursts
from penstock.workload.load_curve import load_curves
from penstock.workload.product_form import Shape
from penstock.workload.replay_queue import service
from penstock.workload.targets import targets_of

_WINDOW = map2_from_moments(1.0, 4.0, 40.0, 0.8).sample(3000, np.random.default_rng(1))
_TARGETS = targets_of(describe_iats(_WINDOW), replay(_WINDOW, np.random.default_rng(2)))
_SHAPES = st.builds(Shape, st.integers(1, 3), st.sampled_from([0, 2, 3]))


@settings(max_examples=60, deadline=None)
@given(shape=_SHAPES, seed=st.integers(0, 2**32 - 1))
def test_every_parameter_within_bounds_is_a_valid_process(shape: Shape, seed: int) -> None:
    """Feasibility by construction: any theta within its bounds composes to a MAP of mean 1."""
    low, high = product_form.bounds(shape, 50_000)
    theta = np.random.default_rng(seed).uniform(low, high)[None]
    d0, d1 = product_form.matrices(theta, shape)
    process = MAP(d0[0], d1[0])
    assert process.order == shape.order
    assert abs(process.mean - 1.0) < 1e-6


@settings(max_examples=40, deadline=None)
@given(
    shape=st.builds(Bursts, st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple), st.integers(1, 4),
                    st.integers(1, 3)),
    seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_every_chain_of_bursts_within_bounds_is_a_valid_process(shape: Bursts, seed: int) -> None:
    """Any parameters within three quarters of their bounds give a MAP of the order stated."""
    low, high = shape.bounds()
    theta = np.random.default_rng(seed).uniform(0.75 * low, 0.75 * high)[None]
    d0, d1 = shape.matrices(theta)
    assert MAP(d0[0], d1[0]).order == shape.order


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    scv=st.floats(1.3, 15.0), tail=st.floats(1.1, 4.0), decay=st.floats(0.0, 0.98),
    size=st.integers(300, 4000), seed=st.integers(0, 1000), scale=st.sampled_from([1e-6, 1.0, 3600.0]),
)  # fmt: skip
def test_every_window_of_a_map2_gets_valid_processes(
    *, scv: float, tail: float, decay: float, size: int, seed: int, scale: float
) -> None:
    """Whatever the window, fits are valid, of its mean, within the states, ranked, and reported with errors."""
    m2 = 1.0 + scv
    process = map2_from_moments(1.0, m2, 1.5 * m2 * m2 * tail, decay)
    window = process.sample(size, np.random.default_rng(seed)) * scale
    fit = fit_maps(window, best=3, max_states=8, seed=seed)
    assert fit.maps
    assert [m.loss for m in fit.maps] == sorted(m.loss for m in fit.maps) or fit.kind == "poisson"
    for fitted in fit.maps:
        assert fitted.states <= 8
        MAP(fitted.map.D0, fitted.map.D1)
        assert abs(fitted.map.mean / window.mean() - 1.0) < 1e-6
        assert np.isfinite(fitted.loss)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_response_times_grow_convexly_with_the_load(seed: int) -> None:
    """Of any composition, mean response time is increasing and convex in the utilisation, as theory demands."""
    shape = Shape(2)
    low, high = product_form.bounds(shape, 2000)
    theta = np.random.default_rng(seed).uniform(0.5 * low, 0.5 * high)[None]
    d0, d1 = product_form.matrices(theta, shape)
    loads = np.array([0.2, 0.4, 0.6, 0.8])
    means = queue_means(
        np.tile(d0, (4, 1, 1)), np.tile(d1, (4, 1, 1)), service().alpha, service().T / loads[:, None, None]
    )
    growth = np.diff(means.response)
    assert np.all(growth > 0)
    assert np.all(np.diff(growth) > -1e-9 * means.response[1:-1])


@settings(max_examples=20, deadline=None)
@given(rate=st.floats(1.5, 50.0), length=st.floats(20.0, 2000.0), weight=st.floats(0.1, 3.0))
def test_more_stages_make_the_queue_shorter(rate: float, length: float, weight: float) -> None:
    """Of the same bursts, more regular ones do not wait longer, but for a few percent."""
    theta, responses = np.log([[rate, length, weight]]), []
    for shape in (Bursts((1,)), Bursts((3,), 3)):
        mean, _ = load_curves(*shape.matrices(theta), np.array([0.7]))
        responses.append(float(mean[0, 0]))
    assert responses[1] <= responses[0] * 1.05
