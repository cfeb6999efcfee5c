# SPDX-License-Identifier: Apache-2.0
"""The controller beside the driver: job.yaml's driver reports to a master of service.yaml in the same cluster."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.api_of_tests import Api
from tests.kubernetes.local_pods import ACCOUNT, start_job
from tests.kubernetes.local_service import AGENTS, start_service

pytestmark = pytest.mark.kubernetes

WHOLE = 0.8
"""The limit of the example's executors, in cores."""


def test_a_driver_in_a_pod_is_scaled_by_a_master_in_the_cluster(space: Api, tmp_path: Path) -> None:
    """The master lists the query; its policy sets a share, and so does an order; without it executors are free.

    The driver resizes its executors' pods. The master has no login in the cluster.
    """
    service = start_service(space, tmp_path)
    start_job(
        space,
        tmp_path,
        *("--policy", "threshold", "--rate", "100", "--master", f"{service.name}:{AGENTS}"),
        change=service.make_agent,
    )
    found = re.search(r"#token=(\S+)", space.log(service.pod))
    assert found is not None, space.log(service.pod)
    token = found[1]

    def ask(path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        status, answer = service.ask(f"/api/v1/{path}", token, body)
        assert status == 200, answer
        known: dict[str, Any] = json.loads(answer)
        return known

    space.until_executors_have(0.5 * WHOLE)
    assert [one["name"] for one in ask("pipelines")["pipelines"]] == ["counts"]
    (agent,) = ask("agents")["agents"]
    (driver,) = space.pods_with("app=counts")
    assert agent["name"] == "counts"
    assert agent["address"].rpartition(":")[0] == driver.status.pod_ip
    decided = ask("pipelines/counts/decisions?changes_only=true")["decisions"][0]
    assert (decided["policy"], decided["target"]["cpu_share"]) == ("threshold", 0.5)

    order = {"executors": 1, "cpu_share": 0.75, "for_seconds": 3600, "reason": "a try", "by": "ana"}
    ask("pipelines/counts/size", order)
    space.until_executors_have(0.75 * WHOLE)

    space.apps.delete_namespaced_deployment("penstock", space.namespace)
    space.until_executors_have(WHOLE)
    (still,) = space.pods_with("app=counts")
    assert still.metadata.name == driver.metadata.name
    assert still.status.container_statuses[0].restart_count == 0
    refused = space.refused_calls_of(ACCOUNT)
    assert not refused, refused[:3]
    space.apps.delete_namespaced_deployment("counts", space.namespace)
    space.until_empty()
