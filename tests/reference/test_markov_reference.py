# SPDX-License-Identifier: Apache-2.0
"""Published and closed-form values, read from cases/markov.toml, each with its source."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.markov import MAP, PH, fit_three_moments, map2_feasible, map2_from_moments, third_moment_bounds

CASES: dict[str, list[dict[str, Any]]] = tomllib.loads(
    (Path(__file__).parent / "cases" / "markov.toml").read_text(encoding="utf-8")
)


def cases(name: str) -> pytest.MarkDecorator:
    """Each case of that name, shown by its source."""
    return pytest.mark.parametrize("case", CASES[name], ids=[case["source"][:40] for case in CASES[name]])


@cases("ph_moments")
def test_moments_of_phase_type_distributions(case: dict[str, Any]) -> None:
    """Moments agree with the published values to twelve digits."""
    moments = PH(case["alpha"], case["T"]).moments(len(case["moments"]))
    assert moments == pytest.approx(case["moments"], rel=1e-12)


@cases("third_moment_bounds")
def test_bounds_of_the_third_moment(case: dict[str, Any]) -> None:
    """Bounds agree with the published values to twelve digits."""
    bounds = third_moment_bounds(case["m1"], case["m2"], case["phases"])
    assert bounds == pytest.approx((case["low"], case["high"]), rel=1e-12)


@cases("three_moments")
def test_three_moments_give_the_published_distribution(case: dict[str, Any]) -> None:
    """Order, initial vector and rates are those printed, to their five digits."""
    distribution = fit_three_moments(*case["moments"]).distribution
    assert distribution.order == case["phases"]
    assert distribution.alpha == pytest.approx(case["alpha"], rel=1e-4, abs=1e-9)
    assert -distribution.T.diagonal() == pytest.approx(case["rates"], rel=1e-4)


@cases("map")
def test_descriptors_of_arrival_processes(case: dict[str, Any]) -> None:
    """Moments, autocorrelation and joint moments agree with what was printed."""
    process = MAP(case["D0"], case["D1"])
    assert process.moments(4) == pytest.approx(case["moments"], rel=2e-5)
    lags = np.arange(1, 1 + len(case["autocorrelation"]))
    assert process.autocorrelation(lags) == pytest.approx(case["autocorrelation"], rel=1e-10)
    joint = [[process.joint_moment([i, j], [1]) for j in range(1, 5)] for i in range(1, 5)]
    assert np.array(joint) == pytest.approx(np.array(case["joint"]), rel=5e-4)


@cases("map2")
def test_canonical_form_of_two_phases(case: dict[str, Any]) -> None:
    """From moments and decay the published canonical matrices come back, and the bounds on the correlation."""
    source = MAP(case["D0"], case["D1"])
    m1, m2, m3 = case["moments"]
    assert source.moments(3) == pytest.approx(case["moments"], rel=1e-12)
    assert source.autocorrelation(1) == pytest.approx(case["rho"], rel=1e-10)
    found = map2_from_moments(m1, m2, m3, source.decay)
    assert pytest.approx(np.array(case["canonical_D0"]), rel=1e-9) == found.D0
    assert pytest.approx(np.array(case["canonical_D1"]), rel=1e-9) == found.D1
    region = map2_feasible(m1, m2, m3)
    assert region.gamma_low is not None
    assert region.gamma_high is not None
    # rho_1 = gamma h2 / SCV
    per_gamma = (m2 / (2 * m1 * m1) - 1) / (m2 / (m1 * m1) - 1)
    assert region.gamma_low * per_gamma == pytest.approx(case["rho_low"], rel=1e-9)
    assert region.gamma_high * per_gamma == pytest.approx(case["rho_high"], rel=1e-9)


@cases("mmpp_idc")
def test_dispersion_of_modulated_poisson_processes(case: dict[str, Any]) -> None:
    """The index of dispersion for counts is the closed form, at its times and in the limit."""
    process = MAP.mmpp(case["Q"], case["rates"])
    assert process.idc(case["times"]) == pytest.approx(case["idc"], rel=1e-12)
    assert process.asymptotic_idc == pytest.approx(case["limit"], rel=1e-12)
