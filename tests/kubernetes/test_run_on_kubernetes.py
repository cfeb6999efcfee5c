# SPDX-License-Identifier: Apache-2.0
"""`penstock run` with a k8s:// master: load rises and falls, MEAD keeps its bound, a pod is killed, nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kubernetes.api_of_tests import Api
from tests.surging_run import Surroundings, check_surging_run

from penstock.adaptors.kubernetes_server.node_plan import ADDRESS
from penstock.adaptors.kubernetes_server.spark_pods import MASTER, spark_settings

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(2700)]

LIMITS = {"spark.kubernetes.executor.request.cores": "300m", "spark.kubernetes.executor.limit.cores": "600m"}


def executors(api: Api) -> list[str]:
    """The names of the executors' pods that run, the oldest first."""
    pods = api.pods_with("spark-role=executor")
    return [pod.metadata.name for pod in sorted(pods, key=lambda pod: pod.metadata.creation_timestamp)]


def test_load_rises_and_falls_and_a_pod_is_killed(api: Api, driver_login: None, tmp_path: Path) -> None:
    """Less in the calm, more in the rush, by shares and executors; the bound holds, each record is done once."""
    there = Surroundings(
        MASTER,
        {**spark_settings(tmp_path, namespace=api.namespace, writable=[tmp_path]), **LIMITS},
        (0.5, 1.0),
        lambda: executors(api),
        api.delete_pod,
        {"SPARK_LOCAL_IP": ADDRESS},
    )
    check_surging_run(tmp_path / "run", there)
    api.until(lambda: not executors(api))
