# SPDX-License-Identifier: Apache-2.0
"""`penstock run` with a k8s:// master: load rises and falls, a pod is deleted, every record is counted once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.e2e.live_run import LiveRun
from tests.kubernetes.api_of_tests import Api

from penstock.adaptors.kubernetes_server.node_plan import ADDRESS
from penstock.adaptors.kubernetes_server.spark_pods import MASTER, spark_settings

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(1200)]

CALM, RUSH, EVENING, LOW, HIGH = 60, 60, 30, 200, 6000


def settings(folder: Path, api: Api) -> dict[str, Any]:
    """The log analysis on one to two executors of 0.8 cores, with few, far levels."""
    return {
        "name": "on-kubernetes",
        "cluster": {"master": MASTER},
        "arrivals": {
            "shape": f"steps:{CALM}s@{LOW},{RUSH}s@{HIGH},{EVENING}s@{LOW}",
            "options": {"payload": "log"},
        },
        "operators": [
            {
                "name": "logs",
                "app": "penstock.apps.log_analysis:log_analysis",
                "executors": [1, 2],
                "cpu_shares": [0.5, 1.0],
                "trigger": "3s",
                "executor_memory": "700m",
                "driver_memory": "700m",
                "spark": {
                    **spark_settings(folder, namespace=api.namespace, writable=[folder]),
                    "spark.kubernetes.executor.request.cores": "400m",
                    "spark.kubernetes.executor.limit.cores": "800m",
                },
            }
        ],
        "objective": {"p95": "8s"},
        "policy": {"name": "threshold", "options": {"every_seconds": "4s", "upper": 0.9, "lower": 0.5}},
        "guards": {"cooldown_down": "4s", "opposite": "8s"},
        "window": "8s",
        "warm_up": "5s",
        "drain": "300s",
    }


def executors(api: Api) -> list[str]:
    """The names of the executors' pods that run."""
    return [pod.metadata.name for pod in api.pods_with("spark-role=executor")]


def test_load_rises_and_falls_and_a_pod_is_deleted(api: Api, driver_login: None, tmp_path: Path) -> None:
    """Less in the calm, more in the rush, shares and executors as pods; all records are done, once; no pod is left."""
    with LiveRun(tmp_path / "run", settings(tmp_path, api), environment={"SPARK_LOCAL_IP": ADDRESS}) as run:
        run.wait_for("it is scaled down", lambda: any(not d.is_growth for d in run.decisions()))
        run.wait_for("it is scaled up", lambda: any(d.is_growth for d in run.decisions()))
        run.wait_for("executors run", lambda: bool(executors(api)))
        api.delete_pod(executors(api)[0])
        result = run.result()
        decisions = run.decisions()
        assert {d.target.cpu_share for d in decisions} == {0.5, 1.0}, [d.explain() for d in decisions]
        due = CALM * LOW + RUSH * HIGH + EVENING * LOW
        assert result["records_due"] == result["records_read"] == result["records_done"] == due
        assert run.total_counted("logs") == due
        assert result["capacity_seconds"] < result["static_capacity_seconds"]
    api.until(lambda: not executors(api))
