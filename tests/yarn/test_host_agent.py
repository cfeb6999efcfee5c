# SPDX-License-Identifier: Apache-2.0
"""CPU shares by the agent of the nodes' host: a master wants them, and the driver itself holds no container."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.contract.kernel_quotas import capacity_of
from tests.yarn.attached_query import query_of_numbers

import penstock as ps
from penstock.adaptors.cgroups import find_executors
from penstock.adaptors.process.children import Child, Warden
from penstock.adaptors.yarn_server.yarn_cluster import YarnCluster
from penstock.service.master_stores import TOKEN_FILE, StoreFolder

pytestmark = [pytest.mark.yarn, pytest.mark.kill]

PLACE = "127.0.0.1:7071"
PENSTOCK = [sys.executable, "-m", "penstock"]
PATIENCE_SECONDS = 300.0


def until(is_so: Callable[[], object], *children: Child) -> None:
    """Wait; the bound only ends a failing test."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, [child.tail() for child in children]
        time.sleep(0.3)


def test_the_agent_holds_containers_while_a_master_wants_it(
    cluster: YarnCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are there and one that comes in place of a killed one; when the master is gone they are free."""
    store = StoreFolder(tmp_path / "masters")
    store.token()
    token = store.folder / TOKEN_FILE
    monkeypatch.setenv("PENSTOCK_AGENT_TOKEN_FILE", str(token))
    serve = [*PENSTOCK, "serve", "--store", f"sqlite:{store.folder}", "--port", "7070", "--agent-port", "7071"]
    hold = [*PENSTOCK, "agent", "--master", PLACE, "--token-file", str(token)]
    two = {"spark.executor.instances": "2"}
    with Warden() as warden, query_of_numbers(cluster, tmp_path, two) as (spark, query):
        master = warden.start("master", serve, log=tmp_path / "master.log")
        agent = warden.start("agent", hold, log=tmp_path / "agent.log")
        application = str(spark.sparkContext.applicationId)

        def pids() -> dict[str, int]:
            return find_executors(application)

        until(lambda: len(pids()) == 2)
        with ps.attach(
            query,
            executors=(2, 3),
            cpu_shares=(0.25, 1.0),
            mode="act",
            policy="fixed",
            policy_options={"executors": 2, "cpu_share": 0.25, "every_seconds": 1},
            guards="none",
            warm_up_seconds=1.0,
            master=PLACE,
        ):
            until(lambda: capacity_of(pids().values()) == 0.5, master, agent)
            before = pids()
            lost, pid = next(iter(before.items()))
            os.kill(pid, signal.SIGKILL)
            until(lambda: lost not in pids() and len(pids()) == 2, master, agent)
            until(lambda: capacity_of(pids().values()) == 0.5, master, agent)
            os.kill(master.pid, signal.SIGKILL)
            until(lambda: capacity_of(pids().values()) is None, agent)
        assert query.isActive
