# SPDX-License-Identifier: Apache-2.0
"""The example jobs run as they stand, on a cluster, with Penstock acting on them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.example_job import run_example

from penstock.adaptors.spark.cluster import EmbeddedCluster

pytestmark = pytest.mark.spark


@pytest.mark.core
def test_the_example_explains_its_decisions(standalone_cluster: EmbeddedCluster, tmp_path: Path) -> None:
    """The job is watched and scaled, explains itself, and its query is still running after detaching."""
    printed = run_example(
        "attach_to_your_job.py", "--seconds", "45", "--mode", "act", cluster=standalone_cluster, folder=tmp_path
    )
    assert "because " in printed
    assert "(mead)" in printed
    assert "p95 latency: " in printed
    assert "2 executors" in printed


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("p95", "executors"), [("60s", 1), ("1s", 2)])
def test_the_same_stateful_job_ends_at_the_size_that_its_objective_needs(
    standalone_cluster: EmbeddedCluster, tmp_path: Path, p95: str, executors: int
) -> None:
    """One executor will do for a minute; for a second two are the nearest there is."""
    printed = run_example(
        "stateful_lookups.py", "--p95", p95, "--seconds", "200", cluster=standalone_cluster, folder=tmp_path
    )
    assert f"ended with {executors} executor(s) for p95 <= {p95}" in printed, printed
