# SPDX-License-Identifier: Apache-2.0
"""Whatever is measured: the elastic policy stays within limits, explains itself, and never takes less in need."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.performance.demand import BatchDemand
from penstock.policies import make_policy
from penstock.ports import AnalysisPlace, OperatorSite, PolicyContext
from penstock.records import Allocation, Decision, Limits, Objective, Quality, decode, encode
from penstock.testing import a_request, an_observation
from penstock.topology import Topology

SHARES = (0.1, 0.25, 1 / 3, 0.5, 0.75, 1.0)
anything = st.none() | st.floats(allow_nan=False) | st.floats(0.0, 1e4)
thorough = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)


@st.composite
def limits_of(draw: st.DrawFn) -> Limits:
    """Any limits."""
    low = draw(st.integers(1, 4))
    shares = draw(st.sets(st.sampled_from(SHARES), min_size=1))
    return Limits(low, low + draw(st.integers(0, 6)), tuple(sorted(shares)))


def plan(limits: Limits, current: Allocation, rate: float | None, backlog: int | None, patience: float) -> Decision:
    """What is decided for a query of known demand."""
    site = OperatorSite(limits, demand=BatchDemand(0.5, 0.004))
    topology = Topology.of_one("operator")
    context = PolicyContext(topology, {"operator": site}, {("operator",): Objective()}, AnalysisPlace("here"))
    seen = an_observation(arrival_rate_rows_per_second=rate, backlog_records=backlog, processed_rows_per_second=None)
    request = a_request(observation=seen, current=current, limits=limits, objective=Objective())
    return make_policy("elastic", context, {"patience": patience}).plan(request)


sizes = st.builds(Allocation, st.integers(1, 40), st.sampled_from(SHARES))
counts = st.none() | st.integers(-10, 2**62)
patiences = st.floats(0.0, 0.9)


@thorough
@given(limits_of(), sizes, anything, counts, patiences)
def test_a_change_is_within_the_limits_and_explained(
    limits: Limits, current: Allocation, rate: float | None, backlog: int | None, patience: float
) -> None:
    """Whatever arrives and waits, what is asked for is allowed, has a reason, and survives JSON."""
    decision = plan(limits, current, rate, backlog, patience)
    assert limits.allows(decision.target) or decision.target == current
    assert decision.reason
    assert decode(Decision, encode(decision)) == decision
    assert decision.target not in [rejected.allocation for rejected in decision.rejected]


@thorough
@given(limits_of(), sizes, st.floats(0.0, 1e5), st.integers(0, 10**7), patiences)
def test_more_work_never_gets_less(
    limits: Limits, current: Allocation, rate: float, backlog: int, patience: float
) -> None:
    """A larger backlog at the same rate never gets a smaller allocation than it has where less of it gets more."""
    little, much = (plan(limits, current, rate, count, patience) for count in (backlog, 4 * backlog + 1000))
    if little.is_growth and little.is_change:
        assert much.target.capacity >= little.target.capacity * (1.0 - 1e-9)


@thorough
@given(limits_of(), sizes, st.sampled_from([q for q in Quality if q is not Quality.GOOD]))
def test_bad_data_change_nothing(limits: Limits, current: Allocation, quality: Quality) -> None:
    """On data that are not good it holds, whatever they say."""
    site = OperatorSite(limits, demand=BatchDemand(0.5, 0.004))
    topology = Topology.of_one("operator")
    context = PolicyContext(topology, {"operator": site}, {("operator",): Objective()}, AnalysisPlace("here"))
    request = a_request(current=current, limits=limits)
    request = replace(request, observation=replace(request.observation, quality=quality))
    assert not make_policy("elastic", context).plan(request).is_change
