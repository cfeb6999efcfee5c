# SPDX-License-Identifier: Apache-2.0
"""Asks a ResourceManager how many executors an application can have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.adaptors.yarn.resource_manager import NotKnownError, ResourceManager, manager_addresses
from penstock.adaptors.yarn.room import ClusterAnswers, executor_room
from penstock.errors import MetricSourceError
from penstock.records import ExecutorRoom

if TYPE_CHECKING:
    from pyspark import SparkContext


class ApplicationRoom:
    """Reads how many executors an application on YARN can have at most.

    Parameters
    ----------
    manager
        Of the cluster.
    application_id
        `SparkContext.applicationId`.
    conf
        The application's configuration.
    """

    def __init__(self, manager: ResourceManager, application_id: str, conf: Mapping[str, str]) -> None:
        self._manager = manager
        self._path = f"/apps/{application_id}"
        self._label = conf.get("spark.yarn.executor.nodeLabelExpression", "")
        self._counts_cores: bool | None = None

    @classmethod
    def of(cls, context: SparkContext) -> ApplicationRoom:
        """Return the one of this process's application, by the configuration that Spark itself has read."""
        from py4j.protocol import Py4JError

        java_context, jvm = context._jsc, context._jvm
        try:
            assert java_context is not None
            assert jvm is not None
            found = jvm.org.apache.hadoop.yarn.conf.YarnConfiguration(java_context.hadoopConfiguration())
            addresses = manager_addresses(found.get)
        except Py4JError as fault:
            raise MetricSourceError(f"YARN's configuration cannot be read: {fault}", target="yarn") from fault
        return cls(ResourceManager(addresses), context.applicationId, dict(context.getConf().getAll()))

    def __call__(self) -> ExecutorRoom | None:
        """Return it; None: the application has no executors yet.

        Raises
        ------
        MetricSourceError
            The ResourceManager does not answer, or with something that cannot be read.
        """
        get = self._manager.get
        try:
            app = get(self._path)
            attempts = get(f"{self._path}/appattempts")["appAttempts"]["appAttempt"]
            newest = max(attempts, key=lambda attempt: int(attempt["id"]))
            containers = get(f"{self._path}/appattempts/{newest['appAttemptId']}/containers")
            answers = ClusterAnswers(
                app,
                str(newest["containerId"]),
                containers,
                get("/nodes?states=RUNNING"),
                get("/scheduler"),
                self._are_cores_counted(containers),
            )
            return executor_room(answers, self._label)
        except (
            LookupError,
            TypeError,
            ValueError,
            ArithmeticError,
            AttributeError,
            StopIteration,
            RecursionError,
        ) as fault:
            raise MetricSourceError(
                f"YARN's ResourceManager says something that cannot be read: {type(fault).__name__}: {fault}",
                target="yarn",
            ) from fault

    def _are_cores_counted(self, containers: Mapping[str, Any]) -> bool:
        """Whether the scheduler counts cores. It does not change while a ResourceManager runs, so it is asked once.

        Where the ResourceManager is too old to be asked, a container with several cores shows that it does. Where none
        has several, memory alone is counted: rather ask for an executor that does not come than do without one.
        """
        if self._counts_cores is None:
            try:
                self._counts_cores = "vcores" in resource_types(self._manager.get("/scheduler-overview"))
            except NotKnownError:
                return any(int(one["allocatedVCores"]) > 1 for one in containers.get("container") or ())
        return self._counts_cores


def resource_types(overview: Mapping[str, Any]) -> str:
    """Return what the scheduler counts, from its answer to ``/scheduler-overview``.

    Examples
    --------
    >>> resource_types({"scheduler": {"schedulingResourceType": "[memory-mb (unit=Mi), vcores]"}})
    '[memory-mb (unit=Mi), vcores]'
    """
    inner = [overview, *(value for value in overview.values() if isinstance(value, Mapping))]
    return next(str(one["schedulingResourceType"]) for one in inner if "schedulingResourceType" in one)
