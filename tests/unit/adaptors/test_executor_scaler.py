# SPDX-License-Identifier: Apache-2.0
"""Steps to a number of executors, on a cluster that behaves as a standalone master was seen to."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.adaptors.spark.scaling import ExecutorScaler
from penstock.errors import ActuationRejectedError, MetricSourceError
from penstock.ports import Census
from penstock.records import ExecutorState
from penstock.testing import FakeCluster


class SlowCluster(FakeCluster):
    """Starts executors up to a limit, and never ends one by itself; the draining count as running."""

    def __init__(self, executors: int, *, can_drain: bool = True, refuses: str | None = None) -> None:
        super().__init__(executors)
        self.active = [str(i) for i in range(executors)]
        self.leaving: list[str] = []
        self.limit = executors
        self.calls: list[str] = []
        self.can_drain = can_drain
        self._refuses = refuses
        self._next = executors

    def refusal(self) -> str | None:
        """Why nothing can be scaled."""
        return self._refuses

    def census(self) -> Census:
        """Who is registered."""
        return Census(tuple(self.active), tuple(self.leaving))

    def asked(self) -> int | None:
        """The limit."""
        return self.limit

    def ask(self, executors: int) -> None:
        """Set the limit."""
        self.calls.append(f"total {executors}")
        self.limit = executors

    def drain(self, executor_id: str, reason: str) -> None:
        """Take out of scheduling."""
        self.calls.append(f"drain {executor_id}")
        self.active.remove(executor_id)
        self.leaving.append(executor_id)

    def kill(self, executor_ids: Sequence[str]) -> None:
        """Mark as pending to be removed."""
        self.calls.append(f"kill {','.join(executor_ids)}")
        for executor_id in executor_ids:
            if executor_id in self.active:
                self.active.remove(executor_id)
                self.leaving.append(executor_id)

    def start_missing(self) -> None:
        """What the master does after every change."""
        while len(self.active) + len(self.leaving) < self.limit:
            self.active.append(str(self._next))
            self._next += 1

    def end_leaving(self) -> None:
        """The draining ones end, and the master looks at its limit."""
        self.leaving.clear()
        self.start_missing()


class Time:
    """A monotonic clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """The instant."""
        return self.now


def test_surplus_is_drained_after_the_total_was_lowered_and_not_replaced() -> None:
    """The total falls first, then the youngest drains, and nobody comes in its place."""
    cluster = SlowCluster(2)
    scaler = ExecutorScaler(cluster)
    scaler.reconcile(1)
    assert cluster.calls == ["total 1", "drain 1"]
    assert scaler.draining == {"1"}
    cluster.end_leaving()
    scaler.reconcile(1)
    assert cluster.active == ["0"]
    assert scaler.draining == frozenset()


def test_another_who_scales_the_application_is_noticed() -> None:
    """Where Spark was asked for another total meanwhile, a note says so, and Penstock's own is asked for again."""
    cluster = SlowCluster(2)
    scaler = ExecutorScaler(cluster)
    scaler.reconcile(2)
    assert scaler.take_notes() == ()
    cluster.ask(5)
    scaler.reconcile(2)
    assert cluster.limit == 2
    (note,) = scaler.take_notes()
    assert "somebody else has asked Spark for 5 executors, Penstock for 2" in note
    scaler.reconcile(2)
    assert scaler.take_notes() == ()


def test_a_step_without_need_does_nothing() -> None:
    """Once there, and told so, further steps ask for nothing."""
    cluster = SlowCluster(2)
    scaler = ExecutorScaler(cluster)
    scaler.reconcile(2)
    cluster.calls.clear()
    for _ in range(3):
        scaler.reconcile(2)
    assert cluster.calls == []


def test_new_executors_start_beside_the_draining_ones() -> None:
    """Scaling out while one drains asks for one more, and takes that back when the new one is there."""
    cluster = SlowCluster(2)
    scaler = ExecutorScaler(cluster)
    scaler.reconcile(1)
    scaler.reconcile(2)
    assert cluster.limit == 3
    cluster.start_missing()
    scaler.reconcile(2)
    assert cluster.limit == 2
    cluster.end_leaving()
    assert len(cluster.active) == 2


def test_an_executor_started_in_a_drained_ones_place_is_drained_again() -> None:
    """If a draining executor ends in between, the one too many is let go by a later step."""
    cluster = SlowCluster(2)
    scaler = ExecutorScaler(cluster)
    scaler.reconcile(1)
    scaler.reconcile(2)
    cluster.end_leaving()
    assert len(cluster.active) == 3
    scaler.reconcile(2)
    cluster.end_leaving()
    assert len(cluster.active) == 2


