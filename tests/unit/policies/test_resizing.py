# SPDX-License-Identifier: Apache-2.0
"""Another executor size is proposed where no live change helps, and only where it repays the pause of its restart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.errors import ConfigurationError
from penstock.policies.capacity_spells import CapacitySpells
from penstock.policies.fixed import FixedPolicy
from penstock.policies.resizing import ResizingPolicy, SizedOperator
from penstock.policies.restart_weighing import RestartCase, RestartWeighing
from penstock.policies.threshold import ThresholdPolicy
from penstock.ports import Look
from penstock.records import (
    Allocation,
    BatchProgress,
    ClusterState,
    Decision,
    ExecutorSize,
    LatencySummary,
    Limits,
    Objective,
    Observation,
    PlanRequest,
    Quality,
    Telemetry,
)
from penstock.testing import a_decision, check_policy

LIMITS = Limits(1, 2, (0.5, 1.0))
OBJECTIVE = Objective("p95", 2.0)
TWO, FOUR = ExecutorSize(2, "1g", worth=2.0), ExecutorSize(4, "1g", worth=4.0)


def latency(p50: float, p95: float) -> LatencySummary:
    """A latency with these percentiles."""
    return LatencySummary(1000, p50, p50, p95, p95, p95)


def seen(
    at: float = 100.0,
    *,
    has: Allocation = LIMITS.top,
    rate: float = 1000.0,
    backlog: int = 5000,
    use: float = 0.95,
    took: LatencySummary | None = None,
    quality: Quality = Quality.GOOD,
) -> Observation:
    """What the monitor saw."""
    return Observation(
        "logs", at, 15.0, quality, ClusterState(observed=has), rate, rate, backlog, use, batch_seconds=1.0,
        latency=took or latency(1.0, 1.5),
    )  # fmt: skip


def case(observation: Observation, **changed: object) -> RestartCase:
    """An operator of one core, short of nothing, that may have two or four."""
    made = RestartCase(observation, LIMITS, OBJECTIVE, (1.0, 2.0, 4.0), 0, 0.0, 0.0, 0.0, None, 30.0)
    return replace(made, **changed)  # type: ignore[arg-type]


def test_a_growing_backlog_at_the_top_is_worth_a_restart() -> None:
    """Of 1000 arriving, 800 are served: 125,000 would wait in 10 min; two cores (1440 a second) work all of it off."""
    verdict = RestartWeighing().verdict(case(seen(), top_seconds=60.0, backlog_growth_rows_per_second=200.0))
    assert verdict.size == 1
    assert verdict.evidence["records_that_will_wait"] == pytest.approx(30_000.0)
    assert verdict.evidence["records_behind_as_it_is"] == pytest.approx(5000 + 200 * 600)
    assert verdict.evidence["records_behind_after_restart"] == 0.0
    assert "with a restart 0 records would wait" in verdict.reason


def test_a_pause_that_is_too_long_is_not_repaid() -> None:
    """With 300 s of pause 300,000 + 5,000 - 440 * 300 = 173,000 records would wait, more than the 125,000 as it is."""
    asked = case(seen(), top_seconds=60.0, backlog_growth_rows_per_second=200.0, pause_seconds=300.0)
    verdict = RestartWeighing().verdict(asked)
    assert verdict.size == 0
    assert verdict.evidence["records_behind_after_restart"] == pytest.approx(173_000.0)
    assert "would not repay" in verdict.reason
    assert verdict.is_weighed


@pytest.mark.parametrize(
    "changed",
    [
        {"top_seconds": 59.0, "backlog_growth_rows_per_second": 200.0},
        {"top_seconds": 600.0, "backlog_growth_rows_per_second": 40.0},
        {"top_seconds": 600.0, "backlog_growth_rows_per_second": None, "broken_seconds": 59.0},
        {"top_seconds": 600.0, "backlog_growth_rows_per_second": 200.0, "size": 2},
    ],
    ids=["not long at the top", "grows by less than 5 %", "not long broken", "no larger size"],
)
def test_without_need_nothing_is_weighed(changed: dict[str, object]) -> None:
    """A short wait, a backlog that stands, or the largest size: no restart."""
    verdict = RestartWeighing().verdict(case(seen(), **changed))
    assert (verdict.size, verdict.is_weighed) == (changed.get("size", 0), False)


def test_a_broken_objective_is_weighed_by_how_many_records_are_late() -> None:
    """Half of the records late for 10 min outweigh a pause of 30 s and its catching up; 5 % of them do not."""
    weighing = RestartWeighing()
    # c' = 1000 / 0.95 * 1.8 = 1895; after the pause 35,000 wait and 895 a second are worked off: 39.1 s.
    half = weighing.verdict(case(seen(took=latency(3.0, 5.0)), top_seconds=90.0, broken_seconds=90.0))
    assert half.size == 1
    assert half.evidence["records_behind_as_it_is"] == pytest.approx(0.5 * 1000 * 600)
    assert half.evidence["records_behind_after_restart"] == pytest.approx(69_116, rel=1e-3)
    few = weighing.verdict(case(seen(took=latency(1.0, 2.5)), top_seconds=90.0, broken_seconds=90.0))
    assert few.size == 0
    assert few.evidence["records_behind_as_it_is"] == pytest.approx(0.05 * 1000 * 600)


def test_a_backlog_that_will_be_gone_soon_is_not_worth_a_restart() -> None:
    """All is late, but 5,000 records are worked off at 500 a second: in ten seconds it is over."""
    asked = case(
        seen(took=latency(3.0, 5.0)), top_seconds=90.0, broken_seconds=90.0, backlog_growth_rows_per_second=-500.0
    )
    verdict = RestartWeighing().verdict(asked)
    assert verdict.size == 0
    assert verdict.evidence["records_behind_as_it_is"] == pytest.approx(0.5 * 1000 * 10)


def test_a_smaller_size_waits_until_its_pause_is_allowed_for() -> None:
    """A p95 allows 5 % late: 75 s of late records need 1500 s of calm, half the pause half of it; and CPU must do."""
    observation = seen(has=Allocation(1, 0.5, TWO), use=0.4, backlog=0)
    early = case(observation, size=1, calm_seconds=900.0, pause_seconds=60.0)
    weighing = RestartWeighing()
    # Used: 0.4 x 0.5 x 2 cores = 0.4; the smaller size has 2 x 1 cores: 20 %. Late: 60 x (1 + 0.2 / 0.8) = 75 s.
    verdict = weighing.verdict(early)
    assert (verdict.size, verdict.is_weighed) == (1, True)
    assert "but" in verdict.reason
    assert weighing.verdict(replace(early, calm_seconds=1501.0)).size == 0
    assert weighing.verdict(replace(early, pause_seconds=30.0)).size == 0
    busy = replace(early, observation=seen(has=Allocation(2, 1.0, TWO), use=0.4), calm_seconds=9000.0)
    assert "80%" in weighing.verdict(busy).reason
    assert weighing.verdict(busy).size == 1


def test_unknown_rates_are_not_decided_upon() -> None:
    """Missing is not zero: without an arrival rate nothing can be weighed."""
    unknown = replace(seen(), arrival_rate_rows_per_second=None)
    asked = case(unknown, top_seconds=600.0, broken_seconds=600.0, backlog_growth_rows_per_second=1.0)
    assert not RestartWeighing().verdict(asked).is_weighed


@pytest.mark.parametrize("field", ["after_seconds", "horizon_seconds", "calm_seconds"])
def test_times_are_positive(field: str) -> None:
    """A wrong time is refused with its name."""
    with pytest.raises(ConfigurationError, match=field):
        RestartWeighing(**{field: float("nan")})


def test_spells_begin_and_end_with_what_is_seen() -> None:
    """Time at the top counts from the first look there; late data change nothing; a start begins anew."""
    spells = CapacitySpells(LIMITS, OBJECTIVE, 10.0)
    for at in range(11):
        spells.add(seen(float(at), backlog=1000 + 50 * at, took=latency(3.0, 5.0)))
    assert (spells.top_seconds, spells.broken_seconds, spells.calm_seconds) == (10.0, 10.0, 0.0)
    assert spells.backlog_growth_rows_per_second == pytest.approx(50.0)
    spells.add(seen(11.0, quality=Quality.INCOMPLETE, has=Allocation(1, 0.5)))
    assert spells.top_seconds == 11.0
    spells.add(seen(12.0, has=Allocation(1, 1.0)))
    assert (spells.top_seconds, spells.broken_seconds) == (0.0, 0.0)
    assert spells.backlog_growth_rows_per_second is None
    spells.add(seen(13.0))
    spells.add(seen(14.0, quality=Quality.WARMING_UP))
    assert spells.top_seconds == 0.0


def test_a_trend_needs_batches_that_end() -> None:
    """While a long batch runs the backlog grows as fast as records arrive, whatever the operator can do."""
    spells = CapacitySpells(LIMITS, OBJECTIVE, 10.0)
    for at in range(60):
        # Batches of 15 s take 12,000 records each: of 1000 a second, 800 are served.
        ended = at // 15
        spells.add(replace(seen(float(at), backlog=1000 * at - 12_000 * ended), last_batch_id=ended))
        if at < 30:
            assert spells.backlog_growth_rows_per_second is None
    assert spells.backlog_growth_rows_per_second == pytest.approx(200.0, abs=250.0)


def test_a_tie_is_no_ground_for_a_restart() -> None:
    """Where nothing is served a larger size is not known to serve more."""
    verdict = RestartWeighing().verdict(case(seen(), top_seconds=60.0, backlog_growth_rows_per_second=1000.0000001))
    assert verdict.size == 0
    assert "would not repay" in verdict.reason


def test_calm_is_the_bottom_of_the_limits_with_the_objective_met() -> None:
    """A larger allocation, a broken objective or a backlog of more than the window ends the calm."""
    for other in (
        {"has": Allocation(1, 1.0)},
        {"has": Allocation(1, 0.5), "took": latency(2.5, 3.0)},
        {"has": Allocation(1, 0.5), "backlog": 16_000},
    ):
        spells = CapacitySpells(LIMITS, OBJECTIVE, 10.0)
        spells.add(seen(0.0, has=Allocation(1, 0.5), backlog=100))
        spells.add(seen(5.0, has=Allocation(1, 0.5), backlog=100))
        assert spells.calm_seconds == 5.0
        spells.add(seen(6.0, **other))
        assert spells.calm_seconds == 0.0


def test_spells_are_those_of_the_size_that_it_has() -> None:
    """The top of the limits with two cores is more than the top with one; each is the top of its ladder."""
    spells = CapacitySpells(LIMITS, OBJECTIVE, 10.0)
    top = replace(LIMITS.top, size=TWO)
    spells.add(seen(0.0, has=top))
    spells.add(seen(5.0, has=top))
    assert spells.top_seconds == 5.0
    spells.add(seen(6.0, has=Allocation(1, 0.5, TWO), backlog=100))
    spells.add(seen(9.0, has=Allocation(1, 0.5, TWO), backlog=100))
    assert (spells.top_seconds, spells.calm_seconds) == (0.0, 3.0)


# --- the policy ------------------------------------------------------------------------------------------------

SIZED = replace(LIMITS, sizes=(TWO, FOUR))


def a_policy(inner: Any = None, *, after: float = 10.0, calm: float = 900.0, pause: float = 30.0) -> ResizingPolicy:
    """A policy that never scales, with sizes."""
    weighing = RestartWeighing(after, 600.0, calm)
    return ResizingPolicy(
        inner or FixedPolicy(), {"logs": SizedOperator(SIZED, OBJECTIVE)}, weighing, pause_seconds=pause
    )


def a_batch(number: int, run_id: str, ended: float) -> BatchProgress:
    """A batch of one second."""
    return BatchProgress("logs", "q", run_id, number, ended - 1.0, ended, 10, {}, ())


def look(observation: Observation, *batches: BatchProgress) -> Look:
    """A look that gave this picture."""
    return Look(Telemetry("logs", observation.at, batches), observation)


def a_request(observation: Observation, current: Allocation | None = None, recent: tuple[Decision, ...] = ()) -> Any:
    """Ask about what was seen last."""
    has = current or observation.cluster.observed
    assert has is not None
    return PlanRequest("logs", observation.at, observation, has, SIZED, OBJECTIVE, recent)


def watched(policy: ResizingPolicy, seconds: int, has: Allocation = SIZED.top, growth: int = 200) -> Observation:
    """Let a policy watch an operator whose backlog grows; gives the last look."""
    observation = seen(0.0, has=has)
    for at in range(seconds + 1):
        observation = seen(float(at), has=has, backlog=5000 + growth * at)
        policy.watch(look(observation))
    return observation


def test_a_larger_size_is_proposed_with_reason_evidence_and_the_price_of_its_pause() -> None:
    """At the top of its limits for long enough, and the backlog grows: the next size, at the top of its limits."""
    policy = a_policy()
    early = policy.plan(a_request(watched(policy, 5)))
    assert early.verb == "hold"
    decision = policy.plan(a_request(watched(policy, 12)))
    assert (decision.verb, decision.policy) == ("restart larger", policy.name)
    assert decision.target == replace(SIZED.top, size=TWO)
    assert "the backlog grows" in decision.reason
    assert decision.evidence["pause_expected_seconds"] == 30.0
    assert decision.evidence["pause_is"] == "as set: none was measured yet"
    assert decision.explain().startswith(
        "logs: restart larger: 2 executors x 100% CPU -> 2 executors of 2 cores, 1g x 100% CPU"
    )


def test_a_restart_that_does_not_repay_is_explained_with_the_hold() -> None:
    """What was weighed stands beside the reason of the policy inside."""
    policy = a_policy(pause=500.0)
    decision = policy.plan(a_request(watched(policy, 12)))
    assert decision.verb == "hold"
    assert "the allocation is fixed" in decision.reason
    assert "would not repay" in decision.reason
    assert "records_behind_after_restart" in decision.evidence


def test_a_live_change_goes_first() -> None:
    """Where the policy inside wants a change no restart is proposed, and the change keeps the size."""
    policy = a_policy(FixedPolicy(Allocation(1, 0.5)))
    has = replace(SIZED.top, size=TWO)
    decision = policy.plan(a_request(watched(policy, 12, has)))
    assert decision.target == Allocation(1, 0.5, TWO)
    assert not decision.is_restart


def test_the_policy_inside_sees_one_size() -> None:
    """One level down from larger executors is a level of the same size, as for the operator's own."""
    policy = a_policy(ThresholdPolicy())
    has = Allocation(2, 1.0, TWO)
    idle = replace(seen(0.0, has=has, use=0.1), backlog_records=0)
    policy.watch(look(idle))
    decision = policy.plan(a_request(idle))
    assert (decision.current, decision.target, decision.verb) == (has, Allocation(1, 1.0, TWO), "scale in")
    assert all(rejected.allocation.size == TWO for rejected in decision.rejected)


