# SPDX-License-Identifier: Apache-2.0
"""The clusters that Spark has its executors from, each as a `penstock.ports.Cluster`; the master's URL says which."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.adaptors.cpu_shares import HeldExecutors, SharedApplication, executor_pods, hold_executors
from penstock.adaptors.executor_room import RoomWatch
from penstock.adaptors.spark.context_control import ContextControl
from penstock.adaptors.spark.master_address import KUBERNETES_PREFIX, STANDALONE_PREFIX, YARN
from penstock.errors import ActuationRejectedError, ConfigurationError
from penstock.ports import Census, NodeChoice
from penstock.records import Allocation, ExecutorRoom, ExecutorState, Limits

if TYPE_CHECKING:
    from pyspark import SparkContext

    from penstock.adaptors.kubernetes.node_choice import NodeTemplate

_LOG = logging.getLogger(__name__)
ReadExecutors = Callable[[], tuple[ExecutorState, ...]]
ReadRoom = Callable[[], ExecutorRoom | None]


@dataclass(frozen=True, slots=True)
class RunningApplication:
    """The application of this process, as a cluster is made for it.

    Attributes
    ----------
    read_executors
        Returns its executors, as Spark reports them.
    cores
        Of an executor; None: that is not known.
    """

    context: SparkContext
    read_executors: ReadExecutors = tuple
    cores: int | None = None

    @property
    def master(self) -> str:
        """Its master's URL."""
        return self.context.master or ""

    def shared(self) -> SharedApplication:
        """The same as those see it who hold its executors."""
        conf = dict(self.context.getConf().getAll())
        return SharedApplication(self.context.applicationId, self.master, conf, self.cores)


class SparkCluster:
    """What Spark does alike on every cluster: it adds, drains and kills executors (a `penstock.ports.Cluster`).

    By itself it can give no more than that, which is what a local master has. Nothing is asked of the cluster, and
    executors are left alone, until `watch_room` and `hold`.
    """

    why_no_nodes: str | None = "executors are placed on standalone clusters and Kubernetes alone"

    def __init__(self, application: RunningApplication) -> None:
        self._application = application
        self._control = ContextControl(application.context)
        self._held = HeldExecutors()
        self._room: RoomWatch | None = None
        self._node_names: tuple[str, ...] = ()
        self._asked_here: int | None = None
        self._notes: tuple[str, ...] = ()

    def hold(self, operator: str, limits: Limits, *, has_master: bool = False) -> None:
        """Take hold of the executors, as far as the limits want it; they are not touched until the first resize.

        `operator` is the name in messages; `has_master`, whether the agents of all hosts are to hold them.
        """
        self._node_names = limits.nodes
        self._held = hold_executors(
            self._application.shared(), operator, limits, lambda: self._asked_here, has_master=has_master
        )

    def watch_room(self) -> None:
        """Begin to ask the cluster, in the background, how many executors can be had."""
        read = self._room_reader()
        if read is not None:
            watch = RoomWatch(read)
            watch.start()
            self._room = watch

    def close(self) -> None:
        """Lift caps, and ask no more. Executors stay as they are."""
        if self._room is not None:
            self._room.stop()
        self._held.close()

    @property
    def held(self) -> HeldExecutors:
        """How the executors are held."""
        return self._held

    @property
    def notes(self) -> tuple[str, ...]:
        """For the user, one line each: what cannot be had here, for example."""
        return (*self._held.notes, *self._notes)

    @property
    def faults(self) -> tuple[str, ...]:
        """What does not work at present, one line each."""
        return (*self._held.faults, *(() if self._room is None else self._room.faults))

    def executors(self) -> tuple[ExecutorState, ...]:
        """Return the executors with their nodes as hosts; raises MetricSourceError where they cannot be read."""
        return self._application.read_executors()

    # --- penstock.ports.Cluster

    def refusal(self) -> str | None:
        """Return why executors cannot be scaled here."""
        return self._control.refusal()

    def room(self) -> ExecutorRoom | None:
        """Return how many executors can be had now, and why not more."""
        return None if self._room is None else self._room.room()

    @property
    def nodes(self) -> NodeChoice:
        """On which nodes executors can be had."""
        why_none = self.why_no_nodes
        return NodeChoice(self._node_names) if why_none is None else NodeChoice(why_none=why_none)

    @property
    def why_no_shares(self) -> str | None:
        """Why executors cannot be held to a CPU share."""
        return self._held.why_no_shares

    @property
    def can_drain(self) -> bool:
        """Whether the application was started with decommissioning."""
        return self._control.can_drain

    def census(self) -> Census:
        """Return the registered executors."""
        return self._control.census()

    def asked(self) -> int | None:
        """Return how many executors were asked for, or the application began with."""
        return self._control.requested_total()

    def ask(self, executors: int) -> None:
        """Ask for so many executors in all."""
        self._control.request_total(executors)
        self._asked_here = executors

    def choose(self, nodes: Sequence[str]) -> None:
        """Have executors that are started from now on come to these nodes."""
        if self.why_no_nodes is not None:
            raise ActuationRejectedError(f"nodes cannot be chosen here: {self.why_no_nodes}", target="spark")
        self._point_at(nodes)

    def drain(self, executor_id: str, reason: str) -> None:
        """Decommission an executor."""
        self._control.drain(executor_id, reason)

    def kill(self, executor_ids: Sequence[str]) -> None:
        """Kill executors now."""
        self._control.kill(executor_ids)

    def resize(self, allocation: Allocation | None, *, is_starting: bool = False) -> None:
        """Hold the executors to the allocation's CPU share."""
        shares = self._held.shares
        if shares is None:
            raise ActuationRejectedError(f"CPU shares cannot be set here: {self.why_no_shares}", target="cpu shares")
        if allocation is None:
            shares.open()
        elif is_starting:
            shares.widen(allocation)
        else:
            shares.apply(allocation)

    def share_refusal(self) -> str | None:
        """Return why the share that was last asked for will not come about."""
        return None if self._held.shares is None else self._held.shares.share_refusal()

    def release(self) -> None:
        """Lift the cap, and leave nothing behind."""
        if self._held.shares is not None:
            self._held.shares.release()

    # --- what clusters differ in

    def _room_reader(self) -> ReadRoom | None:
        """What asks how many executors can be had; None: nobody can be asked."""
        return None

    def _point_at(self, nodes: Sequence[str]) -> None:
        """Tell the cluster which nodes executors are to come to."""