def test_without_room_beside_the_draining_the_total_is_exact() -> None:
    """Told not to start any beside the draining ones, the total is the target."""
    cluster = SlowCluster(2)
    scaler = ExecutorScaler(cluster)
    scaler.reconcile(1)
    scaler.reconcile(2, beside_draining=False)
    assert cluster.limit == 2


def test_a_dead_executor_is_asked_for_again() -> None:
    """While one is missing each step asks for the target."""
    cluster = SlowCluster(2)
    scaler = ExecutorScaler(cluster)
    scaler.reconcile(2)
    cluster.active.pop()
    cluster.calls.clear()
    scaler.reconcile(2)
    assert cluster.calls == ["total 2"]


def test_one_that_does_not_drain_in_time_is_killed_once_and_said_so() -> None:
    """After the deadline the executor is killed, and the note tells of it."""
    cluster, time = SlowCluster(2), Time()
    scaler = ExecutorScaler(cluster, drain_deadline_seconds=60, monotonic=time)
    scaler.reconcile(1)
    time.now = 59.0
    scaler.reconcile(1)
    assert "kill 1" not in cluster.calls
    time.now = 61.0
    scaler.reconcile(1)
    scaler.reconcile(1)
    assert cluster.calls.count("kill 1") == 1
    assert scaler.take_notes() == ("executors 1 were killed: not drained after 60 s",)
    assert scaler.take_notes() == ()


def test_without_decommissioning_executors_are_killed() -> None:
    """An application that cannot drain has its surplus killed."""
    cluster = SlowCluster(3, can_drain=False)
    ExecutorScaler(cluster).reconcile(1)
    assert cluster.calls == ["total 1", "kill 2,1"]


def test_the_choice_follows_what_the_executors_do() -> None:
    """With tasks known, the idle executor goes although it is older."""
    cluster = SlowCluster(2)
    busy = ExecutorState("1", "h", 1, True, 1, 0.0, 20.0)
    idle = ExecutorState("0", "h", 1, True, 0, 0.0, 10.0)
    ExecutorScaler(cluster, lambda: (busy, idle)).reconcile(1)
    assert cluster.calls == ["total 1", "drain 0"]


def test_the_choice_is_made_and_told_when_executors_cannot_be_described() -> None:
    """Without the driver's page the youngest go, and a note says so."""

    def blind() -> tuple[ExecutorState, ...]:
        raise MetricSourceError("page is off")

    cluster = SlowCluster(2)
    scaler = ExecutorScaler(cluster, blind)
    scaler.reconcile(1)
    assert cluster.calls == ["total 1", "drain 1"]
    assert "page is off" in scaler.take_notes()[0]


def test_where_nothing_can_be_scaled_the_reason_is_raised() -> None:
    """A refusal is raised with its words by every verb."""
    scaler = ExecutorScaler(SlowCluster(1, refuses="executors cannot be scaled on a local master"))
    with pytest.raises(ActuationRejectedError, match="local master"):
        scaler.reconcile(1)
    with pytest.raises(ActuationRejectedError, match="local master"):
        scaler.request_total(1)
    with pytest.raises(ActuationRejectedError, match="local master"):
        scaler.remove(["0"])


def test_no_executor_at_all_is_refused() -> None:
    """A running query keeps at least one executor."""
    cluster = SlowCluster(2)
    with pytest.raises(ActuationRejectedError, match="at least 1"):
        ExecutorScaler(cluster).reconcile(0)
    assert cluster.calls == []


@given(st.integers(1, 5), st.lists(st.tuples(st.integers(1, 5), st.sampled_from("sedn")), max_size=30))
def test_any_history_ends_at_the_target(start: int, events: list[tuple[int, str]]) -> None:
    """Whatever was asked, started, ended or died, steps and time lead to the last target, never through zero."""
    cluster = SlowCluster(start)
    scaler = ExecutorScaler(cluster)
    target = start
    for target, event in events:
        scaler.reconcile(target)
        assert len(cluster.active) >= 1
        if event == "s":
            cluster.start_missing()
        elif event == "e":
            cluster.end_leaving()
        elif event == "d" and len(cluster.active) > 1:
            cluster.active.pop(0)
    for _ in range(4):
        scaler.reconcile(target)
        cluster.start_missing()
        scaler.reconcile(target)
        cluster.end_leaving()
    assert len(cluster.active) == target
    assert cluster.limit == target
