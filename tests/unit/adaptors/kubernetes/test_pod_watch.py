# SPDX-License-Identifier: Apache-2.0
"""What a look at the executors' pods says, against a cluster that is made up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from tests.unit.adaptors.kubernetes.pods import FakePods, SteppedClock

from penstock.adaptors.kubernetes.executor_pods import PodCpu
from penstock.adaptors.kubernetes.pod_watch import PodWatch
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
