# SPDX-License-Identifier: Apache-2.0
"""A query that has more than its queue's own part of a real YARN, when others want theirs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.yarn.attached_query import attached_query

from penstock.adaptors.yarn_server.manager_orders import order
from penstock.adaptors.yarn_server.yarn_cluster import YarnCluster, manager_page

pytestmark = pytest.mark.yarn


@contextmanager
def others(queue: str, count: int, memory: int) -> Iterator[None]:
    """Applications of one container each, which do nothing but take room."""
    names = []
    for _ in range(count):
        name = str(order(manager_page(), "POST", "/apps/new-application", {})["application-id"])
        order(
            manager_page(),
            "POST",
            "/apps",
            {
                "application-id": name,
                "application-name": "others",
                "queue": queue,
                "max-app-attempts": 1,
                "am-container-spec": {"commands": {"command": "sleep 3600"}},
                "resource": {"memory": memory, "vCores": 1},
            },
        )
        names.append(name)
    try:
        yield
    finally:
        for name in names:
            order(manager_page(), "PUT", f"/apps/{name}/state", {"state": "KILLED"})


def test_preempted_executors_come_back_when_there_is_room(cluster: YarnCluster, tmp_path: Path) -> None:
    """The query goes on with fewer, is told so, is not asked to grow, and has its executors again afterwards."""
    with attached_query(cluster, tmp_path) as story:
        story.decide(4, 1.0)
        story.settle(4)
        with others("others", 4, 1024):
            story.until(lambda: story.preempted() > 0 and len(story.hosts()) < 4)
            story.until(lambda: any("no node has room for one more" in note for note in story.scaler.notes))
            story.next_batches(2)
            assert story.port.asked() == 4
        story.settle(4)
