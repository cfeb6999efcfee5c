# SPDX-License-Identifier: Apache-2.0
"""Executors read from the driver's own tables, without its web page."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from py4j.protocol import Py4JError

from penstock.adaptors.spark.executors_of_driver import ExecutorsOfDriver
from penstock.errors import MetricSourceError

ENTRY = {
    "id": "3",
    "hostPort": "node-2:41234",
    "totalCores": 2,
    "isActive": True,
    "activeTasks": 1,
    "totalDuration": 2500,
    "addTime": "2026-11-18T08:00:00.000GMT",
}
DRIVER = {**ENTRY, "id": "driver", "totalCores": 0}


class FakeContext:
    """A SparkContext whose tables hold what the test says."""

    def __init__(self, said: list[dict[str, Any]] | Exception) -> None:
        self.said = said
        store = SimpleNamespace(executorList=self._list)
        self._jsc: Any = SimpleNamespace(sc=lambda: SimpleNamespace(statusStore=lambda: store))
        writer = SimpleNamespace(mapper=lambda: SimpleNamespace(writeValueAsString=json.dumps))
        v1 = SimpleNamespace(JacksonMessageWriter=lambda: writer)
        spark = SimpleNamespace(status=SimpleNamespace(api=SimpleNamespace(v1=v1)))
        self._jvm = SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(spark=spark)))

    def _list(self, is_active_only: bool) -> list[dict[str, Any]]:
        assert is_active_only
        if isinstance(self.said, Exception):
            raise self.said
        return self.said


def test_executors_are_read_as_the_web_page_would_list_them() -> None:
    """Host, cores and tasks; the driver is none."""
    (found,) = ExecutorsOfDriver(cast("Any", FakeContext([DRIVER, ENTRY])))()
    assert (found.executor_id, found.host, found.cores, found.active_tasks) == ("3", "node-2", 2, 1)
    assert found.task_seconds == 2.5


def test_a_driver_that_fails_is_told() -> None:
    """The next look may find it again."""
    with pytest.raises(MetricSourceError, match="executors cannot be listed"):
        ExecutorsOfDriver(cast("Any", FakeContext(Py4JError("gone"))))()


def test_a_stopped_driver_is_told() -> None:
    """There is nothing to ask."""
    context = FakeContext([])
    context._jsc = None
    with pytest.raises(MetricSourceError, match="was stopped"):
        ExecutorsOfDriver(cast("Any", context)).entries()
