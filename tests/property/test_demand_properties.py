# SPDX-License-Identifier: Apache-2.0
"""Whatever batches come, a demand is learnt that can be planned with, or it is said why not."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import NotReadyError
from penstock.performance.demand_learning import BatchDemandLearner
from penstock.records import Allocation

_BATCH = st.tuples(
    st.integers(0, 10**9),
    st.floats(1e-4, 1e5),
    st.integers(1, 100),
    st.sampled_from([0.05, 0.4, 0.7, 1.0]),
    st.one_of(st.none(), st.floats(-1e6, 2e9)),
)


@settings(max_examples=60, deadline=None)
@given(batches=st.lists(_BATCH, min_size=1, max_size=60), restart_at=st.integers(0, 60))
def test_any_batches_give_a_demand_or_a_reason(
    batches: list[tuple[int, float, int, float, float | None]], restart_at: int
) -> None:
    """Times of all sizes, clocks that are set, restarts: what comes out is positive and finite, or a reason."""
    learner = BatchDemandLearner(skip_first=1, least_batches=4)
    for k, (rows, seconds, executors, share, at) in enumerate(batches):
        if k == restart_at:
            learner.restart()
        learner.observe(rows, seconds, Allocation(executors, share), at)
    later = BatchDemandLearner(skip_first=1, least_batches=4)
    later.begin_with(learner.batches)
    for each in (learner, later):
        bounded = each.bounded()
        assert bounded is None or bounded.demand.per_record_seconds > 0.0
        try:
            demand = each.learnt().demand
        except NotReadyError:
            continue
        assert 0.0 < demand.fixed_seconds < math.inf
        assert 0.0 < demand.per_record_seconds < math.inf
        assert 0.0 <= demand.per_record_error_seconds < math.inf
        assert 0.0 <= demand.fixed_cpu_seconds <= demand.fixed_seconds
