# SPDX-License-Identifier: Apache-2.0
"""Turns of a real-time query: records are counted where they come out, within one batch, after everything settled."""

from __future__ import annotations

import pytest

from penstock.errors import ClusterError
from penstock.measuring.placed_turns import PlacedThroughput, as_ordered
from penstock.measuring.real_time_turns import Mark, RealTimeJob, RealTimeTaking, RealTimeTurn, WindowRules
from penstock.records import BatchProgress, decode, encode

TURN = RealTimeTurn(2, 0.1, 16384)
RULES = WindowRules(10.0, 2.0, 4.0)


def batch(number: int, start: float, end: float) -> BatchProgress:
    """One that ended."""
    return BatchProgress("measured", "q", "r", number, start, end, 100, {}, ())


def looks(taking: RealTimeTaking, first: int, last: int, executors: int, rate: int = 100) -> None:
    """Marks of every second, with so many records a second from time 0 on, and no batch that ends."""
    for at in range(first, last + 1):
        assert taking.see(Mark(float(at), rate * at), [], executors) is None


def test_a_delay_that_changed_within_a_batch_is_counted_in_the_rest_of_it() -> None:
    """From two seconds after the change on, and not up to the border, where the tasks stop."""
    taking = RealTimeTaking(TURN, RULES, 1.0)
    looks(taking, 1, 2, 2, rate=900)  # settling: another rate
    for at in range(3, 10):
        assert taking.see(Mark(float(at), 3000 + 100 * at), [], 2) is None
    found = taking.see(Mark(10.5, 9000), [batch(1, 0.0, 10.4)], 2)
    assert found == PlacedThroughput(100.0, 1)


def test_executors_that_had_to_go_take_effect_with_the_next_batch() -> None:
    """Tasks keep their executors until then, so the batch in which the last one went does not count."""
    taking = RealTimeTaking(TURN, RULES, 0.0)
    looks(taking, 0, 1, 3)
    looks(taking, 2, 10, 2)
    assert taking.see(Mark(11.0, 1100), [batch(1, 0.0, 10.4)], 2) is None
    looks(taking, 12, 20, 2)
    found = taking.see(Mark(21.0, 2100), [batch(2, 10.5, 20.9)], 2)
    assert found == PlacedThroughput(100.0, 1)


def test_what_is_left_of_a_batch_may_be_too_short() -> None:
    """Then the next one is taken."""
    taking = RealTimeTaking(TURN, RULES, 5.0)
    looks(taking, 5, 10, 2)
    assert taking.see(Mark(10.5, 1050), [batch(1, 0.0, 10.4)], 2) is None
    looks(taking, 11, 20, 2, rate=50)
    assert taking.see(Mark(20.9, 1045), [batch(2, 10.5, 20.8)], 2) == PlacedThroughput(50.0, 1)


def test_an_executor_that_dies_lets_it_count_anew() -> None:
    """What came out with fewer is of another turn."""
    taking = RealTimeTaking(TURN, RULES, 0.0)
    looks(taking, 0, 6, 2)
    looks(taking, 7, 7, 1)
    looks(taking, 8, 9, 2)
    assert taking.see(Mark(10.5, 1050), [batch(1, 0.0, 10.4)], 2) is None


def test_a_query_that_gives_nothing_is_no_measurement() -> None:
    """Nor is one of which nothing is heard any more, or whose executors do not go."""
    taking = RealTimeTaking(TURN, RULES, 0.0)
    looks(taking, 0, 9, 2, rate=0)
    with pytest.raises(ClusterError, match="nothing came out"):
        taking.see(Mark(10.5, 0), [batch(1, 0.0, 10.4)], 2)
    for executors, why in ((2, "no batch ended"), (3, "did not come or go")):
        taking = RealTimeTaking(TURN, RULES, 0.0)
        looks(taking, 0, 1, executors)
        with pytest.raises(ClusterError, match=why):
            taking.see(Mark(300.0, 10), [], executors)


def test_turns_begin_with_the_most_executors_and_delays_go_up_and_down() -> None:
    """As those of micro-batches; a job of them can be written down and read again."""
    near, far, one = RealTimeTurn(2, 0.0, 9), RealTimeTurn(2, 0.2, 9), RealTimeTurn(1, 0.0, 9)
    turns = as_ordered([one, far, near, far, near])
    assert turns == [near, far, far, near, one]
    job = RealTimeJob({"app": "a:b"}, "text", 10, 4, 0.5, tuple(turns), RULES, {"linger.ms": "5"}, 1.0, 2.0)
    assert decode(RealTimeJob, encode(job)) == job
    assert job.nodes == ("node-1", "node-2")
