# SPDX-License-Identifier: Apache-2.0
"""Processes that are right with the service times in question."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from penstock.errors import ConfigurationError
from penstock.markov import MAP, map2_from_moments
from penstock.ports import FloatArray
from penstock.workload import FittedWorkload, estimate_workload
from penstock.workload.plausible import plausible_maps

BURSTY = map2_from_moments(1.0, 5.0, 60.0, 0.9)


@pytest.fixture(scope="module")
def buffer() -> FloatArray:
    """A bursty window."""
    return BURSTY.sample(2_500, np.random.default_rng(1))


@pytest.fixture(scope="module")
def estimate(buffer: FloatArray) -> FittedWorkload:
    """Its fit, and beside it a process that has nothing to do with it."""
    told = estimate_workload(buffer, shares=(1.0,), best=1)
    (window,) = told.windows
    stranger = replace(window.fit.maps[0], map=MAP.poisson(1.0))
    fit = replace(window.fit, maps=(*window.fit.maps, stranger))
    return replace(told, windows=(replace(window, fit=fit),))


def test_a_process_that_is_off_where_it_matters_is_left_out(buffer: FloatArray, estimate: FittedWorkload) -> None:
    """At a high utilisation the process without bursts is far off and goes; its neighbours stay."""
    (kept,) = plausible_maps(estimate, buffer, (0.3, 0.7)).values()
    assert 1 <= len(kept) < len(estimate.maps)
    assert all(fitted.map != MAP.poisson(1.0) for fitted in kept)


def test_where_processes_agree_they_all_stay(buffer: FloatArray, estimate: FittedWorkload) -> None:
    """With hardly any load hardly anything waits, and every process is right."""
    (kept,) = plausible_maps(estimate, buffer, (0.01,), factor=1.5).values()
    assert kept == estimate.maps


def test_what_saturates_a_window_tells_nothing(buffer: FloatArray, estimate: FittedWorkload) -> None:
    """With service times above the intervals every process stays."""
    (kept,) = plausible_maps(estimate, buffer, (5.0, 20.0)).values()
    assert kept == estimate.maps


def test_a_window_is_never_left_without_a_process(buffer: FloatArray, estimate: FittedWorkload) -> None:
    """With a factor that nothing meets, the nearest process is given."""
    (kept,) = plausible_maps(estimate, buffer, (0.2, 0.5, 0.9), factor=1.0 + 1e-9).values()
    assert len(kept) == 1


def test_wrong_questions_are_refused(buffer: FloatArray, estimate: FittedWorkload) -> None:
    """Times that are none and factors up to 1 are errors that name the field."""
    for wrong in ((), (0.0,), (-1.0,), (float("nan"),)):
        with pytest.raises(ConfigurationError, match="service_times"):
            plausible_maps(estimate, buffer, wrong)
    with pytest.raises(ConfigurationError, match="factor"):
        plausible_maps(estimate, buffer, (0.5,), factor=1.0)
