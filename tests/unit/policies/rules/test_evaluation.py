# SPDX-License-Identifier: Apache-2.0
"""Several rules at once, guard times and bounds."""

from __future__ import annotations

import pytest
from tests.unit.policies.rules.rule_cases import LIMITS, change, held, keeping, queue_request, scaling

from penstock.policies.rules.evaluation import ORIGINAL_EXECUTORS, ORIGINAL_SHARE, apply, original_size
from penstock.records import Allocation, Decision, decode, encode
from penstock.rules.nodes import Direction, Guard, Quantity, Side
from penstock.testing import a_decision, a_request

OUT, IN, UP, DOWN = Direction.OUT, Direction.IN, Direction.UP, Direction.DOWN


def test_the_largest_scale_out_wins() -> None:
    """Of two rules that scale out the one that goes further wins, and the other is rejected with its reason."""
    request = queue_request([0], current=Allocation(2))
    small, large = scaling("small", OUT, 1), scaling("large", OUT, 3)
    verdict = apply([held(small), held(large)], request, request.current)
    assert verdict.target == Allocation(5)
    assert verdict.evidence["rule"] == "large"
    (rejected,) = verdict.rejected
    assert rejected.allocation == Allocation(3)
    assert "'small'" in rejected.reason
    assert "'large' goes further" in rejected.reason


def test_a_scale_out_wins_over_any_scale_in() -> None:
    """A rule that adds one wins over a rule that takes five."""
    request = queue_request([0], current=Allocation(6))
    verdict = apply([held(scaling("less", IN, 5)), held(scaling("more", OUT, 1))], request, request.current)
    assert verdict.target == Allocation(7)
    assert [r.allocation for r in verdict.rejected] == [Allocation(1)]
    assert "scale-out, which wins" in verdict.rejected[0].reason


def test_a_scale_up_wins_over_a_scale_in() -> None:
    """Growing in one way and shrinking in the other are opposite too."""
    request = queue_request([0], current=Allocation(6, 0.4))
    verdict = apply([held(scaling("less", IN, 1)), held(scaling("up", UP, 0.15))], request, request.current)
    assert verdict.target == Allocation(6, 0.55)
    assert [r.allocation for r in verdict.rejected] == [Allocation(5, 0.4)]


def test_executors_and_shares_grow_side_by_side() -> None:
    """A rule for executors and a rule for CPU shares do not stand in each other's way."""
    request = queue_request([0], current=Allocation(2, 0.4))
    verdict = apply([held(scaling("out", OUT, 1)), held(scaling("up", UP, 0.15))], request, request.current)
    assert verdict.target == Allocation(3, 0.55)
    assert (verdict.evidence["rule"], verdict.evidence["rule_2"]) == ("out", "up")


def test_of_two_scale_ins_the_one_that_takes_less_wins() -> None:
    """Rather too much than too little."""
    request = queue_request([0], current=Allocation(6))
    verdict = apply([held(scaling("much", IN, 4)), held(scaling("little", IN, 1))], request, request.current)
    assert verdict.target == Allocation(5)
    assert [r.allocation for r in verdict.rejected] == [Allocation(2)]


def test_rules_that_want_the_same_agree() -> None:
    """What two rules want is not rejected by either."""
    request = queue_request([0], current=Allocation(2))
    verdict = apply([held(scaling("one", OUT, 1)), held(scaling("other", OUT, 1))], request, request.current)
    assert verdict.target == Allocation(3)
    assert verdict.rejected == []
    assert verdict.evidence["rules_that_agree"] == "other"


def test_a_scale_out_at_its_limit_still_speaks_against_a_scale_in() -> None:
    """A queue that is too long is no time to take an executor away, though none can be added."""
    request = queue_request([0], current=Allocation(3))
    more, less = scaling("more", OUT, 2, limit=3), scaling("less", IN, 1)
    verdict = apply([held(more), held(less)], request, request.current)
    assert verdict.target == Allocation(3)
    assert verdict.evidence["clamped"] == "its limit is 3 executors"


@pytest.mark.parametrize(("age", "after"), [(299.0, 2), (300.0, 3)])
def test_a_guard_time_is_kept_to_the_second(age: float, after: int) -> None:
    """A rule that waits 300 s after a scale-out does nothing for 299 s, and acts again at 300 s."""
    request = queue_request([0], current=Allocation(2), recent=(change(1, 2, 1000.0 - age),))
    rule = scaling("more", OUT, 1, guards=(Guard(OUT, 300.0),))
    verdict = apply([held(rule)], request, request.current)
    assert verdict.target == Allocation(after)
    assert ("clamped" in verdict.evidence) == (after == 2)


