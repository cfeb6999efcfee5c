# SPDX-License-Identifier: Apache-2.0
"""Holds the executors of an application on Kubernetes to a CPU share, by in-place resize of their pods.

Requests and limits of an executor's pod are set to the share of what Spark has asked for. So what an operator does not
need is there for other pods, and getting it back may have to wait for room. Pods that come later are held, too. When
the driver ends, its executors' pods end, and with them their limits: nothing has to be put back after a kill -9.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from penstock.adaptors.kubernetes.api import PodGoneError
from penstock.adaptors.kubernetes.executor_pods import ExecutorPod, PodCpu, ResizeState
from penstock.adaptors.kubernetes.pod_watch import PodsSeen, PodWatch
from penstock.adaptors.kubernetes.quantities import as_cpu, cores_of
from penstock.errors import ActuationError, ActuationRejectedError, MetricSourceError
from penstock.records import Allocation, CpuReading, ExecutorState

LIMIT_SETTING = "spark.kubernetes.executor.limit.cores"
_WHOLE = 0.999
_OTHERS_TOLD_SECONDS = 60.0
"""How long it is told that somebody else resizes an executor."""


class NoPodSharesError(ActuationRejectedError):
    """CPU shares cannot be set on this cluster. `reason` says why, in a sentence."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, target="kubernetes")
        self.reason = reason


def asked_by_spark(conf: Mapping[str, str]) -> PodCpu:
    """Return the CPU that Spark asks for in each executor's pod.

    Examples
    --------
    >>> asked_by_spark({"spark.executor.cores": "2", "spark.kubernetes.executor.limit.cores": "2"})
    PodCpu(request=2.0, limit=2.0)
    """
    request = conf.get("spark.kubernetes.executor.request.cores") or conf.get("spark.executor.cores") or "1"
    limit = conf.get(LIMIT_SETTING)
    return PodCpu(cores_of(request), None if limit is None else cores_of(limit))


