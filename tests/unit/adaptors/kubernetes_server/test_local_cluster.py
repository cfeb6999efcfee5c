# SPDX-License-Identifier: Apache-2.0
"""A cluster that does not get as far as its first process."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from penstock.adaptors.kubernetes_server import local_cluster
from penstock.adaptors.kubernetes_server.distribution import Distribution
from penstock.adaptors.kubernetes_server.local_cluster import LocalCluster
from penstock.adaptors.kubernetes_server.node_plan import NodePlan
from penstock.errors import ClusterError, ConfigurationError


@pytest.fixture
def _can_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(local_cluster, "why_not_here", lambda: None)
    monkeypatch.setattr(local_cluster, "fetch_kubernetes", lambda _: Distribution(tmp_path / "programs", "1.34.4"))
    monkeypatch.setattr(local_cluster, "sweep_groups", list)


@pytest.mark.usefixtures("_can_start")
def test_ctrl_c_before_its_first_process_leaves_no_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its keys take a moment to make: nothing of it is left when the user ends it then."""

    def interrupt(plan: NodePlan) -> None:
        (plan.folder / "keys").mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr(NodePlan, "write", interrupt)
    with pytest.raises(KeyboardInterrupt):
        LocalCluster(tmp_path / "cluster").start()
    assert not (tmp_path / "cluster").exists()


@pytest.mark.usefixtures("_can_start")
def test_a_folder_of_the_users_own_is_left_alone(tmp_path: Path) -> None:
    """A folder that holds something else is refused, and keeps it."""
    (tmp_path / "data").write_text("mine")
    with pytest.raises(ConfigurationError, match="holds something else"):
        LocalCluster(tmp_path).start()
    assert (tmp_path / "data").read_text() == "mine"


def test_what_needs_a_running_cluster_says_how_to_start_it(tmp_path: Path) -> None:
    """A program cannot be run inside a network that is not there."""
    with pytest.raises(ClusterError, match="start it with: penstock kubernetes start"):
        LocalCluster(tmp_path / "cluster").command(["true"])


@pytest.mark.usefixtures("_can_start")
def test_two_starts_at_once_give_one_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The second waits until the first is up, and starts nothing."""
    begun, go_on, started = threading.Event(), threading.Event(), []

    def write(plan: NodePlan) -> None:
        started.append(plan.folder)
        begun.set()
        assert go_on.wait(20.0)

    def is_up(cluster: LocalCluster) -> object:
        return object() if (cluster.folder / "up").exists() else None

    monkeypatch.setattr(NodePlan, "write", write)
    monkeypatch.setattr(LocalCluster, "_process", is_up)
    monkeypatch.setattr(LocalCluster, "_start_keeper", lambda cluster: (cluster.folder / "up").touch())
    monkeypatch.setattr(LocalCluster, "_wait_until_ready", lambda *_: None)
    monkeypatch.setattr(LocalCluster, "status", lambda cluster: (cluster.folder / "up").exists())
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(LocalCluster(tmp_path / "cluster").start)
        assert begun.wait(20.0)
        second = pool.submit(LocalCluster(tmp_path / "cluster").start)
        wait([second], timeout=0.2)
        assert not second.done()
        go_on.set()
        assert first.result(20.0)
        assert second.result(20.0)
    assert started == [tmp_path / "cluster"]
