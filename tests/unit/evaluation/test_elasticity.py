# SPDX-License-Identifier: Apache-2.0
"""How well supply follows demand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.errors import ConfigurationError
from penstock.evaluation.elasticity import elasticity, instants_of_changes, run_elasticity
from penstock.evaluation.history import RunHistory
from penstock.records import Allocation, ClusterState, Decision, Observation, Quality


def test_supply_that_is_demand_has_no_faults() -> None:
    """The ideal auto-scaler: nothing but its cost and its changes."""
    steps = [(0.0, 1.0), (60.0, 3.0), (120.0, 2.0)]
    figures = elasticity(steps, steps, 180.0)
    assert (figures.accuracy_over, figures.accuracy_under) == (0.0, 0.0)
    assert (figures.timeshare_over, figures.timeshare_under, figures.excess_time) == (0.0, 0.0, 0.0)
    assert (figures.reconfigurations, figures.cost) == (2, 6.0)


def test_areas_and_times_by_hand() -> None:
    """Demand 2 then 4 at 100 s; supply 3 until 150 s, then 5, over 200 s."""
    figures = elasticity([(0.0, 3.0), (150.0, 5.0)], [(0.0, 2.0), (100.0, 4.0)], 200.0)
    assert figures.accuracy_over == pytest.approx((100.0 * 1 + 50.0 * 1) / 200.0)
    assert figures.accuracy_under == pytest.approx(50.0 / 200.0)
    assert figures.timeshare_over == pytest.approx(75.0)
    assert figures.timeshare_under == pytest.approx(25.0)


def test_what_is_done_late_is_excess_and_is_paid_for() -> None:
    """A minute more for two minutes of arrivals is half of them; executors cost until the end."""
    figures = elasticity([(0.0, 2.0)], [(0.0, 2.0)], 120.0, ended_at=180.0)
    assert figures.excess_time == pytest.approx(0.5)
    assert figures.cost == pytest.approx(6.0)


def test_a_move_to_other_nodes_is_a_change() -> None:
    """Where a change stops the operator, moving costs as much as growing."""
    a, b = Allocation(1, nodes=(("a", 1),)), Allocation(1, nodes=(("b", 1),))
    assert instants_of_changes([(0.0, a), (1.0, a), (2.0, b), (3.0, replace(b, cpu_share=0.5))]) == [2.0]


@pytest.mark.parametrize(
    ("supply", "seconds", "field"),
    [
        ([], 1.0, "supply"),
        ([(5.0, 1.0)], 10.0, "supply"),
        ([(0.0, 1.0)], 0.0, "seconds"),
        ([(0.0, 1.0)], float("nan"), "seconds"),
        ([(0.0, 1.0)], float("inf"), "seconds"),
        ([(float("nan"), 1.0)], 1.0, "supply"),
        ([(0.0, 1.0), (9.0, 2.0), (5.0, 3.0)], 10.0, "supply: its steps"),
        ([(0.0, 1.0), (5.0, float("nan"))], 10.0, "supply: executors"),
        ([(0.0, -1.0)], 10.0, "supply: executors"),
    ],
)
def test_steps_that_are_no_supply_are_refused(supply: list[tuple[float, float]], seconds: float, field: str) -> None:
    """Without a start, out of order, or no numbers of executors: the message names the part."""
    with pytest.raises(ConfigurationError, match=field):
        elasticity(supply, [(0.0, 1.0)], seconds)


@pytest.mark.parametrize("instant", [float("nan"), float("inf")])
def test_an_end_that_never_comes_is_refused(instant: float) -> None:
    """No cost would be known."""
    with pytest.raises(ConfigurationError, match="ended_at"):
        elasticity([(0.0, 1.0)], [(0.0, 1.0)], 10.0, ended_at=instant)


def a_history(executors: int, utilisation: float) -> RunHistory:
    """A minute in which 100 records a second arrive and are done by so many executors."""
    has = Allocation(executors)
    seen = [
        Observation(
            "operator", 1000.0 + second, 15.0, Quality.GOOD, ClusterState(has, has, has),
            arrival_rate_rows_per_second=100.0, processed_rows_per_second=100.0, backlog_records=0,
            utilisation=utilisation,
        )
        for second in range(61)
    ]  # fmt: skip
    return RunHistory({"operator": seen}, (), (), (), (), None, None)


def test_a_run_is_held_against_the_cpu_that_its_records_took() -> None:
    """Four executors at 30 % do the work of 1.2: two were needed, two too many all the time."""
    figures = run_elasticity(a_history(4, 0.3), "operator")
    assert figures is not None
    assert figures.accuracy_over == pytest.approx(2.0)
    assert figures.timeshare_over == pytest.approx(100.0)
    assert figures.cost == pytest.approx(4.0)
    assert figures.accuracy_text == "+2.00 / -0.00"
    assert figures.text == (
        "executors above and below the estimated demand, 100 % and 0 % of the time; excess time 0.000, 0 changes, "
        "cost 4.0 executor-minutes"
    )


@pytest.mark.parametrize("rate", [float("nan"), float("inf"), None])
def test_a_look_that_saw_no_rate_leaves_the_figures_as_they_are(rate: float | None) -> None:
    """Demand stays what it was."""
    history = a_history(4, 0.3)
    looks = history.observations["operator"]
    spoilt = [replace(one, arrival_rate_rows_per_second=rate) if 20 <= i < 30 else one for i, one in enumerate(looks)]
    found = run_elasticity(replace(history, observations={"operator": spoilt}), "operator")
    assert found == run_elasticity(history, "operator")


def test_a_run_of_which_too_little_is_known_has_no_figures() -> None:
    """None, not zeros."""
    assert run_elasticity(a_history(4, 0.0), "operator") is None
    assert run_elasticity(a_history(4, 0.3), "another") is None
    set_back = a_history(4, 0.3)
    looks = [
        replace(one, at=one.at - 20.0 * (number in range(30, 50)))
        for number, one in enumerate(set_back.observations["operator"])
    ]
    assert run_elasticity(replace(set_back, observations={"operator": looks}), "operator") is None


def changes_of(*looks: tuple[Allocation | None, Allocation], decided: int = 0) -> int:
    """Changes of a run, look by look what was asked for and what was there, in which so many were decided."""
    base = a_history(2, 0.3)
    seen = [
        replace(base.observations["operator"][number], cluster=ClusterState(asked, asked, there))
        for number, (asked, there) in enumerate(looks)
    ]
    decisions = [
        Decision("operator", 1000.0 + number, "fixed", Allocation(2), Allocation(3), "a test")
        for number in range(decided)
    ]
    found = run_elasticity(replace(base, observations={"operator": seen}, decisions=decisions), "operator")
    assert found is not None
    return found.reconfigurations


ONE, TWO, THREE = (Allocation(executors) for executors in (1, 2, 3))


def test_what_was_only_decided_is_no_change() -> None:
    """A dozen decisions of a run that only recommends, or that were held: nothing became another."""
    assert changes_of(*[(None, TWO)] * 9, decided=12) == 0
    assert changes_of(*[(TWO, TWO)] * 9, decided=12) == 0


def test_what_was_asked_for_in_vain_is_no_change() -> None:
    """Also where it was asked for again and again, or taken back."""
    assert changes_of((ONE, ONE), (TWO, ONE), (THREE, ONE), (TWO, ONE), (ONE, ONE)) == 0


def test_executors_of_one_change_come_one_by_one() -> None:
    """One to three is a change, also where another took its place on the way; back to two is the next."""
    assert changes_of((ONE, ONE), (THREE, ONE), (THREE, TWO), (THREE, THREE), (TWO, THREE), (TWO, TWO)) == 2
    assert changes_of((ONE, ONE), (TWO, ONE), (THREE, TWO), (THREE, THREE)) == 2
    assert changes_of((ONE, ONE), (THREE, ONE), (THREE, TWO)) == 1  # one of two came


def test_an_executor_that_dies_and_is_replaced_is_no_change() -> None:
    """It was asked for all the time."""
    assert changes_of((TWO, TWO), (TWO, ONE), (TWO, TWO)) == 0


def test_what_somebody_else_changes_counts_where_nobody_asked() -> None:
    """A query that is only watched: each size that was seen."""
    assert changes_of((None, ONE), (None, TWO), (None, TWO), (None, ONE)) == 2


def test_a_move_and_a_share_are_changes() -> None:
    """Of nodes only where they are known both times."""
    a, b = Allocation(1, nodes=(("a", 1),)), Allocation(1, nodes=(("b", 1),))
    assert changes_of((a, a), (b, a), (b, b)) == 1
    assert changes_of((ONE, ONE), (a, a)) == 0
    half = replace(ONE, cpu_share=0.5)
    assert changes_of((ONE, ONE), (half, half)) == 1
