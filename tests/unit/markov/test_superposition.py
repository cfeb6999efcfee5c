# SPDX-License-Identifier: Apache-2.0
"""Tests of streams seen as one."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidProcessError
from penstock.markov import MAP, PH, superpose


def test_variance_of_counts_adds_up() -> None:
    """Counts of independent streams add: so do their variances, at any length of interval."""
    one, other = MAP.mmpp([[-1.0, 1.0], [2.0, -2.0]], [9.0, 1.0]), MAP.renewal(PH.erlang(3, mean=0.4))
    both = superpose(one, other)
    for t in (0.1, 5.0):
        parts = one.rate * one.idc(t) + other.rate * other.idc(t)
        assert both.rate * both.idc(t) == pytest.approx(float(parts), rel=1e-10)


def test_order_multiplies_and_rate_adds() -> None:
    """Three streams give the product of the orders and the sum of the rates."""
    parts = [
        MAP.poisson(1.0),
        MAP.renewal(PH.erlang(2, mean=0.5)),
        MAP.mmpp([[-1.0, 1.0], [1.0, -1.0]], [3.0, 5.0]),
    ]
    both = superpose(*parts)
    assert both.order == 4
    assert both.rate == pytest.approx(1.0 + 2.0 + 4.0, rel=1e-12)


def test_one_stream_is_itself() -> None:
    """A single stream stays as it is; none is refused."""
    poisson = MAP.poisson(2.0)
    assert superpose(poisson) == poisson
    with pytest.raises(InvalidProcessError, match="at least one process"):
        superpose()
