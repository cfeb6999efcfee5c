# SPDX-License-Identifier: Apache-2.0
"""`penstock run` on a real YARN, end to end: load rises and falls, MEAD sizes, and a container is killed meanwhile."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.surging_run import Surroundings, check_surging_run
from tests.yarn.attached_query import SETTINGS

from penstock.adaptors.cgroups import find_executors
from penstock.adaptors.yarn_server.yarn_cluster import YarnCluster

pytestmark = [pytest.mark.yarn, pytest.mark.kill, pytest.mark.timeout(2700)]

OF_YARN = {name: SETTINGS[name] for name in ("spark.yarn.queue", "spark.yarn.am.memory", "spark.yarn.maxAppAttempts")}


def applications(cluster: YarnCluster, states: str = "ACCEPTED,RUNNING") -> list[dict[str, Any]]:
    """What runs on the cluster."""
    found = cluster.ask(f"/apps?states={states}")["apps"]
    return list((found or {}).get("app") or ())


def executors(cluster: YarnCluster) -> dict[str, int]:
    """The processes of the application's executors."""
    return {name: pid for one in applications(cluster) for name, pid in find_executors(one["id"]).items()}


def test_load_rises_and_falls_and_a_container_is_killed(cluster: YarnCluster, tmp_path: Path) -> None:
    """Less in the calm, more in the rush, by shares and executors; the bound holds, each record is done once."""
    before = {one["id"] for one in applications(cluster, "FINISHED")}
    there = Surroundings(
        "yarn",
        {**cluster.spark_settings(), **OF_YARN},
        (0.3, 0.6),
        lambda: sorted(executors(cluster), key=int),
        lambda name: os.kill(executors(cluster)[name], signal.SIGKILL),
    )
    check_surging_run(tmp_path / "run", there)
    assert not applications(cluster)
    (ended,) = [one for one in applications(cluster, "FINISHED") if one["id"] not in before]
    assert ended["finalStatus"] == "SUCCEEDED"
