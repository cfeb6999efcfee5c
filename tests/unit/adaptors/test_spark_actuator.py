# SPDX-License-Identifier: Apache-2.0
"""The actuator's thread, requests, failures and release, on a scaler and shares that only take notes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping

import pytest

from penstock.adaptors.spark.actuator import SparkActuator
from penstock.adaptors.spark.scaling import ExecutorScaler
from penstock.errors import ActuationError, ActuationRejectedError, ActuationTimeoutError
from penstock.records import Action, Allocation, Refused
from penstock.testing import FakeCluster


class FakeScaler(ExecutorScaler):
    """Takes one step at once; fails, or waits, when told to."""

    def __init__(self, executors: int = 2, shares: FakeShares | None = None) -> None:
        super().__init__(FakeCluster(why_no_shares="none here") if shares is None else shares)
        self.active: int | None = None
        self.executors = executors
        self.steps = 0
        self.fail_with: Exception | None = None
        self.refuse_with: ActuationRejectedError | None = None
        self.gate = threading.Event()
        self.gate.set()
        self.is_waiting = False
        self.notes: list[str] = []
        self.placed: dict[str, int] | None = None
        self.beside_draining: list[bool] = []

    def ensure_scalable(self, *, on_nodes: bool = False) -> None:
        """Refuse if told to."""
        if self.refuse_with is not None:
            raise self.refuse_with
        super().ensure_scalable(on_nodes=on_nodes)

    def current_total(self) -> int:
        """The number there is."""
        return self.executors

    def active_count(self) -> int:
        """All that were asked for, unless the test says how many."""
        return 99 if self.active is None else self.active

    def reconcile(self, target: int, *, beside_draining: bool = True) -> None:
        """Be there at once."""
        self.is_waiting = not self.gate.is_set()
        self.gate.wait(10)
        self.steps += 1
        if self.fail_with is not None:
            raise self.fail_with
        self.beside_draining.append(beside_draining)
        self.executors = target

    def place(self, wanted: Mapping[str, int]) -> None:
        """Be there at once, on nodes."""
        self.placed = dict(wanted)
        self.reconcile(sum(wanted.values()))

    def take_notes(self) -> tuple[str, ...]:
        """The notes so far."""
        notes, self.notes = tuple(self.notes), []
        return notes


class FakeShares(FakeCluster):
    """Holds the share last set; None is open."""

    def __init__(self, *, why_no_nodes: str | None = None) -> None:
        super().__init__(why_no_nodes=why_no_nodes)
        self.calls: list[str] = []
        self.fail_with: Exception | None = None
        self.refuses: str | None = None

    def resize(self, allocation: Allocation | None, *, is_starting: bool = False) -> None:
        """Cap, raise the cap, or lift it."""
        call = "open" if allocation is None else "widen" if is_starting else "apply"
        self.calls.append(call)
        if self.fail_with is not None and call == "apply":
            raise self.fail_with
        super().resize(allocation, is_starting=is_starting)

    def release(self) -> None:
        """Lift the cap for good."""
        self.calls.append("release")
        super().release()

    def share_refusal(self) -> str | None:
        """Why the share will not come about."""
        return self.refuses


class Parts:
    """An actuator with its fakes."""

    def __init__(self) -> None:
        self.shares = FakeShares()
        self.scaler = FakeScaler(shares=self.shares)
        self.actuator = SparkActuator(self.scaler, reconcile_every_seconds=0.005, release_within_seconds=5.0)


@pytest.fixture
def parts() -> Iterator[Parts]:
    """An actuator whose thread ends with the test."""
    made = Parts()
    yield made
    made.scaler.gate.set()
    made.scaler.fail_with = made.scaler.refuse_with = None
    made.actuator.release()


def ask(executors: int, share: float = 1.0) -> Action:
    """A new request."""
    return Action("operator", 0.0, Allocation(executors, share), None)


def until(is_so: Callable[[], bool]) -> None:
    """Wait for the actuator's thread, and fail if it never gets there."""
    deadline = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < deadline, "the actuator did not get there"
        threading.Event().wait(0.002)


def test_a_request_sets_executors_and_share(parts: Parts) -> None:
    """Both halves of the allocation are carried out."""
    parts.actuator.request(ask(3, 0.5))
    until(lambda: parts.scaler.executors == 3 and parts.shares.share == 0.5)
    assert parts.actuator.last_error is None


def test_executors_are_placed_where_nodes_are_named(parts: Parts) -> None:
    """A request with nodes goes to those; one without leaves the choice to the cluster again."""
    parts.actuator.request(Action("operator", 0.0, Allocation(3, nodes=(("a", 1), ("b", 2))), None))
    until(lambda: parts.scaler.placed == {"a": 1, "b": 2})
    parts.scaler.placed = None
    parts.actuator.request(ask(2))
    until(lambda: parts.scaler.executors == 2)
    assert parts.scaler.placed is None


