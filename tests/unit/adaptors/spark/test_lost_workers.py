# SPDX-License-Identifier: Apache-2.0
"""Workers of the embedded cluster that are lost, with a toy warden and no Spark."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.adaptors.process.children import Child, Warden
from penstock.adaptors.spark.cluster import EmbeddedCluster
from penstock.errors import ClusterError


class ToyWarden:
    """Starts nothing, and refuses when it is told to."""

    def __init__(self) -> None:
        self.refuses = False

    def start(self, name: str, argv: list[str], **_: Any) -> Child:
        """Give a child, or refuse."""
        if self.refuses:
            raise ClusterError(f"{name} could not be started: no memory", target=name)
        return Child(name, name, 1, Path("log"), threading.Condition())


def test_a_worker_whose_start_fails_is_started_at_the_next_look(tmp_path: Path) -> None:
    """It is still known as lost."""
    warden = ToyWarden()
    cluster = EmbeddedCluster(cast(Warden, warden), tmp_path, workers=1)
    cluster._port = 1
    lost = cluster._start_worker(cluster._sites.workers[0])
    cluster._workers = [lost]
    lost.returncode = -9
    warden.refuses = True
    with pytest.raises(ClusterError, match="no memory"):
        cluster.replace_lost_workers()
    warden.refuses = False
    assert cluster.replace_lost_workers() == [lost.name]
    assert [worker.returncode for worker in cluster._workers] == [None]
    assert cluster.replace_lost_workers() == []
