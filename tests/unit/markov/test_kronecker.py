# SPDX-License-Identifier: Apache-2.0
"""Tests of Kronecker composition: the closed forms against the composed process."""

from __future__ import annotations

import numpy as np
import pytest

from penstock import markov
from penstock.errors import InvalidProcessError
from penstock.markov import MAP, compose, kronecker

HIDDEN = markov.map2_from_moments(0.8, 1.05, 1.9, 0.01)
SLOW = MAP([[-1.0, 0.0], [0.0, -6.0]], [[0.95, 0.05], [0.6, 5.4]])
NEGATIVE = MAP([[-1.0, 0.0], [0.0, -6.0]], [[0.1, 0.9], [5.4, 0.6]])
COMPONENTS = [HIDDEN, SLOW, NEGATIVE]


def test_composition_is_a_valid_process() -> None:
    """Three pairs of phases give eight, with sign alternating so that D0 is a subgenerator."""
    composed = compose(*COMPONENTS)
    assert composed.order == 8
    assert compose(SLOW, NEGATIVE).order == 4
    assert compose(SLOW) == SLOW


def test_moments_are_products() -> None:
    """Moments and SCV of the composition follow from the components."""
    composed = compose(*COMPONENTS)
    assert markov.composed_moments(COMPONENTS, 4) == pytest.approx(composed.moments(4), rel=1e-11)
    assert markov.composed_scv(COMPONENTS) == pytest.approx(composed.scv, rel=1e-11)


def test_autocorrelation_is_a_product() -> None:
    """The autocorrelation of the composition follows from SCVs and autocorrelations of the components."""
    lags = [[0, 1, 2], [5, 20, 100]]
    composed = compose(*COMPONENTS)
    assert markov.composed_autocorrelation(COMPONENTS, lags) == pytest.approx(
        composed.autocorrelation(lags), rel=1e-8, abs=1e-13
    )


def test_strong_negative_correlation_is_composed() -> None:
    """With c2 rho below -1/2 the plain product is taken, and agrees as well."""
    alternating = MAP([[-1.0, 0.0], [0.0, -60.0]], [[0.01, 0.99], [59.9, 0.1]])
    parts = [alternating, SLOW]
    assert alternating.scv * alternating.autocorrelation(1) < -0.5
    assert markov.composed_autocorrelation(parts, [1, 2]) == pytest.approx(
        compose(*parts).autocorrelation([1, 2]), rel=1e-9
    )


def test_joint_moments_and_bicovariances_are_products() -> None:
    """Triples follow from the components, raw and centred."""
    composed = compose(*COMPONENTS)
    assert markov.composed_joint_moment(COMPONENTS, [1, 2, 1], [3, 1]) == pytest.approx(
        composed.joint_moment([1, 2, 1], [3, 1]), rel=1e-11
    )
    i, j = np.array([[1], [4]]), np.array([1, 2])
    for centred in (True, False):
        assert markov.composed_bicovariance(COMPONENTS, i, j, centred=centred) == pytest.approx(
            composed.bicovariance(i, j, centred=centred), rel=1e-7, abs=1e-11
        )


def test_two_hidden_components_are_refused() -> None:
    """Two components with transitions that bring no arrival cannot be composed; the message names them."""
    assert kronecker.has_hidden_transitions(HIDDEN)
    assert not kronecker.has_hidden_transitions(SLOW)
    with pytest.raises(InvalidProcessError, match=r"the components \[0, 2\] have transitions without arrivals"):
        compose(HIDDEN, SLOW, HIDDEN)


def test_reducible_composition_is_refused() -> None:
    """Two strictly alternating components would fall into two classes."""
    alternating = MAP([[-1.0, 0.0], [0.0, -6.0]], [[0.0, 1.0], [6.0, 0.0]])
    with pytest.raises(InvalidProcessError, match="reducible"):
        compose(alternating, alternating)


def test_nothing_cannot_be_composed() -> None:
    """Without components there is nothing to compose or to combine."""
    with pytest.raises(InvalidProcessError, match="at least one component"):
        compose()
    with pytest.raises(InvalidProcessError, match="at least one component"):
        markov.composed_scv([])
