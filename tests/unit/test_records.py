# SPDX-License-Identifier: Apache-2.0
"""The records: validation at the door, plain data out and in."""

import pytest

from penstock.errors import ConfigurationError
from penstock.records import (
    Allocation,
    BatchProgress,
    Decision,
    ExecutorRoom,
    ExecutorSize,
    LatencySummary,
    Limits,
    Mode,
    Objective,
    Prediction,
    SourceProgress,
    WorkloadEstimate,
    decode,
    encode,
)


def a_decision() -> Decision:
    """A decision that a guard has changed."""
    wish = Decision("matcher", 5.0, "threshold", Allocation(1, 0.4), Allocation(3, 0.4), "busy", {"utilisation": 0.9})
    return wish.amended("within limits", Allocation(2, 0.4), "at most 2")


def test_a_decision_survives_being_written_and_read() -> None:
    """encode and decode are inverse, nested records included."""
    decision = a_decision()
    assert decode(Decision, encode(decision)) == decision


def test_a_batch_survives_being_written_and_read() -> None:
    """Offsets stay the text the engine gave."""
    source = SourceProgress("replay", '{"index": 1}', '{"index": 5}', None, 4)
    batch = BatchProgress("a", "q", "r", 7, 1.0, 2.5, 4, {"addBatch": 1.0}, (source,), None)
    assert decode(BatchProgress, encode(batch)) == batch
    assert batch.duration_seconds == 1.5


def test_a_text_that_is_no_record_shows_every_mismatch() -> None:
    """Reading a wrong text names each wrong field."""
    with pytest.raises(ConfigurationError, match="2 mistakes") as fault:
        decode(Allocation, '{"executors": "many", "cpu_share": []}')
    assert "executors" in str(fault.value)
    assert "cpu_share" in str(fault.value)


def test_a_decision_explains_itself() -> None:
    """The explanation holds the change, the reason, the guard and the evidence."""
    text = a_decision().explain()
    for part in (
        "scale out",
        "1 executor x 40% CPU -> 2 executors x 40% CPU",
        "busy",
        "at most 2",
        "utilisation = 0.9",
    ):
        assert part in text


def test_a_recommendation_says_that_nothing_was_done() -> None:
    """A change in recommend mode says that it was not carried out."""
    decision = Decision("a", 1.0, "p", Allocation(1), Allocation(2), "r", mode=Mode.RECOMMEND)
    assert "not carried out" in decision.explain()


@pytest.mark.parametrize(
    ("executors", "shares", "field"),
    [
        ((0, 1), (1.0,), "executors"),
        ((3, 1), (1.0,), "executors"),
        ((1, 2), (), "cpu_shares"),
        ((1, 2), (0.0, 1.0), "cpu_shares"),
        ((1, 2), (1.5,), "cpu_shares"),
        ((1, 2), (0.5, 0.4), "cpu_shares"),
        ((1, 2), (0.5, 0.5), "cpu_shares"),
        ((1, 2), (float("nan"),), "cpu_shares"),
    ],
)
def test_impossible_limits_name_the_field(executors: tuple[int, int], shares: tuple[float, ...], field: str) -> None:
    """Limits that no allocation can meet are refused at construction."""
    with pytest.raises(ConfigurationError) as fault:
        Limits(*executors, shares)
    assert fault.value.field == field


def test_limits_allow_only_listed_shares() -> None:
    """An allocation is allowed only with a share of the list and executors in the range."""
    limits = Limits(1, 2, (0.5, 1.0))
    assert limits.allows(Allocation(2, 0.5))
    assert not limits.allows(Allocation(3, 0.5))
    assert not limits.allows(Allocation(1, 0.7))
    assert limits.top == Allocation(2, 1.0)


@pytest.mark.parametrize(("statistic", "seconds"), [("p95", None), ("p42", 1.0), ("p95", 0.0), ("p95", float("inf"))])
def test_impossible_objectives_are_refused(statistic: str, seconds: float | None) -> None:
    """An objective needs a known statistic and a positive bound."""
    with pytest.raises(ConfigurationError):
        Objective(statistic, seconds)


def test_an_objective_without_data_is_neither_met_nor_broken() -> None:
    """Missing latency gives None, not a verdict."""
    objective = Objective("p95", 2.0)
    assert objective.is_met_by(None) is None
    assert objective.is_met_by(LatencySummary(10, 1.0, 1.0, 1.9, 3.0, 3.0)) is True
    assert objective.is_met_by(LatencySummary(10, 1.0, 1.0, 2.1, 3.0, 3.0)) is False


LARGE = ExecutorSize(4, "8g", worth=4.0)


def test_an_allocation_with_another_size_counts_by_its_worth() -> None:
    """Capacity is in executors of the operator's own size, and the text names what is unusual alone."""
    assert Allocation(2, 0.5, LARGE).capacity == 4.0
    assert str(Allocation(2, 0.5)) == "2 executors x 50% CPU"
    placed = Allocation(2, 0.5, LARGE, (("one", 2),))
    assert str(placed) == "2 executors of 4 cores, 8g x 50% CPU on one (2)"


