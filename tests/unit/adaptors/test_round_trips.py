# SPDX-License-Identifier: Apache-2.0
"""The table of measured round trips: both directions, holes, lost nodes, refreshes."""

from __future__ import annotations

import socket
import threading

from penstock.adaptors.round_trips import RoundTrips, connect_seconds
from penstock.adaptors.spark.executor_round_trips import measure_from_here


class ToyProbe:
    """Answers from a table that the test changes."""

    def __init__(self, seconds: dict[tuple[str, str], float]) -> None:
        self.seconds = seconds

    def __call__(self, sender: str, receiver: str) -> float | None:
        """The entry, or None."""
        return self.seconds.get((sender, receiver))


def test_both_directions_are_kept_apart_and_holes_stay_holes() -> None:
    """A pair that differs from its reverse keeps both, and one that was never measured has no entry."""
    table = RoundTrips(ToyProbe({("a", "b"): 0.1, ("b", "a"): 0.3}), lambda: ("a", "b", "c"))
    assert table.seconds() == {}
    table.refresh()
    assert table.seconds() == {("a", "b"): 0.1, ("b", "a"): 0.3}


def test_one_late_answer_does_not_count_and_a_lasting_change_does() -> None:
    """The median of the last five follows a change after three refreshes."""
    probe = ToyProbe({("a", "b"): 0.1})
    table = RoundTrips(probe, lambda: ("a", "b"))
    for seconds in (0.1, 0.1, 0.9, 0.1):
        probe.seconds["a", "b"] = seconds
        table.refresh()
    assert table.seconds()["a", "b"] == 0.1
    probe.seconds["a", "b"] = 0.4
    for _ in range(3):
        table.refresh()
    assert table.seconds()["a", "b"] == 0.4


def test_a_pair_that_no_longer_answers_is_dropped_after_a_while() -> None:
    """Its last value holds for two refreshes; then nobody may rely on it. An answer brings it back."""
    probe = ToyProbe({("a", "b"): 0.1})
    table = RoundTrips(probe, lambda: ("a", "b"), patience=3)
    table.refresh()
    probe.seconds.clear()
    for _ in range(2):
        table.refresh()
    assert table.seconds() == {("a", "b"): 0.1}
    table.refresh()
    assert table.seconds() == {}
    probe.seconds["a", "b"] = 0.2
    table.refresh()
    assert table.seconds() == {("a", "b"): 0.2}


def test_a_node_that_is_gone_has_no_entries() -> None:
    """Entries of a node that is not listed any more go at the next refresh."""
    nodes = ["a", "b"]
    table = RoundTrips(ToyProbe({("a", "b"): 0.1, ("b", "a"): 0.1}), lambda: nodes)
    table.refresh()
    nodes.remove("b")
    table.refresh()
    assert table.seconds() == {}


def test_it_refreshes_by_itself_until_it_is_stopped() -> None:
    """The thread measures again and again, and no more after the stop."""
    rounds = threading.Semaphore(0)

    def measure(_sender: str, _receiver: str) -> float | None:
        rounds.release()
        return 0.1

    table = RoundTrips(measure, lambda: ("a", "b"))
    table.start(every_seconds=0.001)
    for _ in range(6):
        assert rounds.acquire(timeout=60)
    table.stop()
    table.stop()
    assert table.seconds() == {("a", "b"): 0.1, ("b", "a"): 0.1}


def test_a_connection_is_timed_and_nobody_there_is_none() -> None:
    """A port that listens gives a time, one that does not gives None."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        taken = connect_seconds(listening.getsockname())
        address = listening.getsockname()
    assert taken is not None
    assert taken > 0
    assert connect_seconds(address, attempts=1) is None


def test_a_task_recognises_its_host_by_its_address() -> None:
    """The host whose address is one of this machine is where the task runs; on another machine it says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        listening = {"here": one.getsockname(), "silent": ("127.0.0.1", 1), "also": other.getsockname()}
        ((here, seconds),) = measure_from_here(listening)
        assert here == "here"
        assert seconds.keys() == {"also"}, "nothing listens at the third"
        assert list(measure_from_here({"elsewhere": ("198.51.100.7", 9)})) == []


def test_a_refresh_that_fails_does_not_end_the_refreshes() -> None:
    """Nodes that cannot be named for a moment are measured later."""
    measured = threading.Event()
    answers = iter([OSError("too many open files")])

    def nodes() -> tuple[str, ...]:
        if (fault := next(answers, None)) is not None:
            raise fault
        return ("a", "b")

    def measure(*_: str) -> float:
        measured.set()
        return 0.1

    table = RoundTrips(measure, nodes)
    table.start(every_seconds=0.01)
    try:
        assert measured.wait(10.0)
    finally:
        table.stop()
