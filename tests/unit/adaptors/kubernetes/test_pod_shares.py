# SPDX-License-Identifier: Apache-2.0
"""CPU shares by in-place resize, against a cluster that is made up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from tests.unit.adaptors.kubernetes.pods import FakePods, SteppedClock

from penstock.adaptors.kubernetes.executor_pods import ExecutorPod, PodCpu, ResizeState
from penstock.adaptors.kubernetes.pod_watch import PodWatch
from penstock.adaptors.kubernetes.shares import NoPodSharesError, PodShares, asked_by_spark
from penstock.errors import ActuationError, ActuationRejectedError, MetricSourceError
from penstock.records import Allocation


@contextmanager
def held(pods: FakePods, clock: SteppedClock | None = None, asked: PodCpu | None = None) -> Iterator[PodShares]:
    """Shares that have started, and are released at the end."""
    watch = PodWatch("counts", pods, asked or PodCpu(1.0, 1.0), clock=clock or SteppedClock())
    shares = PodShares(watch, 1.0)
    shares.start()
    watch.start()
    try:
        yield shares
    finally:
        pods.fail_list = pods.fail_resize = None
        shares.release()
        watch.stop()


def test_requests_and_limits_follow_the_share_and_are_put_back() -> None:
    """Half a share halves both; the end gives back what Spark asked for."""
    pods = FakePods("1", "2", cpu=PodCpu(0.8, 1.0))
    with held(pods, asked=PodCpu(0.8, 1.0)) as shares:
        assert pods.resizes == []
        shares.apply(Allocation(2, 0.5))
        assert {pod.wanted for pod in pods.pods.values()} == {PodCpu(0.4, 0.5)}
    assert {pod.wanted for pod in pods.pods.values()} == {PodCpu(0.8, 1.0)}


def test_nothing_is_touched_before_the_first_share() -> None:
    """Starting tries whether a resize is allowed, and changes nothing; nor does a release then."""
    pods = FakePods("1")
    with held(pods):
        assert pods.trials == 1
    assert pods.resizes == []


def test_a_share_that_holds_is_not_asked_for_again() -> None:
    """The same share twice is one resize for each pod."""
    pods = FakePods("1")
    with held(pods) as shares:
        shares.apply(Allocation(1, 0.5))
        shares.apply(Allocation(1, 0.5))
        assert len(pods.resizes) == 1


def test_an_executor_that_comes_later_is_held() -> None:
    """A new pod is resized when its container runs, not before."""
    pods, clock = FakePods("1"), SteppedClock()
    with held(pods, clock) as shares:
        shares.apply(Allocation(2, 0.5))
        pods.add("2", is_running=False)
        clock.look()
        assert pods.limits()["2"] == 1.0
        pods.add("2")
        clock.look()
        assert pods.limits() == {"1": 0.5, "2": 0.5}


def test_the_reading_is_the_cap_and_not_the_use() -> None:
    """What executors use is not seen from outside, and stays unknown."""
    pods = FakePods("1", "2")
    with held(pods) as shares:
        assert shares.read().quota_cores is None
        shares.apply(Allocation(2, 0.5))
        shares._look()
        reading = shares.read()
        assert reading.quota_cores == pytest.approx(1.0)  # 2 executors x 1 core x 0.5
        assert (reading.used_seconds, reading.throttled_seconds) == (None, None)


def test_a_pod_that_was_seen_this_moment_counts_in_the_reading() -> None:
    """The watch may have seen a pod that no share was set for yet."""
    pods = FakePods("1")
    with held(pods) as shares:
        shares.apply(Allocation(1, 0.5))
        pods.add("2")
        shares._watch.look()
        assert shares.read().quota_cores is None  # the new one has its whole core
        assert shares.share_refusal() is None


def test_a_share_counts_when_the_last_executor_has_it() -> None:
    """While pods differ, the reading is that of the pod that is furthest from what is wanted."""
    pods = FakePods("1", "2")
    with held(pods) as shares:
        shares.apply(Allocation(2, 0.5))
        pods.add("2")  # another pod in its place, with the whole share
        shares._look()
        assert shares.read().quota_cores is None


@pytest.mark.parametrize(
    ("answer", "words"),
    [(ResizeState.INFEASIBLE, "will never have"), (ResizeState.FAILED, "could not be given")],
)
def test_a_resize_that_will_not_come_is_a_refusal(answer: ResizeState, words: str) -> None:
    """What the node will not do is told with executor, amount, node and the node's own words."""
    pods = FakePods("1")
    with held(pods) as shares:
        pods.answer, pods.message = answer, "Node didn't have enough capacity: cpu"
        shares.apply(Allocation(1, 0.5))
        shares._look()
        refusal = shares.share_refusal()
        assert refusal is not None
        assert f"executor 1 {words} 500m of CPU on node node1" in refusal
        assert "enough capacity" in refusal
        pods.answer = ResizeState.SETTLED
        shares.apply(Allocation(1, 0.25))
        shares._look()
        assert shares.share_refusal() is None


