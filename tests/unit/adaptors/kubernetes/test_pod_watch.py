# SPDX-License-Identifier: Apache-2.0
"""What a look at the executors' pods says, against a cluster that is made up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from tests.unit.adaptors.kubernetes.pods import FakePods, SteppedClock

from penstock.adaptors.kubernetes.executor_pods import PodCpu
from penstock.adaptors.kubernetes.pod_watch import PodsSeen, PodWatch
from penstock.errors import ActuationError, ActuationRejectedError

ASKED = PodCpu(0.8, 1.0)


@contextmanager
def watched(pods: FakePods, clock: SteppedClock, wanted: Callable[[], int | None] = lambda: None) -> Iterator[PodWatch]:
    """A watch that looks when the clock says so."""
    watch = PodWatch("counts", pods, ASKED, wanted=wanted, clock=clock)
    watch.look()
    watch.start()
    try:
        yield watch
    finally:
        watch.stop()


def test_an_api_that_is_away_is_told_until_it_answers() -> None:
    """The fault is there while nobody answers, and gone afterwards."""
    pods, clock = FakePods("1"), SteppedClock()
    with watched(pods, clock) as watch:
        assert not watch.faults
        pods.fail_list = ActuationError("the Kubernetes API does not answer", retryable=True)
        clock.look()
        assert watch.faults == ("the Kubernetes API does not answer",)
        assert not watch.is_stale
        clock.time += 60.0
        assert watch.is_stale
        pods.fail_list = None
        clock.look()
        assert not watch.faults


def test_executors_that_do_not_start_are_told() -> None:
    """An obstacle of a pod is a line with its executor."""
    pods, clock = FakePods("1"), SteppedClock()
    pods.pods["1"] = replace(pods.pods["1"], obstacle="does not start: ErrImagePull")
    with watched(pods, clock) as watch:
        assert watch.faults == ("executor 1 does not start: ErrImagePull",)


def test_an_executor_that_was_ended_is_told_for_a_while() -> None:
    """Spark removes the pod at once; that it ran out of memory is told for half a minute."""
    pods, clock = FakePods("1", "2"), SteppedClock()
    with watched(pods, clock) as watch:
        pods.pods["2"] = replace(pods.pods["2"], end="OOMKilled (exit code 137)", is_running=False)
        clock.look()
        del pods.pods["2"]
        clock.look()
        assert watch.faults == ("executor 2 was ended: OOMKilled (exit code 137)",)
        clock.time += 31.0
        assert not watch.faults


def test_where_no_pod_is_made_for_an_executor_the_api_is_asked_why() -> None:
    """After some seconds a pod is tried with what Spark asks for; the API's words are told until pods come."""
    pods, clock = FakePods("1"), SteppedClock()
    pods.fail_another = ActuationRejectedError("could not make a pod for another executor: exceeded quota: small")
    with watched(pods, clock, lambda: 2) as watch:
        clock.look()
        assert pods.asked_for_another == []
        clock.time += 10.0
        clock.look()
        assert pods.asked_for_another == [ASKED]
        assert watch.faults == (
            "2 executors are wanted and 1 have a pod: could not make a pod for another executor: exceeded quota: small",
        )
        clock.look()
        assert len(pods.asked_for_another) == 1  # not at every look
        pods.add("2", is_running=False)
        clock.look()
        assert not watch.faults


def test_what_the_api_would_take_is_no_fault() -> None:
    """Executors that only take their time are not told."""
    pods, clock = FakePods("1"), SteppedClock()
    with watched(pods, clock, lambda: 2) as watch:
        clock.look()
        clock.time += 10.0
        clock.look()
        assert len(pods.asked_for_another) == 1
        assert not watch.faults


def test_where_not_even_one_pod_is_there_the_last_one_says_what_is_wanted() -> None:
    """All have died and a quota forbids others; without any pod ever, that is said."""
    pods, clock = FakePods("1"), SteppedClock()
    pods.fail_another = ActuationRejectedError("exceeded quota: small")
    with watched(pods, clock, lambda: 1) as watch:
        clock.look()
        del pods.pods["1"]
        clock.look()
        clock.time += 10.0
        clock.look()
        assert pods.asked_for_another == [ASKED]
        assert watch.faults == ("1 executors are wanted and 0 have a pod: exceeded quota: small",)
    pods, clock = FakePods(), SteppedClock()
    with watched(pods, clock, lambda: 2) as watch:
        clock.look()
        clock.time += 10.0
        clock.look()
        (line,) = watch.faults
        assert line.startswith("2 executors are wanted and 0 have a pod: no pod of this application was seen yet")
        pods.add("1")
        pods.add("2")
        clock.look()
        assert not watch.faults


def test_a_pod_that_has_succeeded_is_no_executor() -> None:
    """It stays listed and does not count."""
    pods, clock = FakePods("1", "2"), SteppedClock()
    pods.pods["2"] = replace(pods.pods["2"], has_ended=True, is_running=False)
    pods.fail_another = ActuationRejectedError("exceeded quota: small")
    with watched(pods, clock, lambda: 2) as watch:
        clock.look()
        clock.time += 10.0
        clock.look()
        assert watch.faults == ("2 executors are wanted and 1 have a pod: exceeded quota: small",)


def test_a_pod_that_has_ended_and_stays_is_told_once() -> None:
    """Not again every half minute; once it is gone it is forgotten."""
    pods, clock = FakePods("1", "2"), SteppedClock()
    with watched(pods, clock) as watch:
        pods.pods["2"] = replace(pods.pods["2"], end="OOMKilled (exit code 137)", has_ended=True, is_running=False)
        clock.look()
        assert len(watch.faults) == 1
        for _ in range(3):
            clock.time += 31.0
            clock.look()
            assert not watch.faults
        del pods.pods["2"]
        clock.look()
        assert not watch._ended


class RecordingFollower:
    """Counts the looks that it is given."""

    faults = ()

    def __init__(self) -> None:
        self.looks = 0

    def see(self, seen: PodsSeen) -> None:
        """Count."""
        self.looks += 1


def test_a_share_that_cannot_be_set_keeps_nothing_else_from_being_done() -> None:
    """The look has succeeded: memory is followed, and it is asked why executors do not come."""
    pods, clock, follower = FakePods("1"), SteppedClock(), RecordingFollower()
    pods.fail_another = ActuationRejectedError("exceeded quota: small")
    with watched(pods, clock, lambda: 2) as watch:

        def fail() -> None:
            watch.look()
            raise ActuationError("could not resize executor 1", retryable=True)

        watch.each_time(fail)
        watch.follow(follower)
        clock.look()
        clock.time += 10.0
        clock.look()
        assert follower.looks == 2
        assert watch.faults == (
            "could not resize executor 1",
            "2 executors are wanted and 1 have a pod: exceeded quota: small",
        )
        pods.fail_list = ActuationError("the Kubernetes API does not answer", retryable=True)
        clock.look()
        assert follower.looks == 2, "an old look is not acted on again"