def test_a_request_returns_while_the_driver_is_busy_and_the_newest_wins(parts: Parts) -> None:
    """Requests do not wait for the driver; of those made meanwhile only the last is carried out."""
    parts.scaler.gate.clear()
    parts.actuator.request(ask(3))
    until(lambda: parts.shares.calls == ["apply"])
    parts.actuator.request(ask(4))
    parts.actuator.request(ask(5))
    parts.scaler.gate.set()
    until(lambda: parts.scaler.executors == 5)
    assert parts.shares.calls == ["apply", "apply"]


def test_starting_executors_are_not_held_back(parts: Parts) -> None:
    """The cap is at its widest while executors start and for a moment after, then it is set."""
    seconds = [0.0]
    actuator = SparkActuator(
        parts.scaler, reconcile_every_seconds=0.005, warm_seconds=8.0, monotonic=lambda: seconds[0]
    )
    parts.scaler.active = 2
    actuator.request(ask(3, 0.5))
    until(lambda: len(parts.shares.calls) > 3)
    assert set(parts.shares.calls) == {"widen"}
    parts.scaler.active = 3
    calls = len(parts.shares.calls)
    until(lambda: len(parts.shares.calls) > calls + 2)
    assert set(parts.shares.calls) == {"widen"}  # it is there, and compiles
    seconds[0] = 9.0
    until(lambda: parts.shares.share == 0.5)
    actuator.release()


def test_executors_that_never_come_do_not_keep_the_cap_off(parts: Parts) -> None:
    """The time without a cap is bounded."""
    seconds = [0.0]
    actuator = SparkActuator(parts.scaler, reconcile_every_seconds=0.005, monotonic=lambda: seconds[0])
    parts.scaler.active = 2
    actuator.request(ask(3, 0.5))
    until(lambda: "widen" in parts.shares.calls)
    seconds[0] = 61.0
    until(lambda: parts.shares.share == 0.5)
    actuator.release()


def test_drift_is_mended_without_a_new_request(parts: Parts) -> None:
    """When executors are lost the last request is repeated, its share not written again."""
    parts.actuator.request(ask(3))
    until(lambda: parts.scaler.executors == 3)
    parts.scaler.executors = 2
    until(lambda: parts.scaler.executors == 3)
    assert parts.shares.calls == ["apply"]


def test_a_failure_is_told_once_and_the_new_request_taken_on(parts: Parts) -> None:
    """What failed is told at the next look; a new request is not blamed for it, and is carried out."""
    parts.scaler.fail_with = ActuationError("master is gone", retryable=True)
    failed = ask(3)
    parts.actuator.request(failed)
    until(lambda: parts.scaler.steps >= 3)
    assert parts.actuator.last_error is not None
    parts.scaler.gate.clear()
    parts.scaler.fail_with = None
    assert parts.actuator.last_error.request_id == failed.request_id
    parts.actuator.request(ask(4))
    assert parts.actuator.take_faults() == ("scaling failed: master is gone",)
    assert parts.actuator.take_faults() == ()
    parts.scaler.gate.set()
    until(lambda: parts.scaler.executors == 4 and parts.actuator.last_error is None)


def test_a_failure_is_a_fault_of_the_next_look(parts: Parts) -> None:
    """Collected faults name the failure and the scaler's notes, each once."""
    parts.scaler.fail_with = RuntimeError("boom")
    parts.scaler.notes = ["executors 1 were killed"]
    parts.actuator.request(ask(3))
    until(lambda: parts.scaler.steps >= 3)
    assert parts.actuator.take_faults() == ("scaling failed: RuntimeError: boom", "executors 1 were killed")
    assert parts.actuator.take_faults() == ()


def test_one_half_failing_does_not_hold_up_the_other_and_is_tried_again(parts: Parts) -> None:
    """Executors are scaled although the share failed, and the share is set when it can be."""
    parts.shares.fail_with = PermissionError("no rights")
    parts.actuator.request(ask(3, 0.5))
    until(lambda: parts.scaler.executors == 3 and len(parts.shares.calls) >= 2)
    assert "no rights" in str(parts.actuator.last_error)
    parts.shares.fail_with = None
    until(lambda: parts.shares.share == 0.5 and parts.actuator.last_error is None)


def test_a_share_that_will_not_come_is_a_refused_request(parts: Parts) -> None:
    """What the cluster refuses after it took the share is told with the request's id."""
    action = ask(3, 0.5)
    parts.actuator.request(action)
    until(lambda: parts.shares.share == 0.5 and parts.scaler.steps >= 2)
    assert parts.actuator.refused() is None
    parts.shares.refuses = "executor 1 will never have it"
    assert parts.actuator.refused() == Refused(action.request_id, "executor 1 will never have it")


