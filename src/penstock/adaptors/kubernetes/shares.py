# SPDX-License-Identifier: Apache-2.0
"""Holds the executors of an application on Kubernetes to a CPU share, by in-place resize of their pods.

Requests and limits of an executor's pod are set to the share of what Spark has asked for. So what an operator does not
need is there for other pods, and getting it back may have to wait for room. Pods that come later are held, too. When
the driver ends, its executors' pods end, and with them their limits: nothing has to be put back after a kill -9.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.adaptors.kubernetes.api import ExecutorPods, PodGoneError
from penstock.adaptors.kubernetes.cpu_quantity import as_quantity, cores_of
from penstock.adaptors.kubernetes.executor_pods import ExecutorPod, PodCpu, ResizeState
from penstock.clock import Clock, SystemClock
from penstock.errors import ActuationError, ActuationRejectedError, ConfigurationError, MetricSourceError
from penstock.records import Allocation, CpuReading, ExecutorState

_log = logging.getLogger(__name__)

LIMIT_SETTING = "spark.kubernetes.executor.limit.cores"
_OLD_AFTER_LOOKS = 5
_WHOLE = 0.999


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


@dataclass(frozen=True, slots=True)
class _Seen:
    """What one look at the pods has brought."""

    at: float
    steady: float
    """The same instant by a clock that nobody sets."""
    pods: tuple[ExecutorPod, ...]
    originals: Mapping[str, PodCpu]
    """What each of them is to have without Penstock, by its uid."""


class PodShares:
    """Holds an application's executors to a CPU share (`penstock.adaptors.spark.actuator.CpuShareControl`).

    Parameters
    ----------
    operator
        Its name in messages.
    pods
        The executors' pods.
    cores_per_executor
        Cores that each executor was given by Spark.
    asked
        What Spark asks for in each pod (`asked_by_spark`).
    look_every_seconds
        How often the pods are looked at.
    """

    def __init__(
        self,
        operator: str,
        pods: ExecutorPods,
        cores_per_executor: float,
        asked: PodCpu,
        *,
        look_every_seconds: float = 2.0,
        clock: Clock | None = None,
    ) -> None:
        self._operator = operator
        self._pods = pods
        self._cores_per_executor = cores_per_executor
        self._asked = asked
        self._every_seconds = look_every_seconds
        self._clock = clock or SystemClock()
        self._turn = threading.Lock()
        """Held while the API is asked, which may take long."""
        self._lock = threading.RLock()
        """Held for a moment, for what is known: whoever reads it does not wait for the API."""
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_released = False
        self._share: float | None = None
        """What pods are held to; None: nothing was asked for yet, and they are left alone."""
        self._executors: int | None = None
        """How many there are to be; None: nothing was asked for yet."""
        self._leaves_new = False
        self._held: set[str] = set()
        """The pods that a share was asked for."""
        self._seen: _Seen | None = None
        self._fault: str | None = None

    def start(self) -> None:
        """Find out whether shares can be set here, and begin to look at the pods. It changes nothing.

        Raises
        ------
        NoPodSharesError
            They cannot: no rights, no limit to resize, a cluster without in-place resize.
        """
        try:
            seen = self._look()
            running = [pod for pod in seen.pods if pod.is_running]
            if running:
                self._pods.resize(running[0], running[0].wanted, is_trial=True)
        except PodGoneError:
            pass  # the next look finds another
        except ActuationError as fault:
            raise NoPodSharesError(str(fault)) from fault
        without = [pod for pod in seen.pods if seen.originals[pod.uid].limit is None]
        if without or (not seen.pods and self._asked.limit is None):
            raise NoPodSharesError(
                "the executors' pods have no CPU limit, and Kubernetes does not take one away again once it is set; "
                f"start the application with {LIMIT_SETTING}"
            )
        self._thread = threading.Thread(target=self._run, name="penstock-pod-shares", daemon=True)
        self._thread.start()

    def apply(self, allocation: Allocation) -> None:
        """Hold all executors to the allocation's share. Returns when the API has taken it; nodes carry it out later.

        Raises
        ------
        ActuationError
            The API refused, or does not answer.
        """
        with self._turn:
            if self._is_released:
                raise ActuationError(f"CPU shares of {self._operator} were released", target=self._operator)
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
                raise ActuationError(f"CPU shares of {self._operator} were released", target=self._operator)
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
        with self._lock:
            seen, fault = self._seen, self._fault
        if seen is None or self._clock.monotonic() - seen.steady > _OLD_AFTER_LOOKS * self._every_seconds:
            raise MetricSourceError(fault or "the executors' pods were not seen yet", target=self._operator)
        running = [pod for pod in seen.pods if pod.is_running]
        wanted = 1.0 if self._share is None else self._share
        # While pods differ, the one that is furthest from what is wanted counts: until then it is not reached.
        shares = [_share_of(pod, seen.originals[pod.uid]) for pod in running]
        share = max(shares, key=lambda one: abs(one - wanted), default=1.0)
        quota = None if share >= _WHOLE else share * (self._executors or len(running)) * self._cores_per_executor
        return CpuReading(seen.at, None, None, quota, len(running))

    def share_refusal(self) -> str | None:
        """Return why the share that was last asked for will not come about, as far as nodes have said. None: it may."""
        with self._lock:
            seen = self._seen if self._share is not None else None
        refused = [] if seen is None else [p for p in seen.pods if p.resize in _REFUSED and self._is_wanted(p, seen)]
        return "; ".join(self._sentence(pod) for pod in refused) or None

    def unheld(self, executors: Iterable[ExecutorState], now: float) -> str | None:  # noqa: ARG002
        """Return None: pods of all nodes can be resized."""
        return None

    @property
    def faults(self) -> tuple[str, ...]:
        """What does not work at present, one line each."""
        with self._lock:
            seen, fault = self._seen, self._fault
        waiting = [] if seen is None else [pod for pod in seen.pods if pod.resize is ResizeState.DEFERRED]
        return (*(() if fault is None else (fault,)), *(self._sentence(pod) for pod in waiting))

    def release(self) -> None:
        """Give all executors back what Spark asked for, and look no more. May be called twice.

        Raises
        ------
        ActuationError
            Some could not be given back; the message names them.
        """
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(timeout=30.0)
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

    def _look(self) -> _Seen:
        pods = self._pods.all()
        with self._lock:
            originals = {pod.uid: self._original(pod) for pod in pods}
            self._seen = _Seen(self._clock.now(), self._clock.monotonic(), pods, originals)
            return self._seen

    def _original(self, pod: ExecutorPod) -> PodCpu:
        """What a pod is to have without Penstock: what Spark asked for, or more where the cluster gave it more.

        It is never less than Spark asked for: a pod that has less was resized by a run that could not put it back.
        """
        known = None if self._seen is None else self._seen.originals.get(pod.uid)
        if known is not None:
            return known
        return PodCpu(_larger(pod.wanted.request, self._asked.request), _larger(pod.wanted.limit, self._asked.limit))

    def _wanted(self, pod: ExecutorPod, seen: _Seen) -> PodCpu:
        share = 1.0 if self._share is None else self._share
        original = seen.originals[pod.uid]
        return original if share >= _WHOLE else original.scaled(share)

    def _is_wanted(self, pod: ExecutorPod, seen: _Seen) -> bool:
        return pod.wanted.is_same(self._wanted(pod, seen))

    def _hold(self, seen: _Seen) -> None:
        """Resize the pods that are wanted to have something else; raises one error for all that failed."""
        errors: list[ActuationError] = []
        if self._share is None:
            return
        self._held &= {pod.uid for pod in seen.pods}
        for pod in seen.pods:
            if self._leaves_new and pod.uid not in self._held:
                continue
            self._held.add(pod.uid)
            # Before its container runs, a pod cannot be resized: a later look does it.
            if not pod.is_running or seen.originals[pod.uid].limit is None or self._is_wanted(pod, seen):
                continue
            try:
                self._pods.resize(pod, self._wanted(pod, seen))
            except PodGoneError:
                continue
            except ActuationError as fault:
                errors.append(fault)
        if errors:
            # They mostly fail alike: one sentence stands for all.
            kind = type(errors[0])
            others = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
            raise kind(f"{errors[0]}{others}", target="kubernetes", retryable=errors[0].retryable) from errors[0]

    def _sentence(self, pod: ExecutorPod) -> str:
        wanted = "" if pod.wanted.limit is None else f" {as_quantity(pod.wanted.limit)} of CPU"
        node = "its node" if pod.node is None else f"node {pod.node}"
        verb = {
            ResizeState.INFEASIBLE: f"will never have{wanted} on {node}",
            ResizeState.DEFERRED: f"waits for{wanted} on {node}",
        }.get(pod.resize, f"could not be given{wanted} on {node}")
        return f"executor {pod.executor_id} {verb} ({pod.resize}): {pod.message or 'the node says no more'}"

    def _run(self) -> None:
        while not self._clock.wait(self._every_seconds, self._stopped):
            try:
                with self._turn:
                    seen = self._look()
                    if self._share is not None and not self._is_released:
                        self._hold(seen)
                self._tell(None)
            except (ActuationError, ConfigurationError) as fault:
                self._tell(str(fault))
            except Exception as fault:  # a pod as we have never seen one: the next look may succeed
                self._tell(f"the executors' pods could not be looked at: {type(fault).__name__}: {fault}")

    def _tell(self, fault: str | None) -> None:
        if fault is not None and fault != self._fault:
            _log.warning("%s: %s", self._operator, fault)
        self._fault = fault


_REFUSED = frozenset({ResizeState.INFEASIBLE, ResizeState.FAILED})


def _share_of(pod: ExecutorPod, original: PodCpu) -> float:
    limit = pod.has.limit
    return 1.0 if not original.limit or limit is None else min(1.0, limit / original.limit)


def _larger(one: float | None, other: float | None) -> float | None:
    return max((value for value in (one, other) if value is not None), default=None)