def test_a_guard_time_counts_from_the_last_change_of_its_direction() -> None:
    """A scale-in that waits after scale-outs is not held by a scale-in, nor by a change of the CPU share."""
    up = a_decision(Allocation(3, 0.4), Allocation(3, 1.0), at=995.0)
    recent = (change(1, 4, 600.0), change(4, 3, 990.0), up)
    request = queue_request([0], current=Allocation(3), recent=recent)
    rule = scaling("less", IN, 1, guards=(Guard(OUT, 300.0),))
    assert apply([held(rule)], request, request.current).target == Allocation(2)


def test_a_guard_time_counts_whoever_scaled() -> None:
    """A change that another policy has made starts the guard time too."""
    request = queue_request([0], current=Allocation(2), recent=(change(1, 2, 990.0, policy="mead"),))
    rule = scaling("less", IN, 1, guards=(Guard(OUT, 300.0),))
    verdict = apply([held(rule)], request, request.current)
    assert verdict.target == Allocation(2)
    assert "scaled out 10.0 s ago" in str(verdict.evidence["clamped"]).replace("10 s", "10.0 s")


def test_a_rule_that_waits_keeps_what_it_got() -> None:
    """On top of a model's 4 the two executors that a rule added stay while its guard time runs."""
    rule = scaling("more", OUT, 2, guards=(Guard(OUT, 300.0),))
    request = queue_request([0], current=Allocation(6), recent=(change(4, 6, 990.0),))
    assert apply([held(rule)], request, Allocation(4)).target == Allocation(6)
    # The model wants one more: what there is covers that, and the rule may not go further now.
    assert apply([held(rule)], request, Allocation(5)).target == Allocation(6)
    # The model alone wants more than there is: that is the model's own affair.
    assert apply([held(rule)], request, Allocation(7)).target == Allocation(7)


def test_bounds_come_last_and_at_least_wins() -> None:
    """A scale-out ends at the highest number that is kept; where bounds exclude each other, the lower end is kept."""
    request = queue_request([0], current=Allocation(2))
    more, most = scaling("more", OUT, 6), keeping("most", Side.MOST, 4)
    assert apply([held(more), held(most)], request, request.current).target == Allocation(4)
    least = keeping("least", Side.LEAST, 5)
    verdict = apply([held(least), held(more), held(most)], request, request.current)
    assert verdict.target == Allocation(5)
    assert [step.held.rule.name for step in verdict.steps] == ["more", "most", "least"]


def test_a_bound_that_waits_moves_nothing() -> None:
    """A bound with a guard time does not move an operator while that runs."""
    rule = keeping("least", Side.LEAST, 5, guards=(Guard(IN, 60.0),))
    request = queue_request([0], current=Allocation(3), recent=(change(6, 3, 990.0),))
    assert apply([held(rule)], request, Allocation(2)).target == Allocation(3)


def test_a_relative_limit_is_a_multiple_of_the_first_size() -> None:
    """Three times the size before the first change is the most, wherever the operator has got to since."""
    rule = scaling("more", OUT, 2, is_relative=True, limit=Quantity(3, is_relative=True))
    request = queue_request([0], current=Allocation(4), recent=(change(2, 4, 900.0),))
    assert apply([held(rule)], request, request.current).target == Allocation(6)


def test_the_first_size_survives_when_its_change_is_forgotten() -> None:
    """Each decision carries the first size, so that the oldest that is remembered still has it."""
    later = change(4, 5, 900.0, evidence={ORIGINAL_EXECUTORS: 2, ORIGINAL_SHARE: 0.4})
    later = decode(Decision, encode(later))  # as a controller that was restarted finds it in the store
    assert original_size(a_request(current=Allocation(5), limits=LIMITS, recent=(later,))) == Allocation(2, 0.4)
    bare = change(4, 5, 900.0)
    assert original_size(a_request(current=Allocation(5), limits=LIMITS, recent=(bare,))) == Allocation(4)
    assert original_size(a_request(current=Allocation(5), limits=LIMITS)) == Allocation(5)
