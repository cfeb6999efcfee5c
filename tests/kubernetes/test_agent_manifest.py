# SPDX-License-Identifier: Apache-2.0
"""The manifest of the nodes' agents: each reports to the master of service.yaml, without a right in the cluster."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from tests.kubernetes.api_of_tests import Api
from tests.kubernetes.local_pods import documents_of, localize, pod_template
from tests.kubernetes.local_service import start_service

from penstock.adaptors.kubernetes_server.spark_pods import spark_settings

pytestmark = pytest.mark.kubernetes


def test_a_node_reports_to_the_master(space: Api, tmp_path: Path) -> None:
    """The master lists the agent by the name of its node, as one that holds no executors."""
    service = start_service(space, tmp_path)
    settings = spark_settings(tmp_path / "agent", namespace=space.namespace)
    (document,) = documents_of(space, "agent.yaml")
    pod = document["spec"]["template"]["spec"]
    environment = {"PYTHONPATH": settings["spark.executorEnv.PYTHONPATH"]}
    container = localize(pod, pod_template(settings), environment)
    pod["containers"][0]["args"] = [sys.executable, "-m", "penstock", *container["args"]]
    # This machine's Python may be root's alone. And the cluster has no name service.
    pod["securityContext"] = {}
    pod["hostAliases"] = [{"ip": service.address, "hostnames": [service.name]}]
    space.apply(document)
    found = re.search(r"#token=(\S+)", space.log(service.pod))
    assert found is not None, space.log(service.pod)

    def agents() -> list[str]:
        status, answer = service.ask("/api/v1/agents", found[1])
        assert status == 200, answer
        return [str(agent["name"]) for agent in json.loads(answer)["agents"]]

    (master,) = space.pods_with("app=penstock")
    space.until(lambda: f"host {master.spec.node_name}" in agents(), say=space.words)
    words = [space.log(pod.metadata.name) for pod in space.pods_with("app=penstock-agent")]
    assert any("only measures: it was started with --measure-only" in text for text in words), words
