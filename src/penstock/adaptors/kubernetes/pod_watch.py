# SPDX-License-Identifier: Apache-2.0
"""Looks at an application's executors' pods every few seconds, and says what keeps executors from coming."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
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
            self._ended = {uid: kept for uid, kept in self._ended.items() if now - kept[0] <= _ENDED_TOLD_SECONDS}
            ended = [text for _, text in self._ended.values()]
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
            try:
                self._each_time()
                if self._follower is not None and self.seen is not None:
                    self._follower.see(self.seen)
                self._ask_why_none_come()
                self._tell(None)
            except (ActuationError, ConfigurationError) as fault:
                self._tell(str(fault))
            except Exception as fault:  # a pod as we have never seen one: the next look may succeed
                self._tell(f"the executors' pods could not be looked at: {type(fault).__name__}: {fault}")

    def _ask_why_none_come(self) -> None:
        """Where executors are missing for a while and no pod is there for them, try whether one could be made.

        Spark makes the pods and does not say why it could not: a quota, an admission rule or its own rights.
        """
        seen, wanted = self.seen, self._wanted()
        alive = [] if seen is None else [pod for pod in seen.pods if not pod.end and not pod.is_going]
        now = self.clock.monotonic()
        if not alive or wanted is None or wanted <= len(alive):
            self._lacking_since = self._no_more = None
            return
        if self._lacking_since is None:
            self._lacking_since = now
        if now - self._lacking_since < _PATIENCE_SECONDS:
            return
        self._lacking_since = now
        try:
            self.pods.try_another(alive[0], self.asked)
            self._no_more = None
        except ActuationError as fault:
            told = f"{wanted} executors are wanted and {len(alive)} have a pod: {fault}"
            if told != self._no_more:
                _log.warning("%s: %s", self.operator, told)
            self._no_more = told

    def _tell(self, fault: str | None) -> None:
        if fault is not None and fault != self._fault:
            _log.warning("%s: %s", self.operator, fault)
        self._fault = fault
