# SPDX-License-Identifier: Apache-2.0
"""A query that has more than its queue's own part of a real YARN, when others want theirs."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.yarn.attached_query import attached_query

from penstock.adaptors.yarn_server.yarn_cluster import YarnCluster, manager_page

pytestmark = pytest.mark.yarn


def send(method: str, path: str, body: Any) -> dict[str, Any]:
    """Send an order to the ResourceManager, and return its answer."""
    request = urllib.request.Request(
        f"{manager_page()}/ws/v1/cluster{path}",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", "Accept": "application/json"},
        method=method,
    )
    with urllib.request.urlopen(request, timeout=30) as reply:
        text = reply.read()
    return json.loads(text) if text else {}


@contextmanager
def others(queue: str, count: int, memory: int) -> Iterator[None]:
    """Applications of one container each, which do nothing but take room."""
    names = []
    for _ in range(count):
        name = str(send("POST", "/apps/new-application", {})["application-id"])
        send(
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
            send("PUT", f"/apps/{name}/state", {"state": "KILLED"})


def test_preempted_executors_come_back_when_there_is_room(cluster: YarnCluster, tmp_path: Path) -> None:
    """The query goes on with fewer, is told so, is not asked to grow, and has its executors again afterwards."""
    with attached_query(cluster, tmp_path) as story:
        story.decide(4, 1.0)
        story.settle(4)
        with others("others", 4, 1024):
            story.until(lambda: story.preempted() > 0 and len(story.hosts()) < 4)
            story.until(lambda: any("no node has room for one more" in note for note in story.scaler.notes))
            story.next_batches(2)
            assert story.control.requested_total() == 4
        story.settle(4)
