# SPDX-License-Identifier: Apache-2.0
"""The calls on a running SparkContext that add, drain and kill executors, through Py4J (Spark 3.5 to 4.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.adaptors.spark.master_address import KUBERNETES_PREFIX, YARN
from penstock.errors import ActuationError, ActuationRejectedError
from penstock.ports import Census

if TYPE_CHECKING:
    from pyspark import SparkContext

T = TypeVar("T")


_INSTANCES = 2
"""How many executors Spark asks YARN and Kubernetes for where nothing is set."""


def configured_total(master: str, conf: Mapping[str, str]) -> int | None:
    """Return how many executors an application asks for when it starts; None: as many as there is room for.

    Examples
    --------
    >>> configured_total("spark://h:7077", {"spark.cores.max": "8", "spark.executor.cores": "2"})
    4
    >>> configured_total("yarn", {"spark.cores.max": "8", "spark.executor.cores": "2"})
    2
    """
    counts_instances = master == YARN or master.startswith(KUBERNETES_PREFIX)
    if not counts_instances and "spark.cores.max" in conf and "spark.executor.cores" in conf:
        return int(conf["spark.cores.max"]) // int(conf["spark.executor.cores"]) or None
    if "spark.executor.instances" in conf:
        return int(conf["spark.executor.instances"])
    return _INSTANCES if counts_instances else None


class ContextControl:
    """What a `penstock.ports.Cluster` needs of the SparkContext of this process, whatever the cluster."""

    def __init__(self, spark_context: SparkContext) -> None:
        if spark_context._jsc is None:
            raise ActuationRejectedError("executors cannot be scaled: the SparkContext was stopped", target="spark")
        self._context = spark_context
        self._jvm: Any = spark_context._jvm
        self._scala_context: Any = spark_context._jsc.sc()
        self._backend: Any = self._scala_context.schedulerBackend()

    def refusal(self) -> str | None:
        """Return why executors cannot be scaled here. None: they can."""
        return self._refusal

    @cached_property
    def _refusal(self) -> str | None:
        return self._call("ask whether executors can be scaled", self._why_not)

    def _why_not(self) -> str | None:
        from py4j.java_gateway import is_instance_of

        if not is_instance_of(self._context._gateway, self._backend, "org.apache.spark.ExecutorAllocationClient"):
            return (
                f"executors cannot be scaled on a local master ({self._context.master}); "
                "run the application on a standalone, YARN or Kubernetes cluster"
            )
        if not self._scala_context.executorAllocationManager().isEmpty():
            return (
                "executors cannot be scaled beside Spark's dynamic allocation; "
                "start the application with spark.dynamicAllocation.enabled=false"
            )
        return None

    @cached_property
    def can_drain(self) -> bool:
        """Whether the application was started with decommissioning. Otherwise executors are killed."""
        setting = self._call(
            "read spark.decommission.enabled",
            lambda: self._context.getConf().get("spark.decommission.enabled", "false"),
        )
        return setting == "true"

    def census(self) -> Census:
        """Return the registered executors, as the driver's scheduler sees them."""

        def count() -> Census:
            joined = str(self._backend.getExecutorIds().mkString(","))  # one call for all executors
            known = joined.split(",") if joined else []
            active = [i for i in known if self._backend.isExecutorActive(i)]
            return Census(tuple(active), tuple(i for i in known if i not in active))

        return self._call("count executors", count)

    def requested_total(self) -> int | None:
        """Return the total requested so far, or else the one the application started with. None: neither is known."""

        def read() -> int | None:
            joined = str(self._requested_totals().values().mkString(","))
            return sum(map(int, joined.split(","))) if joined else self._configured_total

        return self._call("read the wanted number of executors", read)

    def _requested_totals(self) -> Any:
        """Return the scheduler's table of wanted totals. Spark 3.5 has no call for it, so the field is read there."""
        if self._totals_field is None:
            return self._backend.getRequestedTotalExecutors()
        return self._totals_field.get(self._backend)

    @cached_property
    def _totals_field(self) -> Any:
        """The field of the table, where the scheduler has no call that returns it. None: it has one."""
        kind = self._backend.getClass()
        if any(method.getName() == "getRequestedTotalExecutors" for method in kind.getMethods()):
            return None
        while kind.getSimpleName() != "CoarseGrainedSchedulerBackend":
            kind = kind.getSuperclass()
        field = kind.getDeclaredField("requestedTotalExecutorsPerResourceProfile")
        field.setAccessible(True)
        return field

    @cached_property
    def _configured_total(self) -> int | None:
        return configured_total(self._context.master or "", dict(self._context.getConf().getAll()))

    def request_total(self, total: int) -> None:
        """Request a total number of executors."""
        jvm = self._jvm

        def request() -> Any:
            return self._scala_context.requestTotalExecutors(total, 0, jvm.scala.Predef.Map().empty())

        self._accepted(f"request {total} executors", request)

    def drain(self, executor_id: str, reason: str) -> None:
        """Decommission an executor. The requested total stays: it was set before."""
        jvm = self._jvm

        def decommission() -> Any:
            nobody = getattr(getattr(jvm.scala, "None$"), "MODULE$")
            info = jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo(reason, nobody)
            return self._backend.decommissionExecutor(executor_id, info, False, False)

        self._accepted(f"drain executor {executor_id}", decommission)

    def kill(self, executor_ids: Sequence[str]) -> None:
        """Kill executors now. The requested total stays: it was set before.

        `SparkContext.killExecutors` would lower the total by the executors it kills, so that one that is lost later is
        not replaced; the scheduler's own call leaves it alone.
        """
        jvm = self._jvm

        def kill() -> Any:
            ids = jvm.java.util.ArrayList()
            for executor_id in executor_ids:
                ids.add(executor_id)
            # PySpark's own conversion: Scala 2.12, which Spark 3.5 is built with, lacks the one of Scala's library.
            chosen = jvm.org.apache.spark.api.python.PythonUtils.toSeq(ids)
            # adjustTargetNumExecutors, countFailures, force: also where tasks run
            return not self._backend.killExecutors(chosen, False, False, True).isEmpty()

        self._accepted(f"kill executors {', '.join(executor_ids)}", kill)

    def _accepted(self, what: str, call: Callable[[], Any]) -> None:
        if not self._call(what, call):
            raise ActuationRejectedError(f"Spark refused to {what}", target="spark", retryable=True)

    def _call(self, what: str, call: Callable[[], T]) -> T:
        from py4j.protocol import Py4JError

        try:
            return call()
        except (Py4JError, OSError) as fault:
            raise ActuationError(f"could not {what}: {fault}", target="spark", retryable=True) from fault
