# SPDX-License-Identifier: Apache-2.0
"""Restarts with another size are proposed only where they repay their pause."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.errors import ConfigurationError
from penstock.plan.resize import ResizePolicy, ResizeRequest
from penstock.plan.resize_spells import ResizeSpells
from penstock.records import (
    Allocation,
    ClusterState,
    LatencySummary,
    Limits,
    Objective,
    Observation,
    Quality,
)

LIMITS = Limits(1, 2, (0.5, 1.0))
OBJECTIVE = Objective("p95", 2.0)


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


def request(observation: Observation, **changed: object) -> ResizeRequest:
    """An operator of one core, short of nothing, that may have two or four."""
    made = ResizeRequest(observation, LIMITS, OBJECTIVE, (1, 2, 4), 0, 0.0, 0.0, 0.0, None, 30.0)
    return replace(made, **changed)  # type: ignore[arg-type]


def test_a_growing_backlog_at_the_top_is_worth_a_restart() -> None:
    """Of 1000 arriving, 800 are served: 125,000 would wait in 10 min; two cores (1440 a second) work all of it off."""
    proposal = ResizePolicy().propose(request(seen(), top_seconds=60.0, backlog_growth_rows_per_second=200.0))
    assert proposal.size == 1
    assert proposal.evidence["records_that_will_wait"] == pytest.approx(30_000.0)
    assert proposal.evidence["records_behind_as_it_is"] == pytest.approx(5000 + 200 * 600)
    assert proposal.evidence["records_behind_after_restart"] == 0.0
    assert "with a restart 0 records would wait" in proposal.reason


def test_a_pause_that_is_too_long_is_not_repaid() -> None:
    """With 300 s of pause 300,000 + 5,000 - 440 * 300 = 173,000 records would wait, more than the 125,000 as it is."""
    asked = request(seen(), top_seconds=60.0, backlog_growth_rows_per_second=200.0, pause_seconds=300.0)
    proposal = ResizePolicy().propose(asked)
    assert proposal.size == 0
    assert proposal.evidence["records_behind_after_restart"] == pytest.approx(173_000.0)
    assert "would not repay" in proposal.reason
    assert proposal.is_weighed


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
    proposal = ResizePolicy().propose(request(seen(), **changed))
    assert (proposal.size, proposal.is_weighed) == (changed.get("size", 0), False)


def test_a_broken_objective_is_weighed_by_how_many_records_are_late() -> None:
    """Half of the records late for 10 min outweigh a pause of 30 s and its catching up; 5 % of them do not."""
    policy = ResizePolicy()
    # c' = 1000 / 0.95 * 1.8 = 1895; after the pause 35,000 wait and 895 a second are worked off: 39.1 s.
    half = policy.propose(request(seen(took=latency(3.0, 5.0)), top_seconds=90.0, broken_seconds=90.0))
    assert half.size == 1
    assert half.evidence["records_behind_as_it_is"] == pytest.approx(0.5 * 1000 * 600)
    assert half.evidence["records_behind_after_restart"] == pytest.approx(69_116, rel=1e-3)
    few = policy.propose(request(seen(took=latency(1.0, 2.5)), top_seconds=90.0, broken_seconds=90.0))
    assert few.size == 0
    assert few.evidence["records_behind_as_it_is"] == pytest.approx(0.05 * 1000 * 600)


def test_a_backlog_that_will_be_gone_soon_is_not_worth_a_restart() -> None:
    """All is late, but 5,000 records are worked off at 500 a second: in ten seconds it is over."""
    asked = request(
        seen(took=latency(3.0, 5.0)), top_seconds=90.0, broken_seconds=90.0, backlog_growth_rows_per_second=-500.0
    )
    proposal = ResizePolicy().propose(asked)
    assert proposal.size == 0
    assert proposal.evidence["records_behind_as_it_is"] == pytest.approx(0.5 * 1000 * 10)


def test_a_smaller_size_waits_until_its_pause_is_allowed_for() -> None:
    """A p95 allows 5 % late: 75 s of late records need 1500 s of calm, half the pause half of it; and CPU must do."""
    observation = seen(has=Allocation(1, 0.5), use=0.4, backlog=0)
    early = request(observation, size=1, calm_seconds=900.0, pause_seconds=60.0)
    policy = ResizePolicy()
    # Used: 0.4 x 0.5 x 2 cores = 0.4; the smaller size has 2 x 1 cores: 20 %. Late: 60 x (1 + 0.2 / 0.8) = 75 s.
    proposal = policy.propose(early)
    assert (proposal.size, proposal.is_weighed) == (1, True)
    assert "but" in proposal.reason
    assert policy.propose(replace(early, calm_seconds=1501.0)).size == 0
    assert policy.propose(replace(early, pause_seconds=30.0)).size == 0
    busy = replace(early, observation=seen(has=Allocation(2, 1.0), use=0.4), calm_seconds=9000.0)
    assert "80%" in policy.propose(busy).reason
    assert policy.propose(busy).size == 1


def test_unknown_rates_are_not_decided_upon() -> None:
    """Missing is not zero: without an arrival rate nothing can be weighed."""
    unknown = replace(seen(), arrival_rate_rows_per_second=None)
    asked = request(unknown, top_seconds=600.0, broken_seconds=600.0, backlog_growth_rows_per_second=1.0)
    assert not ResizePolicy().propose(asked).is_weighed


@pytest.mark.parametrize("field", ["after_seconds", "horizon_seconds", "calm_seconds"])
def test_times_are_positive(field: str) -> None:
    """A wrong time is refused with its name."""
    with pytest.raises(ConfigurationError, match=field):
        ResizePolicy(**{field: float("nan")})


def test_spells_begin_and_end_with_what_is_seen() -> None:
    """Time at the top counts from the first look there; late data change nothing; a start begins anew."""
    spells = ResizeSpells(LIMITS, OBJECTIVE, 10.0)
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


def test_calm_is_the_bottom_of_the_limits_with_the_objective_met() -> None:
    """A larger allocation, a broken objective or a backlog of more than the window ends the calm."""
    for other in (
        {"has": Allocation(1, 1.0)},
        {"has": Allocation(1, 0.5), "took": latency(2.5, 3.0)},
        {"has": Allocation(1, 0.5), "backlog": 16_000},
    ):
        spells = ResizeSpells(LIMITS, OBJECTIVE, 10.0)
        spells.add(seen(0.0, has=Allocation(1, 0.5), backlog=100))
        spells.add(seen(5.0, has=Allocation(1, 0.5), backlog=100))
        assert spells.calm_seconds == 5.0
        spells.add(seen(6.0, **other))
        assert spells.calm_seconds == 0.0