def test_a_deferred_resize_is_told_and_may_still_come() -> None:
    """A node without room now is a fault, not a refusal."""
    pods = FakePods("1")
    with held(pods) as shares:
        pods.answer, pods.message = ResizeState.DEFERRED, "no room"
        shares.apply(Allocation(1, 0.5))
        shares._look()
        assert shares.share_refusal() is None
        assert shares.faults == ("executor 1 waits for 500m of CPU on node node1 (deferred): no room",)
        assert shares.read().quota_cores is None  # it still has the whole core


def test_a_pod_that_is_deleted_meanwhile_is_left_out() -> None:
    """A pod that is gone when it is to be resized is no failure; the others are held."""
    pods = FakePods("1", "2")
    with held(pods) as shares:
        pods.gone = {"1"}
        shares.apply(Allocation(2, 0.5))
        assert pods.limits() == {"1": 1.0, "2": 0.5}


def test_missing_rights_are_known_at_the_start() -> None:
    """Where the API refuses a trial, shares are not offered, and the reason says why."""
    pods = FakePods("1")
    pods.fail_resize = ActuationRejectedError("not allowed (403)")
    with pytest.raises(NoPodSharesError, match="not allowed"):
        PodShares(PodWatch("counts", pods, PodCpu(1.0, 1.0)), 1.0).start()


@pytest.mark.parametrize("ids", [(), ("1",)])
def test_pods_without_a_limit_are_left_alone(ids: tuple[str, ...]) -> None:
    """Kubernetes cannot take a limit away again, so none is set where there was none; the setting is named."""
    pods = FakePods(*ids, cpu=PodCpu(1.0, None))
    with pytest.raises(NoPodSharesError, match=r"spark\.kubernetes\.executor\.limit\.cores"):
        PodShares(PodWatch("counts", pods, PodCpu(1.0, None)), 1.0).start()
    assert pods.resizes == []


def test_a_refused_resize_is_an_error_and_is_tried_again() -> None:
    """An API that is busy fails the call; the next look succeeds."""
    pods, clock = FakePods("1", "2"), SteppedClock()
    with held(pods, clock) as shares:
        pods.fail_resize = ActuationError("busy", retryable=True)
        with pytest.raises(ActuationError, match=r"busy \(and 1 more\)"):
            shares.apply(Allocation(2, 0.5))
        pods.fail_resize = None
        clock.look()
        assert pods.limits() == {"1": 0.5, "2": 0.5}


def test_while_the_api_is_away_the_reading_gets_old() -> None:
    """While nobody answers, the last reading holds for some looks; then there is none. It goes on afterwards."""
    pods, clock = FakePods("1"), SteppedClock()
    with held(pods, clock) as shares:
        shares.apply(Allocation(1, 0.5))
        clock.look()
        pods.fail_list = ActuationError("the Kubernetes API does not answer", retryable=True)
        clock.look()
        assert shares.read().quota_cores == 0.5
        clock.time += 60.0
        with pytest.raises(MetricSourceError, match="does not answer"):
            shares.read()
        pods.fail_list = None
        clock.look()
        assert shares.read().quota_cores == 0.5


def test_a_pod_that_goes_while_the_cap_is_read_does_not_fail_the_reading() -> None:
    """The thread looks while somebody reads: the reading is of the look that it began with, whole."""
    pods, clock = FakePods("1", "2"), SteppedClock()
    with held(pods, clock) as shares:
        shares.apply(Allocation(2, 0.5))

        class GoesMeanwhile(tuple[ExecutorPod, ...]):
            """Pods of which one is gone at the next look, which comes as soon as somebody goes through them."""

            def __iter__(self) -> Iterator[ExecutorPod]:
                if pods.pods.pop("2", None) is not None:
                    shares._look()
                return super().__iter__()

        assert shares._watch.seen is not None
        shares._watch._seen = replace(shares._watch.seen, pods=GoesMeanwhile(pods.all()))
        assert shares.read().quota_cores == 1.0


