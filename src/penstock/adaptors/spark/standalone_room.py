# SPDX-License-Identifier: Apache-2.0
"""How many executors of an application a standalone cluster can give, asked of its master by the driver itself.

The driver has an authenticated way to the master already. Its web page, which says the same, may be anywhere or off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.adaptors.spark.master_address import STANDALONE_PREFIX
from penstock.errors import MetricSourceError
from penstock.records import ExecutorRoom

if TYPE_CHECKING:
    from pyspark import SparkContext

_TARGET = "Spark master"
_ANSWER_SECONDS = 5
_ALIVE = "ALIVE"


@dataclass(frozen=True, slots=True)
class FreeWorker:
    """What a worker that is alive can still give: cores, and memory in MiB."""

    cores: int
    memory: int


@dataclass(frozen=True, slots=True)
class MasterState:
    """What a master says of its workers and of one application.

    Attributes
    ----------
    workers
        Those that are alive.
    executors
        How many the application has, with those that start or drain.
    most_cores
        What it may have in all (``spark.cores.max``); None: no bound.
    """

    workers: Sequence[FreeWorker]
    executors: int
    most_cores: int | None


def executor_room(state: MasterState, cores: int, memory: int) -> ExecutorRoom:
    """Return how many executors of so many cores and MiB the application can have at most now.

    Examples
    --------
    >>> executor_room(MasterState([FreeWorker(4, 2048)], 1, None), 1, 1024).executors
    3
    >>> executor_room(MasterState([FreeWorker(4, 2048)], 1, 2), 1, 1024).executors
    2
    """
    return ExecutorRoom(*min(_bounds(state, cores, memory), key=lambda bound: bound[0]))


def _bounds(state: MasterState, cores: int, memory: int) -> Iterator[tuple[int, str]]:
    """Each thing that bounds the executors: how many it allows in all, and what to say to the user."""
    takes = f"an executor takes {cores} {'core' if cores == 1 else 'cores'} and {memory} MB"
    fit = sum(min(worker.cores // cores, worker.memory // memory) for worker in state.workers)
    yield state.executors + fit, f"no worker has room for one more; {takes}"
    if state.most_cores is not None:
        yield state.most_cores // cores, f"spark.cores.max is {state.most_cores}; {takes}"


class StandaloneRoom:
    """Asks the master of this process's application how many executors it can have.

    Parameters
    ----------
    context
        The running one.
    cores
        Of an executor.
    """

    def __init__(self, context: SparkContext, cores: int) -> None:
        self._context, self._cores = context, cores

    def __call__(self) -> ExecutorRoom | None:
        """Return it; None: the master does not know the application any more.

        Raises
        ------
        MetricSourceError
            No master answers.
        """
        from py4j.protocol import Py4JError

        try:
            assert self._context._jsc is not None
            scala_context = self._context._jsc.sc()
            memory = int(scala_context.executorMemory())
            state = self._asked(scala_context.schedulerBackend().rpcEnv())
        except (Py4JError, OSError, AssertionError) as fault:
            raise MetricSourceError(
                f"{self._context.master} does not say what it can give: {str(fault).splitlines()[0]}", target=_TARGET
            ) from fault
        return None if state is None else executor_room(state, self._cores, memory)

    def _asked(self, rpc: Any) -> MasterState | None:
        """The first answer of a master that leads: of several, the others only wait."""
        from py4j.protocol import Py4JError

        failure: Py4JError | None = None
        for place in (self._context.master or "").removeprefix(STANDALONE_PREFIX).split(","):
            try:
                answer = self._ask(rpc, place)
            except Py4JError as fault:
                failure = fault
                continue
            if answer.status().toString() == _ALIVE:
                return self._read(answer)
        if failure is not None:
            raise failure
        raise MetricSourceError(f"no master of {self._context.master} leads at present", target=_TARGET)

    def _ask(self, rpc: Any, place: str) -> Any:
        """Have the driver send its master the message to which that answers with its state."""
        jvm: Any = self._context._jvm
        host, _, port = place.rpartition(":")
        deploy, message = jvm.org.apache.spark.deploy, "DeployMessages$RequestMasterState$"
        loader = jvm.Thread.currentThread().getContextClassLoader()
        kind = jvm.java.lang.Class.forName("org.apache.spark.deploy.DeployMessages$MasterStateResponse", True, loader)
        lasts = jvm.scala.concurrent.duration.FiniteDuration(_ANSWER_SECONDS, jvm.java.util.concurrent.TimeUnit.SECONDS)
        endpoint = rpc.setupEndpointRef(jvm.org.apache.spark.rpc.RpcAddress(host, int(port)), "Master")
        return endpoint.askSync(
            getattr(getattr(deploy, message), "MODULE$"),
            jvm.org.apache.spark.rpc.RpcTimeout(lasts, "spark.rpc.askTimeout"),
            jvm.scala.reflect.ClassTag.apply(kind),
        )

    def _read(self, answer: Any) -> MasterState | None:
        own = [app for app in answer.activeApps() if app.id() == self._context.applicationId]
        if not own:
            return None
        most = own[0].desc().maxCores()
        return MasterState(
            [
                FreeWorker(worker.coresFree(), worker.memoryFree())
                for worker in answer.workers()
                if worker.state().toString() == _ALIVE
            ],
            own[0].executors().size(),
            most.get() if most.isDefined() else None,
        )