def test_the_pause_is_measured_from_the_batches_of_two_runs() -> None:
    """From the end of the last batch before to the start of the first one after: 20 s, used from then on."""
    policy = a_policy()
    policy.watch(look(seen(0.0), a_batch(7, "old", 0.0)))
    policy.watch(look(seen(21.0), a_batch(8, "new", 21.0)))
    observation = seen(21.0)
    for at in range(22, 36):
        observation = seen(float(at), backlog=5000 + 200 * at)
        policy.watch(look(observation))
    decision = policy.plan(a_request(observation))
    assert decision.evidence["pause_expected_seconds"] == 20.0
    assert decision.evidence["pause_is"] == "measured in this run"


def test_nothing_is_weighed_while_a_restart_is_under_way_or_was_just_tried() -> None:
    """The size that is planned and not yet there is no ground for the next one; a failed one waits its turn."""
    policy = a_policy()
    observation = watched(policy, 30)
    planned = replace(SIZED.top, size=TWO)
    assert policy.plan(a_request(observation, planned)).verb == "hold"
    tried = a_decision(SIZED.top, planned, operator="logs", at=25.0)
    assert policy.plan(a_request(observation, recent=(tried,))).verb == "hold"
    assert policy.plan(a_request(observation, recent=(replace(tried, at=20.0),))).verb == "restart larger"
    assert policy.plan(a_request(replace(observation, quality=Quality.STALE))).verb == "hold"


