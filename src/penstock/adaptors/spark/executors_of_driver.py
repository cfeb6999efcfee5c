# SPDX-License-Identifier: Apache-2.0
"""The executors as the driver's own tables have them, read through Py4J.

On YARN the driver's web page cannot be asked: it sends everybody on to YARN's proxy who does not come from there, also
the driver itself. The proxy may want a login, and is away when the ResourceManager is.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock.adaptors.spark.executors import executor_states
from penstock.errors import MetricSourceError
from penstock.records import ExecutorState

if TYPE_CHECKING:
    from pyspark import SparkContext


class ExecutorsOfDriver:
    """Reads the executors of the SparkContext of this process: what its REST interface would list."""

    def __init__(self, spark_context: SparkContext) -> None:
        self._context = spark_context
        self._writer: Any = None

    def __call__(self) -> tuple[ExecutorState, ...]:
        """Return the live executors.

        Raises
        ------
        MetricSourceError
            The driver does not answer.
        """
        return executor_states(self.entries())

    def entries(self) -> list[dict[str, Any]]:
        """Return what the REST interface would list, as it is; raises MetricSourceError likewise."""
        from py4j.protocol import Py4JError

        try:
            context, jvm = self._context._jsc, self._context._jvm
            if context is None or jvm is None:
                raise MetricSourceError("executors cannot be listed: the SparkContext was stopped", target="spark")
            if self._writer is None:
                # What the REST interface itself writes its answers with.
                self._writer = jvm.org.apache.spark.status.api.v1.JacksonMessageWriter().mapper()
            text = self._writer.writeValueAsString(context.sc().statusStore().executorList(True))
            return [dict(entry) for entry in json.loads(text)]
        except (Py4JError, OSError, ValueError) as fault:
            raise MetricSourceError(
                f"executors cannot be listed: the driver failed with {type(fault).__name__}: {fault}",
                target="spark",
                retryable=True,
            ) from fault
