# SPDX-License-Identifier: Apache-2.0
"""Looks at an application's executors' pods every few seconds, and says what keeps executors from coming."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from penstock.adaptors.kubernetes.api import ExecutorPods
from penstock.adaptors.kubernetes.executor_pods import ExecutorPod, PodCpu
from penstock.clock import Clock, SystemClock
from penstock.errors import ActuationError, ConfigurationError

_log = logging.getLogger(__name__)

_OLD_AFTER_LOOKS = 5
_PATIENCE_SECONDS = 10.0
"""How long executors may be missing before it is asked why no pod is made for them: Spark makes them in batches."""
_ENDED_TOLD_SECONDS = 30.0
"""How long it is told that an executor was ended: Spark removes its pod soon."""


@dataclass(frozen=True, slots=True)
class PodsSeen:
    """What one look at the pods has brought."""

    at: float
    steady: float
    """The same instant by a clock that nobody sets."""
    pods: tuple[ExecutorPod, ...]


class PodFollower(Protocol):
    """Acts on what is seen of the pods."""

    @property
    def faults(self) -> tuple[str, ...]:
        """What there is to say at present, one line each."""
        ...

    def see(self, seen: PodsSeen) -> None:
        """Take in a look at the pods."""
        ...


class PodWatch:
    """Looks at the pods in a thread of its own; whoever reads what it has seen does not wait for the API.

    Parameters
    ----------
    operator
        Its name in messages.
    pods
        The executors' pods.
    asked
        The CPU that Spark asks for in each pod.
    wanted
        Returns how many executors there are to be; None: that is not known.
    look_every_seconds
        How often the pods are looked at.
    """

    def __init__(
        self,
        operator: str,
        pods: ExecutorPods,
        asked: PodCpu,
        *,
        wanted: Callable[[], int | None] = lambda: None,
        look_every_seconds: float = 2.0,
        clock: Clock | None = None,
    ) -> None:
        self.operator = operator
        self.pods = pods
        self.asked = asked
        self.clock = clock or SystemClock()
        self._wanted = wanted
        self._every_seconds = look_every_seconds
        self._lock = threading.Lock()
        """Held for a moment, for what is known."""
        self._each_time: Callable[[], object] = self.look
        self._follower: PodFollower | None = None
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._seen: PodsSeen | None = None
        self._fault: str | None = None
        self._lacking_since: float | None = None
        self._no_more: str | None = None
        self._ended: dict[str, tuple[float, str]] = {}
        """Since when it is told that a pod was ended, by uid; kept while the pod is there, so that it is told once."""
        self._pattern: ExecutorPod | None = None
        """What another pod would be like: one of the last look that found any."""

    def start(self) -> None:
        """Begin to look again and again."""
        self._thread = threading.Thread(target=self._run, name="penstock-pod-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no more. May be called twice."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(timeout=30.0)

    def each_time(self, call: Callable[[], object]) -> None:
        """Have this done in place of a mere look; it looks itself."""
        self._each_time = call

    def follow(self, follower: PodFollower) -> None:
        """Have this one take in each look."""
        self._follower = follower

    def look(self) -> PodsSeen:
        """Look now.

        Raises
        ------
        ActuationError
            The API refused, or does not answer.
        """
        pods = self.pods.all()
        seen = PodsSeen(self.clock.now(), self.clock.monotonic(), pods)
        with self._lock:
            self._seen = seen
            there = {pod.uid for pod in pods}
            self._ended = {
                uid: kept
                for uid, kept in self._ended.items()
                if uid in there or seen.steady - kept[0] <= _ENDED_TOLD_SECONDS
            }
            for pod in pods:
                if pod.end:
                    self._ended.setdefault(pod.uid, (seen.steady, f"executor {pod.executor_id} was ended: {pod.end}"))
        return seen

    @property
    def seen(self) -> PodsSeen | None:
        """What the last look has brought; None: nothing yet."""
        with self._lock:
            return self._seen

    @property
    def fault(self) -> str | None:
        """Why the last look failed. None: it did not."""
        return self._fault

    @property
    def is_stale(self) -> bool:
        """Whether the last looks have failed, or there was none yet."""
        seen = self.seen
        return seen is None or self.clock.monotonic() - seen.steady > _OLD_AFTER_LOOKS * self._every_seconds

    @property
    def faults(self) -> tuple[str, ...]:
        """What does not work at present, one line each."""
        seen, now = self.seen, self.clock.monotonic()
        with self._lock:
            ended = [text for since, text in self._ended.values() if now - since <= _ENDED_TOLD_SECONDS]
        waiting = [] if seen is None else [pod for pod in seen.pods if pod.obstacle]
        lines = (
            self._fault,
            self._no_more,
            *ended,
            *(f"executor {pod.executor_id} {pod.obstacle}" for pod in waiting),
            *(() if self._follower is None else self._follower.faults),
        )
        return tuple(line for line in lines if line)

    def _run(self) -> None:
        while not self.clock.wait(self._every_seconds, self._stopped):
            before = self.seen
            faults = [self._attempt(self._each_time)]
            seen = self.seen
            if seen is not None and seen is not before:  # what follows acts on what was seen just now
                if self._follower is not None:
                    faults.append(self._attempt(partial(self._follower.see, seen)))
                faults.append(self._attempt(self._ask_why_none_come))
            self._tell("; ".join(dict.fromkeys(fault for fault in faults if fault is not None)) or None)

    @staticmethod
    def _attempt(call: Callable[[], object]) -> str | None:
        """Why a call failed; None: it did not. What fails keeps nothing else from being done."""
        try:
            call()
        except (ActuationError, ConfigurationError) as fault:
            return str(fault)
        except Exception as fault:  # a pod as we have never seen one: the next look may succeed
            return f"the executors' pods could not be looked at: {type(fault).__name__}: {fault}"
        return None

    def _ask_why_none_come(self) -> None:
        """Where executors are missing for a while and no pod is there for them, try whether one could be made.

        Spark makes the pods and does not say why it could not: a quota, an admission rule or its own rights.
        """
        pods, wanted = () if self._seen is None else self._seen.pods, self._wanted()
        alive = [pod for pod in pods if not (pod.has_ended or pod.end or pod.is_going)]
        self._pattern = next(iter((*alive, *pods)), self._pattern)
        now = self.clock.monotonic()
        if wanted is None or wanted <= len(alive):
            self._lacking_since = self._no_more = None
            return
        if self._lacking_since is None:
            self._lacking_since = now
        if now - self._lacking_since < _PATIENCE_SECONDS:
            return
        self._lacking_since = now
        why = self._why_no_other()
        told = None if why is None else f"{wanted} executors are wanted and {len(alive)} have a pod: {why}"
        if told is not None and told != self._no_more:
            _log.warning("%s: %s", self.operator, told)
        self._no_more = told

    def _why_no_other(self) -> str | None:
        """Why no pod could be made for another executor; None: one could."""
        if self._pattern is None:
            return "no pod of this application was seen yet, so none can be tried; the driver's log says why"
        try:
            self.pods.try_another(self._pattern, self.asked)
        except ActuationError as fault:
            return str(fault)
        return None

    def _tell(self, fault: str | None) -> None:
        if fault is not None and fault != self._fault:
            _log.warning("%s: %s", self.operator, fault)
        self._fault = fault