def test_a_calm_operator_gets_its_own_size_back() -> None:
    """Calm at the bottom for long enough it restarts with smaller executors, all that it may have at first."""
    policy = a_policy(calm=100.0, pause=2.0)
    has, observation = Allocation(1, 0.5, TWO), seen(0.0)
    for at in range(0, 120, 5):
        observation = seen(float(at), has=has, use=0.4, backlog=100)
        policy.watch(look(observation))
    decision = policy.plan(a_request(observation))
    assert (decision.verb, decision.target) == ("restart smaller", SIZED.top)
    assert "the next smaller size would be used 20%" in decision.reason


def test_operators_without_sizes_are_left_to_the_policy_inside() -> None:
    """The wrapper adds nothing where there is nothing to choose."""
    policy = a_policy(ThresholdPolicy())
    other = replace(a_request(seen(0.0)), operator="other", limits=LIMITS)
    assert replace(policy.plan(other), decision_id="") == replace(ThresholdPolicy().plan(other), decision_id="")


def test_it_is_a_policy_like_any_other() -> None:
    """It keeps the contract of a policy, watched or not, and passes on what the policy inside says of itself."""
    policy = ResizingPolicy(ThresholdPolicy(), {"operator": SizedOperator(SIZED, OBJECTIVE)})
    check_policy(policy)
    for at in range(70):
        policy.watch(
            Look(Telemetry("operator", float(at)), replace(seen(float(at), backlog=200 * at), operator="operator"))
        )
    check_policy(policy)
    assert (policy.name, policy.every_seconds) == ("threshold", 10.0)


def test_a_wrong_pause_is_refused() -> None:
    """The fault names the field."""
    with pytest.raises(ConfigurationError, match="pause_seconds"):
        ResizingPolicy(FixedPolicy(), {}, pause_seconds=0.0)
