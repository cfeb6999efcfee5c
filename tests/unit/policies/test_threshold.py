# SPDX-License-Identifier: Apache-2.0
"""The threshold policy."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import ConfigurationError
from penstock.policies.threshold import ENTRY, ThresholdPolicy
from penstock.ports import OperatorSite, PolicyContext
from penstock.records import Allocation, Limits, Objective, Quality
from penstock.testing import a_request
from penstock.topology import Topology


@pytest.mark.parametrize(
    ("utilisation", "target"),
    [
        (0.0, Allocation(1, 0.4)),
        (0.49, Allocation(1, 0.4)),
        (0.5, Allocation(1, 0.55)),  # at the threshold is not below it
        (0.6, Allocation(1, 0.55)),
        (0.7, Allocation(1, 0.55)),  # at the threshold is not above it
        (0.71, Allocation(1, 0.7)),
        (1.4, Allocation(1, 0.7)),  # one level, however busy
    ],
)
def test_one_level_at_a_time(utilisation: float, target: Allocation) -> None:
    """Above the upper threshold one level is added, below the lower one is taken, between them it holds."""
    request = a_request(current=Allocation(1, 0.55), utilisation=utilisation)
    assert ThresholdPolicy().plan(request).target == target


def test_it_takes_an_executor_when_the_shares_are_used_up() -> None:
    """Beyond the last share of one executor comes the first useful share of two."""
    decision = ThresholdPolicy().plan(a_request(current=Allocation(1, 1.0), utilisation=0.9))
    assert decision.target == Allocation(2, 0.55)


def test_reason_and_rejected_neighbours_tell_the_story() -> None:
    """A scale-up names the utilisation and the threshold, and why the level below was not taken."""
    decision = ThresholdPolicy().plan(a_request(current=Allocation(1, 0.55), utilisation=0.83))
    assert decision.reason == "utilisation 0.83 is above 0.7: one level up"
    assert [(r.allocation, r.reason) for r in decision.rejected] == [
        (Allocation(1, 0.4), "utilisation 0.83 is not below 0.5")
    ]


def test_a_hold_rejects_both_neighbours() -> None:
    """Inside the band both neighbours are rejected with their reasons."""
    decision = ThresholdPolicy().plan(a_request(current=Allocation(1, 0.55), utilisation=0.6))
    assert decision.verb == "hold"
    assert {r.allocation: r.reason for r in decision.rejected} == {
        Allocation(1, 0.7): "utilisation 0.6 is not above 0.7",
        Allocation(1, 0.4): "utilisation 0.6 is not below 0.5",
    }


@pytest.mark.parametrize(
    ("current", "utilisation", "words"),
    [(Allocation(2, 1.0), 0.99, "no level above"), (Allocation(1, 0.4), 0.01, "no level below")],
)
def test_the_ends_of_the_ladder_hold(current: Allocation, utilisation: float, words: str) -> None:
    """At the top a busy operator holds, at the bottom an idle one, and the reason says so."""
    decision = ThresholdPolicy().plan(a_request(current=current, utilisation=utilisation))
    assert decision.verb == "hold"
    assert words in decision.reason


def test_evidence_has_what_was_looked_at() -> None:
    """The evidence holds utilisation, thresholds, rate, backlog, and the objective beside what was measured."""
    decision = ThresholdPolicy().plan(a_request(utilisation=0.83, objective=Objective("mean", 0.5)))
    assert decision.evidence == {
        "utilisation": 0.83,
        "upper": 0.7,
        "lower": 0.5,
        "arrival_rate_rows_per_second": 1000.0,
        "backlog_records": 300,
        "latency_mean_seconds": 0.3,
        "objective_seconds": 0.5,
        "quality": "good",
    }


def test_missing_utilisation_holds_and_is_named() -> None:
    """An unknown utilisation is not zero: it holds, and the reason names it and its cause."""
    request = a_request(utilisation=None, missing=("utilisation: no rights for cgroups",))
    decision = ThresholdPolicy().plan(request)
    assert decision.verb == "hold"
    assert decision.reason == ("holding: utilisation is not known (missing: utilisation: no rights for cgroups)")
    assert decision.evidence["utilisation"] is None


@pytest.mark.parametrize("quality", [q for q in Quality if q is not Quality.GOOD])
def test_data_that_are_not_good_hold(quality: Quality) -> None:
    """Whatever the utilisation says, data that are not good hold, and the reason says what they are."""
    decision = ThresholdPolicy().plan(a_request(utilisation=0.99, quality=quality))
    assert decision.verb == "hold"
    assert f"the data are {quality.value}" in decision.reason


@pytest.mark.parametrize("utilisation", [-0.1, float("nan"), float("inf"), float("-inf")])
def test_an_impossible_utilisation_holds(utilisation: float) -> None:
    """A broken measurement is not decided upon, and is kept in the evidence as what it was."""
    decision = ThresholdPolicy().plan(a_request(utilisation=utilisation))
    assert decision.verb == "hold"
    assert "cannot be true" in decision.reason
    assert float(decision.evidence["utilisation"] or 0) == pytest.approx(utilisation, nan_ok=True)


def test_outside_the_limits_it_steps_to_the_nearest_rung() -> None:
    """An idle operator above its limits goes to the top rung first."""
    decision = ThresholdPolicy().plan(a_request(current=Allocation(5, 1.0), utilisation=0.1))
    assert decision.target == Allocation(2, 1.0)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"upper": 1.2}, "upper"),
        ({"upper": 0.0}, "upper"),
        ({"upper": float("nan")}, "upper"),
        ({"lower": 0.0}, "lower"),
        ({"lower": -0.1}, "lower"),
        ({"lower": 0.7}, "lower"),
        ({"upper": 0.4}, "lower"),
        ({"lower": float("nan")}, "lower"),
        ({"every_seconds": 0.0}, "every_seconds"),
        ({"every_seconds": float("inf")}, "every_seconds"),
    ],
)
def test_bad_thresholds_are_refused_by_name(options: dict[str, Any], field: str) -> None:
    """Thresholds outside 0 < lower < upper <= 1 raise an error that names the field."""
    with pytest.raises(ConfigurationError, match=field) as caught:
        ThresholdPolicy(**options)
    assert caught.value.field == field


def test_all_wrong_options_are_reported_at_once() -> None:
    """What is no number does not hide what is out of range, and a wrong upper is no measure for lower."""
    context = PolicyContext(Topology.of_one("a"), {"a": OperatorSite(Limits())}, {("a",): Objective()})
    with pytest.raises(ConfigurationError) as caught:
        ENTRY.make(context, {"upper": 7.0, "lower": "x", "every_seconds": "0s"})
    assert [text.split(":")[0] for text in caught.value.faults] == ["lower", "upper", "every_seconds"]
    assert str(caught.value).startswith("policy threshold: 3 mistakes")
    with pytest.raises(ConfigurationError) as caught:
        ThresholdPolicy(upper=0.0, lower=-1.0, every_seconds=-5.0)
    assert [text.split(":")[0] for text in caught.value.faults] == ["upper", "lower", "every_seconds"]
    with pytest.raises(ConfigurationError) as caught:
        ThresholdPolicy(upper=7.0, lower=0.5)
    assert caught.value.field == "upper"
