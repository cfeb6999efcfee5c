# SPDX-License-Identifier: Apache-2.0
"""Many small least-squares problems at once: the same answers as scipy's, one by one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import nnls

from penstock.performance.sample_sizes.small_nnls import solve_small_nnls


@pytest.mark.parametrize("weights", [1, 2, 3, 4])
def test_it_solves_what_scipy_solves(weights: int) -> None:
    """Each of 200 random problems with two right-hand sides has the weights that scipy's nnls finds."""
    generator = np.random.default_rng(weights)
    X = generator.normal(size=(200, 8, weights))
    y = generator.normal(size=(200, 8, 2))
    gram = np.moveaxis(np.swapaxes(X, 1, 2) @ X, 0, 2)
    moments = np.moveaxis(np.swapaxes(X, 1, 2) @ y, 0, 2)
    found = solve_small_nnls(gram, moments)
    for problem in range(200):
        for side in range(2):
            expected, _ = nnls(X[problem], y[problem, :, side])
            assert found[:, side, problem] == pytest.approx(expected, abs=1e-9)


def test_weights_are_zero_where_all_would_be_negative() -> None:
    """A target that points away from every column leaves all weights at zero."""
    gram = np.eye(3)[:, :, None]
    assert not solve_small_nnls(gram, -np.ones((3, 1, 1))).any()


def test_too_many_weights_are_refused() -> None:
    """Trying all sets of seven weights would be slower than an active-set method, and is refused."""
    with pytest.raises(ValueError, match="7 weights"):
        solve_small_nnls(np.eye(7)[:, :, None], np.ones((7, 1, 1)))
