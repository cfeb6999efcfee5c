# SPDX-License-Identifier: Apache-2.0
"""Adds executors to a running application, and removes them, without stopping its query.

What the cluster manager promises (seen on standalone clusters, Kubernetes and YARN, with Spark 4.3):

- The requested total is a limit, not an order to stop: raising it starts executors, lowering it stops none.
- An executor that dies is replaced while fewer run than the total. One that goes after the total was lowered is not.
- A draining (decommissioned) executor takes no new tasks at once, but counts as running for the cluster manager
  until it has ended. So while it drains, the total must be one higher for a new executor to start beside it.
- On a standalone cluster `spark.cores.max` bounds all of them together, including the draining ones.
- Most of a drain is waiting: `spark.storage.decommission.replicationReattemptInterval`, 30 s by default.
- A standalone master chooses the nodes of executors itself. `placing` says how they come to chosen ones all the same.
  Kubernetes can be asked for nodes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from penstock.adaptors.spark.executors import choose_to_remove
from penstock.adaptors.spark.placing import PlacingProgress, PlacingStep, next_step
from penstock.errors import ActuationError, ActuationRejectedError, MetricSourceError
from penstock.ports import Census, Cluster
from penstock.records import ExecutorState

_log = logging.getLogger(__name__)

ReadExecutors = Callable[[], tuple[ExecutorState, ...]]


class ExecutorScaler:
    """Brings an application to a number of executors, step by step. Each step starts from the actual state.

    Parameters
    ----------
    cluster
        Where the running application has its executors from.
    read_executors
        Returns tasks and ages, to choose which executors go. Without it, or if it fails, the highest ids go.
    drain_deadline_seconds
        How long an executor may drain before it is killed.
    placing_patience_seconds
        How long chosen nodes may stay without a new executor before no more are asked for.
    """

    def __init__(
        self,
        cluster: Cluster,
        read_executors: ReadExecutors | None = None,
        *,
        drain_deadline_seconds: float = 60.0,
        placing_patience_seconds: float = 120.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.cluster = cluster
        self._read_executors = read_executors
        self._drain_deadline_seconds = drain_deadline_seconds
        self._placing_patience_seconds = placing_patience_seconds
        self._monotonic = monotonic
        self._lock = threading.RLock()
        self._draining_since: dict[str, float] = {}
        self._killed: set[str] = set()
        self._leaving: frozenset[str] = frozenset()
        self._total: int | None = None
        self._notes: list[str] = []
        self._placing = PlacingProgress()

    @property
    def draining(self) -> frozenset[str]:
        """Executors last seen on their way out, or asked to go. Sends no request to the application."""
        return self._leaving

    def ensure_scalable(self, *, on_nodes: bool = False) -> None:
        """Raise ActuationRejectedError with the reason if executors cannot be scaled, or not on chosen nodes."""
        reason = self.cluster.refusal()
        if reason is None and on_nodes and self.cluster.nodes.why_none is not None:
            reason = f"nodes cannot be chosen here: {self.cluster.nodes.why_none}"
        if reason is not None:
            raise ActuationRejectedError(reason, target="spark")

    def take_notes(self) -> tuple[str, ...]:
        """Return notes for the user since the last call, such as executors that had to be killed."""
        with self._lock:
            notes, self._notes = tuple(self._notes), []
        return notes

    def current_total(self) -> int:
        """Return how many executors the application is meant to have: the total it requested, or those it has."""
        requested = self.cluster.asked()
        return len(self.cluster.census().active) if requested is None else requested

    def active_count(self) -> int:
        """Return how many executors take tasks now."""
        return len(self.cluster.census().active)

    def request_total(self, total: int) -> None:
        """Request a total number of executors, including those still draining."""
        self.ensure_scalable()
        self.cluster.ask(total)
        self._total = total

    def remove(self, executor_ids: Sequence[str], *, drain: bool = True) -> None:
        """Remove executors, draining them if possible. Lower the total first, or they are replaced."""
        self.ensure_scalable()
        with self._lock:
            if not (drain and self.cluster.can_drain):
                self._kill(executor_ids)
                return
            for executor_id in executor_ids:
                self.cluster.drain(executor_id, "penstock scales in")
                self._draining_since[executor_id] = self._monotonic()
                self._leaving |= {executor_id}

    def reconcile(self, target: int, *, beside_draining: bool = True) -> None:
        """Take one step from the present executors towards `target`, if one is needed.

        Requests missing executors, drains surplus ones, and kills those that drain for too long. Call it repeatedly:
        executors come and go seconds after the request. New executors start beside the draining ones, unless
        `beside_draining` is false: then they start when those have ended.
        """
        if target < 1:
            raise ActuationRejectedError(
                f"{target} executors were requested; a running query needs at least 1", target="spark"
            )
        self.ensure_scalable()
        with self._lock:
            self._notice_others()
            census = self._take_census()
            missing = target - len(census.active)
            # Leaving executors still count for the cluster manager. The extra is requested only while executors are
            # missing: afterwards it would replace the leaving ones. If one ends in between, the executor started in
            # its place is one too many, and a later step drains it.
            total = target + len(census.leaving) if missing > 0 and beside_draining else target
            if missing > 0 or total != self._total:
                self.request_total(total)
            if missing < 0:
                self.remove(choose_to_remove(self._describe(census), -missing, census.leaving))
            self._kill_overdue()

    def place(self, wanted: Mapping[str, int]) -> None:
        """Take one step towards so many executors on each of these nodes, and none elsewhere. Call it repeatedly.

        Raises
        ------
        ActuationError
            Where executors are cannot be read, or the nodes do not get theirs: no room on them, or `spark.cores.max`
            has none. What came to other nodes meanwhile is let go, and nothing more is asked for.
        """
        self.ensure_scalable(on_nodes=True)
        if sum(wanted.values()) < 1:
            raise ActuationRejectedError(
                "no executors were requested; a running query needs at least 1", target="spark"
            )
        with self._lock:
            self._notice_others()
            census = self._take_census()
            executors = self._located(census)
            may_ask = self._placing.goes_on(wanted, executors, self._monotonic(), self._placing_patience_seconds)
            step = next_step(executors, census.leaving, wanted, may_ask=may_ask)
            self.cluster.choose(tuple(step.missing or wanted))  # one that is lost comes back to a node that is wanted
            if step.total != self._total or (step.missing and may_ask):
                self.request_total(step.total)
            if step.remove:
                self.remove(step.remove)
            self._kill_overdue()
            self._note_placed(wanted, step)
        if step.missing and not may_ask:
            lacking = ", ".join(f"{node} ({count})" for node, count in step.missing.items())
            raise ActuationError(
                f"nodes: no executors came to {lacking} within {self._placing_patience_seconds:g} s; they have no free "
                "cores or memory, are gone, or spark.cores.max leaves no room for executors that come to other nodes",
                target="spark",
                retryable=True,
            )

    def _notice_others(self) -> None:
        """Where Spark was asked for another total than the last one from here, say so, and ask again."""
        found = self.cluster.asked()
        if self._total is None or found is None or found == self._total:
            return
        self._notes.append(
            f"somebody else has asked Spark for {found} executors, Penstock for {self._total}: let one alone scale "
            "this application"
        )
        self._total = None

    def _take_census(self) -> Census:
        census = self.cluster.census()
        self._leaving = frozenset(census.leaving)
        self._draining_since = {i: t for i, t in self._draining_since.items() if i in self._leaving}
        self._killed &= self._leaving
        return census

    def _located(self, census: Census) -> list[ExecutorState]:
        """Return the active executors with their hosts: without these none can be placed."""
        try:
            states = {} if self._read_executors is None else {e.executor_id: e for e in self._read_executors()}
        except MetricSourceError as fault:
            raise ActuationError(
                f"executors cannot be placed on nodes: {fault}", target="spark", retryable=True
            ) from fault
        unknown = [i for i in census.active if i not in states]
        if unknown:  # they registered this moment: the next step knows them
            raise ActuationError(
                f"executors cannot be placed on nodes yet: where {', '.join(unknown)} runs is not known",
                target="spark",
                retryable=True,
            )
        return [states[i] for i in census.active]

    def _note_placed(self, wanted: Mapping[str, int], step: PlacingStep) -> None:
        """Say once how many executors were started in vain."""
        in_vain = self._placing.take_in_vain(step)
        if in_vain:
            nodes = ", ".join(wanted)
            self._notes.append(f"{in_vain} executors came to other nodes first, until {nodes} had theirs")

    def _describe(self, census: Census) -> list[ExecutorState]:
        described: dict[str, ExecutorState] = {}
        if self._read_executors is not None:
            try:
                described = {e.executor_id: e for e in self._read_executors()}
            except MetricSourceError as fault:
                self._notes.append(f"the youngest executors were removed, whatever they ran: {fault}")
        return [described.get(i) or ExecutorState(i, "", 0, True, 0, 0.0) for i in census.active]

    def _kill_overdue(self) -> None:
        now = self._monotonic()
        overdue = [
            i
            for i, since in self._draining_since.items()
            if now - since > self._drain_deadline_seconds and i not in self._killed
        ]
        if overdue:
            self._kill(overdue)
            note = f"executors {', '.join(overdue)} were killed: not drained after {self._drain_deadline_seconds:g} s"
            _log.warning(note)
            self._notes.append(note)

    def _kill(self, executor_ids: Sequence[str]) -> None:
        if executor_ids:
            self.cluster.kill(executor_ids)
            self._killed.update(executor_ids)
            self._leaving |= set(executor_ids)


__all__ = ["ExecutorScaler", "ReadExecutors"]