class OnStandalone(SparkCluster):
    """A standalone cluster, the embedded one too.

    Its master chooses nodes itself: executors come to chosen ones as more are asked for and the others drained
    (`penstock.adaptors.spark.placing`).
    """

    why_no_nodes = None

    def _room_reader(self) -> ReadRoom | None:
        from penstock.adaptors.spark.standalone_room import StandaloneRoom

        cores = self._application.cores
        return None if cores is None else StandaloneRoom(self._application.context, cores)


class OnYarn(SparkCluster):
    """A queue of YARN."""

    why_no_nodes = (
        "YARN gives containers on nodes of its own choice; restrict them with a node label "
        "(spark.yarn.executor.nodeLabelExpression)"
    )

    def _room_reader(self) -> ReadRoom | None:
        """Its configuration is read with the first answer: where that fails, it is tried again."""
        from penstock.adaptors.yarn.application_room import ApplicationRoom

        room: ApplicationRoom | None = None

        def read() -> ExecutorRoom | None:
            nonlocal room
            if room is None:
                room = ApplicationRoom.of(self._application.context)
            return room()

        return read


class OnKubernetes(SparkCluster):
    """A namespace of Kubernetes.

    Executors come to chosen nodes where the application was started with a pod template of Penstock's own.
    """

    why_no_nodes: str | None = (
        "executors' pods have no template of Penstock's own; start the operator by `penstock run` with `nodes`"
    )

    def __init__(self, application: RunningApplication) -> None:
        super().__init__(application)
        self._template: NodeTemplate | None = None

    def hold(self, operator: str, limits: Limits, *, has_master: bool = False) -> None:
        """Take hold of the executors' pods, and of their template."""
        from penstock.adaptors.kubernetes.node_choice import NodeTemplate

        super().hold(operator, limits, has_master=has_master)
        self._template = NodeTemplate.of_application(self._application.shared().conf)
        if self._template is not None:
            self.why_no_nodes = None

    def executors(self) -> tuple[ExecutorState, ...]:
        """Return the executors; where nodes can be chosen, with the nodes of their pods as hosts."""
        if self._template is None:
            return super().executors()
        from penstock.adaptors.kubernetes.node_choice import on_their_nodes

        return on_their_nodes(super().executors, self._held.watch)()

    def _room_reader(self) -> ReadRoom | None:
        from penstock.adaptors.kubernetes.namespace_room import NamespaceRoom, quotas_unknown
        from penstock.adaptors.kubernetes.shares import asked_by_spark

        application = self._application.shared()
        try:
            return NamespaceRoom(executor_pods(application), asked_by_spark(application.conf), self._say)
        except ConfigurationError as fault:
            if not any(str(fault) in note for note in self.notes):
                self._say(quotas_unknown(str(fault)))
            return None

    def _say(self, line: str) -> None:
        if self._room is not None:  # what is said before is among the notes at the start
            _LOG.warning("%s", line)
        self._notes = (*self._notes, line)

    def _point_at(self, nodes: Sequence[str]) -> None:
        if self._template is not None:
            self._template.point_at(nodes)


def cluster_of(application: RunningApplication) -> SparkCluster:
    """Return the cluster of an application, by its master's URL. It is asked nothing yet."""
    master = application.master
    if master == YARN:
        return OnYarn(application)
    if master.startswith(KUBERNETES_PREFIX):
        return OnKubernetes(application)
    return (OnStandalone if master.startswith(STANDALONE_PREFIX) else SparkCluster)(application)