def test_a_rejection_refuses_the_request_and_a_passing_failure_does_not(parts: Parts) -> None:
    """What may succeed later is not refused; what will not is."""
    action = ask(3, 0.5)
    parts.shares.fail_with = ActuationError("busy", retryable=True)
    parts.actuator.request(action)
    until(lambda: parts.actuator.last_error is not None)
    assert parts.actuator.refused() is None
    parts.shares.fail_with = ActuationRejectedError("not allowed (403)")
    until(lambda: parts.actuator.refused() == Refused(action.request_id, "not allowed (403)"))


def test_opened_shares_stay_open_until_the_next_request(parts: Parts) -> None:
    """Repetition does not cap again what was opened; asking again, even with the same id, does."""
    action = ask(3, 0.5)
    parts.actuator.request(action)
    until(lambda: parts.shares.share == 0.5)
    parts.actuator.open_shares()
    steps = parts.scaler.steps
    until(lambda: parts.scaler.steps > steps + 2)
    assert parts.shares.share is None
    assert parts.scaler.executors == 3
    parts.actuator.request(action)
    until(lambda: parts.shares.share == 0.5)


@pytest.mark.parametrize(
    "target",
    [Allocation(0, 1.0), Allocation(-1, 1.0), Allocation(1, 0.0), Allocation(1, 1.1), Allocation(1, float("nan"))],
)
def test_an_impossible_allocation_is_refused_and_changes_nothing(parts: Parts, target: Allocation) -> None:
    """No executors, or a share outside (0, 1], is refused at once."""
    with pytest.raises(ActuationRejectedError):
        parts.actuator.request(Action("operator", 0.0, target, None))
    assert parts.shares.calls == []
    assert parts.scaler.steps == 0


def test_where_executors_cannot_be_scaled_the_request_is_refused_at_once(parts: Parts) -> None:
    """The scaler's refusal is raised by the request itself."""
    parts.scaler.refuse_with = ActuationRejectedError("executors cannot be scaled on a local master")
    with pytest.raises(ActuationRejectedError, match="local master"):
        parts.actuator.request(ask(1))
    assert parts.shares.calls == []


def test_release_gives_back_what_was_there_before(parts: Parts) -> None:
    """After release there are as many executors as at first, shares are released and the thread is gone."""
    parts.actuator.request(ask(5, 0.5))
    until(lambda: parts.scaler.executors == 5)
    parts.actuator.release()
    assert parts.scaler.executors == 2
    assert parts.scaler.beside_draining[-1] is False
    assert parts.shares.calls[-1] == "release"
    assert not [t for t in threading.enumerate() if t.name == "penstock-actuator"]


def test_release_puts_back_all_it_can_and_tells_what_it_could_not(parts: Parts) -> None:
    """Shares are released although the executors cannot be put back; a second release does that."""
    parts.actuator.request(ask(5))
    until(lambda: parts.scaler.executors == 5)
    parts.scaler.fail_with = ActuationError("master is gone")
    with pytest.raises(ActuationError, match="master is gone"):
        parts.actuator.release()
    assert parts.shares.calls[-1] == "release"
    parts.scaler.fail_with = None
    parts.actuator.release()
    assert parts.scaler.executors == 2


def test_release_does_not_wait_for_ever_for_a_driver_that_hangs() -> None:
    """A hanging driver makes release raise in time; shares are released at once, executors when it answers."""
    shares = FakeShares()
    scaler = FakeScaler(shares=shares)
    actuator = SparkActuator(scaler, reconcile_every_seconds=0.005, release_within_seconds=0.05)
    actuator.request(ask(5))
    until(lambda: scaler.executors == 5)
    scaler.gate.clear()
    until(lambda: scaler.is_waiting)
    with pytest.raises(ActuationTimeoutError, match="executors are put back when it does"):
        actuator.release()
    assert shares.calls[-1] == "release"
    scaler.gate.set()
    until(lambda: scaler.executors == 2)
    actuator.release()
    assert scaler.beside_draining.count(False) == 1


def test_without_shares_only_executors_are_scaled() -> None:
    """An actuator without shares says so and scales executors."""
    scaler = FakeScaler()
    actuator = SparkActuator(scaler, reconcile_every_seconds=0.005)
    assert not actuator.can_set_cpu_share
    actuator.request(ask(3, 0.5))
    until(lambda: scaler.executors == 3)
    actuator.open_shares()
    actuator.release()
    assert scaler.executors == 2


def test_nodes_are_refused_at_once_where_none_can_be_chosen() -> None:
    """The request says why, and nothing changes."""
    shares = FakeShares(why_no_nodes="it has but one")
    scaler = FakeScaler(shares=shares)
    actuator = SparkActuator(scaler)
    with pytest.raises(ActuationRejectedError, match="nodes cannot be chosen here: it has but one"):
        actuator.request(Action("operator", 0.0, Allocation(3, nodes=(("a", 3),)), None))
    assert (scaler.steps, shares.calls) == (0, [])