def test_a_pod_like_none_before_does_not_end_the_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the API says cannot be read: it is told, and the next look goes on."""
    pods, clock = FakePods("1"), SteppedClock()
    with held(pods, clock) as shares:
        shares.apply(Allocation(1, 0.5))
        with monkeypatch.context() as strange:
            strange.setattr(pods, "all", lambda: dict[str, str]()["metadata"])
            clock.look()
            assert "KeyError" in shares._watch.faults[0]
        clock.look()
        assert not shares._watch.faults


def test_a_release_that_fails_says_what_is_left() -> None:
    """Where the API does not answer at the end, the user is told that limits stay."""
    pods = FakePods("1")
    shares = PodShares(PodWatch("counts", pods, PodCpu(1.0, 1.0), clock=SteppedClock()), 1.0)
    shares.start()
    shares.apply(Allocation(1, 0.5))
    pods.fail_list = ActuationError("the Kubernetes API does not answer")
    with pytest.raises(ActuationError, match="keep their CPU limits"):
        shares.release()
    shares.release()


def test_what_a_dead_run_left_is_put_back() -> None:
    """A pod with less than Spark asked for gets that back, not what it was found with."""
    pods = FakePods("1", cpu=PodCpu(0.5, 0.5))
    with held(pods) as shares:
        shares.apply(Allocation(1, 0.25))
        assert pods.limits() == {"1": 0.25}
    assert pods.limits() == {"1": 1.0}


def test_opening_gives_the_whole_share_and_stays_ready() -> None:
    """Opened shares can be set again."""
    pods = FakePods("1")
    with held(pods) as shares:
        shares.apply(Allocation(1, 0.5))
        shares.open()
        assert pods.limits() == {"1": 1.0}
        shares.apply(Allocation(1, 0.5))
        assert pods.limits() == {"1": 0.5}


def test_executors_that_start_are_left_alone_until_the_share_is_applied() -> None:
    """A new pod keeps what it came with; those that run are raised to the new share, and not lowered yet."""
    pods, clock = FakePods("1"), SteppedClock()
    with held(pods, clock) as shares:
        shares.apply(Allocation(1, 0.5))
        pods.add("2")
        shares.widen(Allocation(2, 0.25))
        clock.look()
        assert pods.limits() == {"1": 0.5, "2": 1.0}
        shares.widen(Allocation(2, 0.75))
        assert pods.limits() == {"1": 0.75, "2": 1.0}
        shares.apply(Allocation(2, 0.25))
        assert pods.limits() == {"1": 0.25, "2": 0.25}


def test_somebody_else_who_resizes_executors_is_noticed_and_named() -> None:
    """What Penstock has set and finds changed is told, with who did it, and set again; later it is told no more."""
    pods, clock = FakePods("1", "2"), SteppedClock()
    with held(pods, clock) as shares:
        shares.apply(Allocation(2, 0.5))
        clock.look()
        assert not shares.faults
        pods.resize_from_outside("1", PodCpu(2.0, 2.0), "vpa-updater")
        clock.look()
        (fault,) = shares.faults
        assert "executor 1 was resized to request 2, limit 2 by vpa-updater" in fault
        assert "Penstock, which had set request 500m, limit 500m" in fault
        assert pods.limits() == {"1": 0.5, "2": 0.5}
        clock.time += 61.0
        clock.look()
        assert not shares.faults


def test_before_the_first_share_nothing_is_widened() -> None:
    """Executors that start beside others that nobody has capped change nothing."""
    pods = FakePods("1", "2")
    with held(pods) as shares:
        shares.widen(Allocation(2, 0.5))
        assert pods.resizes == []


def test_what_spark_asks_for_is_read_from_its_configuration() -> None:
    """A request of its own goes before the executor's cores; without a limit there is none."""
    assert asked_by_spark({}) == PodCpu(1.0, None)
    conf = {"spark.executor.cores": "2", "spark.kubernetes.executor.request.cores": "500m"}
    assert asked_by_spark(conf) == PodCpu(0.5, None)
