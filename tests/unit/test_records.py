# SPDX-License-Identifier: Apache-2.0
"""The records: validation at the door, plain data out and in."""

import pytest

from penstock.errors import ConfigurationError
from penstock.records import (
    Allocation,
    BatchProgress,
    Decision,
    LatencySummary,
    Limits,
    Mode,
    Objective,
    SourceProgress,
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
        "scale up",
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
