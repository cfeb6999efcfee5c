# SPDX-License-Identifier: Apache-2.0
"""Executors that ask for a node label, on a real YARN where one node has it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.yarn.attached_query import attached_query
from tests.yarn.conftest import LABEL, PLAN

from penstock.adaptors.yarn_server.yarn_cluster import YarnCluster

pytestmark = pytest.mark.yarn

MOST = 4
ROOM = 2
"""Executors of 512 MB and 384 MB besides, on a node with 2560 MB."""


def test_executors_come_to_nodes_with_the_label_and_no_more_are_planned_for(
    cluster: YarnCluster, tmp_path: Path
) -> None:
    """The other nodes have room for more, and are neither counted nor used; the master is on one of them."""
    settings = {"spark.yarn.executor.nodeLabelExpression": LABEL}
    with attached_query(cluster, tmp_path, most=MOST, settings=settings) as story:
        story.until(lambda: any("the cluster gives at most" in note for note in story.scaler.notes))
        (less,) = [note for note in story.scaler.notes if "the cluster gives at most" in note]
        assert f"at most {ROOM} executors now, and {MOST} are allowed" in less
        assert f"with the label {LABEL}" in less
        story.decide(MOST, 1.0)
        story.settle(ROOM)
        assert story.port.asked() == ROOM
        assert set(story.hosts().values()) == set(PLAN.labels)
        master = cluster.ask(f"/apps/{story.application}")["app"]["amHostHttpAddress"].rpartition(":")[0]
        assert master not in PLAN.labels
        story.next_batches(2)
