# SPDX-License-Identifier: Apache-2.0
"""Long series are thinned out without losing a peak."""

import math
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.service.series import Buckets, FloatArray

VALUES = st.lists(
    st.tuples(st.floats(-10.0, 110.0), st.none() | st.floats(-1e6, 1e6) | st.just(math.inf) | st.just(math.nan)),
    max_size=60,
)


def columns(values: Sequence[tuple[float, float | None]]) -> tuple[FloatArray, FloatArray]:
    """Times and values as a service has them: what is not known is NaN."""
    return np.array([at for at, _ in values]), np.array([math.nan if v is None else v for _, v in values])


@given(VALUES, st.integers(1, 40))
def test_the_extremes_of_what_is_known_survive(values: list[tuple[float, float | None]], count: int) -> None:
    """The least and most over all buckets are those of the values in the range; means lie between them."""
    values.sort(key=lambda one: one[0])
    thinned = Buckets(0.0, 100.0, count).thinned(*columns(values))
    known = [v for at, v in values if v is not None and math.isfinite(v) and 0.0 <= at < 100.0]
    assert thinned.is_empty is (not known)
    if known:
        assert min(v for v in thinned.least if v is not None) == min(known)
        assert max(v for v in thinned.most if v is not None) == max(known)
    for least, mean, most in zip(thinned.least, thinned.mean, thinned.most, strict=True):
        assert (least is None) is (mean is None) is (most is None)
        if least is not None and mean is not None and most is not None:
            assert least - 1e-6 <= mean <= most + 1e-6
    assert len(thinned.mean) == count


def test_a_value_is_in_the_bucket_of_its_time() -> None:
    """A bucket begins with its start and ends before the next."""
    buckets = Buckets(0.0, 4.0, 4)
    thinned = buckets.thinned(*columns([(0.0, 1.0), (0.999, 3.0), (1.0, 5.0), (3.999, 7.0), (4.0, 9.0)]))
    assert thinned.most == [3.0, 5.0, None, 7.0]
    assert thinned.mean == [2.0, 5.0, None, 7.0]
