# SPDX-License-Identifier: Apache-2.0
"""A YARN that does not get as far as its first process."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from penstock.adaptors.process.detached import DetachedProcess
from penstock.adaptors.spark.installation import SparkInstallation
from penstock.adaptors.yarn_server import local_cluster
from penstock.adaptors.yarn_server.local_cluster import LocalYarn
from penstock.adaptors.yarn_server.site_files import YarnPlan
from penstock.errors import ConfigurationError


def test_two_starts_at_once_give_one_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The second waits until the first is up, and starts nothing."""
    begun, go_on, started = threading.Event(), threading.Event(), []

    def fetch(*_: object) -> None:
        started.append(1)
        begun.set()
        assert go_on.wait(20.0)

    def is_up(cluster: LocalYarn) -> object:
        return object() if cluster.folder.exists() else None

    monkeypatch.setattr(local_cluster, "why_not_here", lambda: None)
    monkeypatch.setattr(local_cluster, "fetch_hadoop", fetch)
    monkeypatch.setattr(SparkInstallation, "find", lambda *_: None)
    monkeypatch.setattr(local_cluster, "write_plan", lambda *_: None)
    monkeypatch.setattr(DetachedProcess, "start", lambda *_, **__: None)
    monkeypatch.setattr(LocalYarn, "_process", is_up)
    monkeypatch.setattr(LocalYarn, "_wait_until_ready", lambda *_: None)
    monkeypatch.setattr(LocalYarn, "status", lambda cluster: cluster.folder.exists())
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(LocalYarn(tmp_path / "yarn").start, YarnPlan())
        assert begun.wait(20.0)
        second = pool.submit(LocalYarn(tmp_path / "yarn").start, YarnPlan())
        wait([second], timeout=0.2)
        assert not second.done()
        go_on.set()
        assert first.result(20.0)
        assert second.result(20.0)
    assert started == [1]


def test_a_machine_that_cannot_run_it_is_told_before_anything_is_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The reason is the error."""
    monkeypatch.setattr(local_cluster, "why_not_here", lambda: "it needs root")
    with pytest.raises(ConfigurationError, match="needs root"):
        LocalYarn(tmp_path / "yarn").start(YarnPlan())
    assert not (tmp_path / "yarn").exists()