def test_nodes_have_as_many_executors_as_the_allocation() -> None:
    """A placement that does not add up is refused with both numbers."""
    with pytest.raises(ConfigurationError, match=r"has 1 executors, and the allocation 2; make them equal") as fault:
        Allocation(2, nodes=(("one", 1),))
    assert fault.value.field == "nodes"


def test_an_allocation_satisfies_what_was_wanted_wherever_nothing_was_said_about_nodes() -> None:
    """Executors, share and size must be those wanted; nodes only where they were named, in any order."""
    placed = Allocation(2, 1.0, nodes=(("one", 1), ("two", 1)))
    assert placed.satisfies(Allocation(2, 1.0))
    assert placed.satisfies(Allocation(2, 1.0, nodes=(("two", 1), ("one", 1))))
    assert not placed.satisfies(Allocation(2, 1.0, nodes=(("one", 2),)))
    assert not Allocation(2, 1.0).satisfies(placed)
    assert not Allocation(2, 1.0).satisfies(Allocation(2, 1.0, LARGE))
    assert not Allocation(2, 1.0).satisfies(Allocation(2, 0.5))


@pytest.mark.parametrize(
    ("before", "after", "verb", "is_restart"),
    [
        (Allocation(1), Allocation(1), "hold", False),
        (Allocation(1), Allocation(2), "scale out", False),
        (Allocation(3), Allocation(2), "scale in", False),
        (Allocation(1, 0.5), Allocation(1), "scale up", False),
        (Allocation(2), Allocation(3, 0.7), "scale out", False),
        (Allocation(2), Allocation(3, 0.4), "scale down", False),
        (Allocation(1), Allocation(1, 0.5), "scale down", False),
        (Allocation(1), Allocation(1, 1.0, LARGE), "restart larger", True),
        (Allocation(1, 1.0, LARGE), Allocation(1), "restart smaller", True),
        (Allocation(1, nodes=(("one", 1),)), Allocation(1, nodes=(("two", 1),)), "move", False),
        (Allocation(1, nodes=(("one", 1),)), Allocation(1), "hold", False),
    ],
)
def test_a_decision_says_in_a_word_what_it_does(
    before: Allocation, after: Allocation, verb: str, is_restart: bool
) -> None:
    """More and less by capacity, a restart where the size changes, a move where only nodes do."""
    decision = Decision("a", 1.0, "p", before, after, "r")
    assert (decision.verb, decision.is_restart, decision.is_change) == (verb, is_restart, verb != "hold")


@pytest.mark.parametrize(("room", "has", "most"), [(None, 0, 8), (9, 0, 8), (5, 0, 5), (1, 0, 2), (3, 4, 4), (0, 9, 8)])
def test_limits_leave_out_what_the_cluster_does_not_give(room: int | None, has: int, most: int) -> None:
    """Never below the minimum or what is there, never above the maximum; an unknown room changes nothing."""
    given = None if room is None else ExecutorRoom(room, "the queue is full")
    assert Limits(2, 8, (0.5, 1.0)).within(given, has) == Limits(2, most, (0.5, 1.0))


def test_limits_without_shares_leave_the_whole_of_each_executor() -> None:
    """Executors stay as many as are allowed, and as many as the cluster gives."""
    limits = Limits(1, 8, (0.25, 0.5))
    assert limits.within(None, can_share=False) == Limits(1, 8, (1.0,))
    assert limits.within(ExecutorRoom(3, "full"), can_share=False) == Limits(1, 3, (1.0,))
    assert limits.within(None, can_share=True) is limits


def test_limits_name_the_sizes_and_nodes_that_may_be_chosen() -> None:
    """A size or node that is not listed is not allowed; the top needs no restart."""
    limits = Limits(1, 2, sizes=(LARGE,), nodes=("one", "two"))
    assert limits.allows(Allocation(1, 1.0, LARGE))
    assert not limits.allows(Allocation(1, 1.0, ExecutorSize(8, "8g", worth=8.0)))
    assert limits.allows(Allocation(2, nodes=(("one", 2),)))
    assert not limits.allows(Allocation(2, nodes=(("three", 2),)))
    assert not Limits(1, 2).allows(Allocation(1, 1.0, LARGE))
    assert limits.top == Allocation(2)


def test_what_was_expected_and_predicted_is_kept_with_a_decision() -> None:
    """Workload and prediction survive being written and read, infinite times too."""
    endless = Prediction(("a",), float("inf"), 2.0, {"a": float("inf")}, {"a": 1.2}, "window 1000, fit 1")
    decision = Decision(
        "a", 1.0, "mead", Allocation(1), Allocation(2, 1.0, LARGE, (("one", 2),)), "r",
        workload=WorkloadEstimate(1.0, 150.0, (1000, 500), 1.2, is_exact=False), prediction=endless,
    )  # fmt: skip
    assert decode(Decision, encode(decision)) == decision
    assert not endless.is_met