class PodShares:
    """Holds an application's executors to a CPU share (`penstock.adaptors.cpu_shares`).

    Parameters
    ----------
    watch
        Looks at the executors' pods. Whoever has made it starts it, and stops it after `release`.
    cores_per_executor
        Cores that each executor was given by Spark.
    """

    def __init__(self, watch: PodWatch, cores_per_executor: float) -> None:
        self._watch = watch
        self._cores_per_executor = cores_per_executor
        self._turn = threading.Lock()
        """Held while the API is asked, which may take long."""
        self._is_released = False
        self._share: float | None = None
        """What pods are held to; None: nothing was asked for yet, and they are left alone."""
        self._executors: int | None = None
        """How many there are to be; None: nothing was asked for yet."""
        self._leaves_new = False
        self._held: set[str] = set()
        """The pods that a share was asked for."""
        self._originals: dict[str, PodCpu] = {}
        self._set: dict[str, PodCpu] = {}
        """What was last set, by pod: if a pod has something else, somebody else resizes it."""
        self._others: dict[str, tuple[float, str]] = {}

    def start(self) -> None:
        """Find out whether shares can be set here, and hold pods to them from now on. It changes nothing.

        Raises
        ------
        NoPodSharesError
            They cannot: no rights, no limit to resize, a cluster without in-place resize.
        """
        try:
            seen = self._look()
            running = [pod for pod in seen.pods if pod.is_running]
            if running:
                self._watch.pods.resize(running[0], running[0].wanted, is_trial=True)
        except PodGoneError:
            pass  # the next look finds another
        except ActuationError as fault:
            raise NoPodSharesError(str(fault)) from fault
        without = [pod for pod in seen.pods if self._original(pod).limit is None]
        if without or (not seen.pods and self._watch.asked.limit is None):
            raise NoPodSharesError(
                "the executors' pods have no CPU limit, and Kubernetes does not take one away again once it is set; "
                f"start the application with {LIMIT_SETTING}"
            )
        self._watch.each_time(self._look_and_hold)

    def apply(self, allocation: Allocation) -> None:
        """Hold all executors to the allocation's share. Returns when the API has taken it; nodes carry it out later.

        Raises
        ------
        ActuationError
            The API refused, or does not answer.
        """
        with self._turn:
            if self._is_released:
                operator = self._watch.operator
                raise ActuationError(f"CPU shares of {operator} were released", target=operator)
            self._share, self._executors = allocation.cpu_share, allocation.executors
            self._leaves_new = False
            self._hold(self._look())

    def widen(self, allocation: Allocation) -> None:
        """Leave executors that start as Spark asked for them, until the allocation is applied.

        Those that run have a cap of their own, so they are not in the way: they are raised to the allocation's share,
        and not lowered yet. More would take room from the pods that start.
        """
        with self._turn:
            if self._is_released:
                operator = self._watch.operator
                raise ActuationError(f"CPU shares of {operator} were released", target=operator)
            if self._share is not None:
                self._share = max(self._share, allocation.cpu_share)
            self._executors, self._leaves_new = allocation.executors, True
            self._hold(self._look())

    def open(self) -> None:
        """Give all executors back what Spark asked for, and stay ready."""
        with self._turn:
            if self._share is not None and not self._is_released:
                self._share, self._leaves_new = 1.0, False
                self._hold(self._look())

    def read(self) -> CpuReading:
        """Return the cap that executors have by now. What they use cannot be seen from outside: it stays None.

        Raises
        ------
        MetricSourceError
            The pods could not be looked at lately.
        """
        seen = self._watch.seen
        if seen is None or self._watch.is_stale:
            why = self._watch.fault or "the executors' pods were not seen yet"
            raise MetricSourceError(why, target=self._watch.operator)
        running = [pod for pod in seen.pods if pod.is_running]
        wanted = 1.0 if self._share is None else self._share
        # While pods differ, the one that is furthest from what is wanted counts: until then it is not reached.
        share = max((self._share_of(pod) for pod in running), key=lambda one: abs(one - wanted), default=1.0)
        quota = None if share >= _WHOLE else share * (self._executors or len(running)) * self._cores_per_executor
        return CpuReading(seen.at, None, None, quota, len(running))

    def share_refusal(self) -> str | None:
        """Return why the share that was last asked for will not come about, as far as nodes have said. None: it may."""
        seen = self._watch.seen if self._share is not None else None
        pods = () if seen is None else seen.pods
        refused = [pod for pod in pods if pod.resize in _REFUSED and pod.lacks_cpu and self._is_wanted(pod)]
        return "; ".join(self._sentence(pod) for pod in refused) or None

    def unheld(self, executors: Iterable[ExecutorState], now: float) -> str | None:  # noqa: ARG002
        """Return None: pods of all nodes can be resized."""
        return None

    @property
    def faults(self) -> tuple[str, ...]:
        """What does not work at present, one line each."""
        seen, now = self._watch.seen, self._watch.clock.monotonic()
        pods = () if seen is None else seen.pods
        waiting = [pod for pod in pods if pod.resize is ResizeState.DEFERRED and pod.lacks_cpu]
        others = [text for since, text in tuple(self._others.values()) if now - since <= _OTHERS_TOLD_SECONDS]
        return (*(self._sentence(pod) for pod in waiting), *others)

    def release(self) -> None:
        """Give all executors back what Spark asked for, and hold them no more. May be called twice.

        Raises
        ------
        ActuationError
            Some could not be given back; the message names them.
        """
        with self._turn:
            if self._is_released:
                return
            self._is_released = True
            if self._share is None:
                return
            self._share, self._leaves_new = 1.0, False
            try:
                self._hold(self._look())
            except ActuationError as fault:
                raise ActuationError(
                    f"executors keep their CPU limits, for they could not be put back: {fault}", target="kubernetes"
                ) from fault

    def _look(self) -> PodsSeen:
        seen = self._watch.look()
        self._originals = {pod.uid: self._original(pod) for pod in seen.pods}
        return seen

    def _look_and_hold(self) -> None:
        with self._turn:
            seen = self._look()
            if self._share is not None and not self._is_released:
                self._hold(seen)

    def _original(self, pod: ExecutorPod) -> PodCpu:
        """What a pod is to have without Penstock: what Spark asked for, or more where the cluster gave it more.

        It is never less than Spark asked for: a pod that has less was resized by a run that could not put it back.
        """
        known = self._originals.get(pod.uid)
        if known is not None:
            return known
        asked = self._watch.asked
        return PodCpu(_larger(pod.wanted.request, asked.request), _larger(pod.wanted.limit, asked.limit))

    def _wanted(self, pod: ExecutorPod) -> PodCpu:
        share = 1.0 if self._share is None else self._share
        original = self._original(pod)
        return original if share >= _WHOLE else original.scaled(share)

    def _is_wanted(self, pod: ExecutorPod) -> bool:
        return pod.wanted.is_same(self._wanted(pod))

    def _hold(self, seen: PodsSeen) -> None:
        """Resize the pods that are wanted to have something else; raises one error for all that failed."""
        errors: list[ActuationError] = []
        if self._share is None:
            return
        known = {pod.uid for pod in seen.pods}
        self._held &= known
        self._set = {uid: cpu for uid, cpu in self._set.items() if uid in known}
        self._others = {uid: told for uid, told in self._others.items() if uid in known}
        for pod in seen.pods:
            self._notice_others(pod, seen.steady)
        for pod in seen.pods:
            if self._leaves_new and pod.uid not in self._held:
                continue
            self._held.add(pod.uid)
            # Before its container runs, a pod cannot be resized: a later look does it.
            if not pod.is_running or self._originals[pod.uid].limit is None or self._is_wanted(pod):
                continue
            try:
                self._watch.pods.resize(pod, self._wanted(pod))
                self._set[pod.uid] = self._wanted(pod)
            except PodGoneError:
                continue
            except ActuationError as fault:
                errors.append(fault)
        if errors:
            # They mostly fail alike: one sentence stands for all.
            kind = type(errors[0])
            others = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
            raise kind(f"{errors[0]}{others}", target="kubernetes", retryable=errors[0].retryable) from errors[0]

    def _share_of(self, pod: ExecutorPod) -> float:
        original, limit = self._original(pod).limit, pod.has.limit
        return 1.0 if not original or limit is None else min(1.0, limit / original)

    def _sentence(self, pod: ExecutorPod) -> str:
        wanted = "" if pod.wanted.limit is None else f" {as_cpu(pod.wanted.limit)} of CPU"
        node = "its node" if pod.node is None else f"node {pod.node}"
        verb = {
            ResizeState.INFEASIBLE: f"will never have{wanted} on {node}",
            ResizeState.DEFERRED: f"waits for{wanted} on {node}",
        }.get(pod.resize, f"could not be given{wanted} on {node}")
        return f"executor {pod.executor_id} {verb} ({pod.resize}): {pod.message or 'the node says no more'}"

    def _notice_others(self, pod: ExecutorPod, now: float) -> None:
        """Take note where a pod has not what was last set: somebody else resizes it, too."""
        last = self._set.get(pod.uid)
        if last is None or pod.is_going or pod.wanted.is_same(last):
            return
        who = " and ".join(pod.resized_by) or "somebody else"
        self._others[pod.uid] = (
            now,
            f"executor {pod.executor_id} was resized to {pod.wanted} by {who}, not by Penstock, which had set {last} "
            "and sets its own again; let one alone resize executors (switch off a Vertical Pod Autoscaler for them)",
        )


_REFUSED = frozenset({ResizeState.INFEASIBLE, ResizeState.FAILED})


def _larger(one: float | None, other: float | None) -> float | None:
    return max((value for value in (one, other) if value is not None), default=None)
