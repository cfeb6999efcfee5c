# SPDX-License-Identifier: Apache-2.0
"""gesscale+ on a real geo cluster: executors come to the nodes nearest to the driver, and the farther goes again."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.live_run import LiveRun, is_gone
from tests.integration.geo_root import needs_namespaces

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1800), needs_namespaces]

NEAR, MIDDLE, FAR = "near", "middle", "far"


def settings() -> dict[str, Any]:
    """For minutes far more rides than a node of half a core can take, between calm times that a single node can do."""
    return {
        "name": "rides",
        "cluster": {
            "geo": {
                "nodes": {FAR: 0.5, MIDDLE: 0.5, NEAR: 0.5},  # the nearest last: the order is no reason to take it
                "round_trips": {
                    "home:near": "5ms", "home:middle": "40ms", "home:far": "250ms", "near:middle": "40ms",
                    "near:far": "250ms", "middle:far": "250ms",
                },
            }
        },
        "arrivals": {
            "shape": "steps:30s@50,60s@20000,1400s@200",
            "options": {"payload": "taxi-ride", "partitions": 3, "maxRowsPerBatch": "6000"},
        },
        "operators": [
            {
                "name": "taxi",
                "app": "penstock.apps.taxi_attractions:taxi_attractions",
                "executors": [1, 2],
                "first_executors": 1,
                "cpu_shares": [1.0],
                "executor_memory": "512m",
                "driver_memory": "700m",
            }
        ],
        "policy": {"name": "gesscale+", "options": {"every_seconds": "5s"}},
        "window": "10s",
        "warm_up": "5s",
    }  # fmt: skip


def test_executors_come_to_the_near_nodes_as_the_load_rises_and_the_farther_goes_as_it_falls(tmp_path: Path) -> None:
    """One on the nearest node first, then one beside it on the next, then the nearest alone; and nothing is left."""
    with LiveRun(tmp_path / "run", settings()) as run:

        def stands_on(*nodes: str) -> Callable[[], bool]:
            wanted = tuple(sorted((node, 1) for node in nodes))
            return lambda: any(
                seen.cluster.observed is not None and seen.cluster.observed.nodes == wanted
                for seen in run.observations()[-5:]
            )

        run.wait_for("a first look", lambda: bool(run.observations()))
        run.wait_for("one executor on the nearest node", stands_on(NEAR))
        run.wait_for("a decision for more", lambda: any(d.is_growth for d in run.decisions()))
        run.wait_for("executors on both near nodes", stands_on(NEAR, MIDDLE))
        growth = next(d for d in run.decisions() if d.is_growth)
        assert growth.target.nodes == ((MIDDLE, 1), (NEAR, 1))
        assert growth.evidence["samples"]
        explained = subprocess.run(
            [sys.executable, "-m", "penstock", "explain", str(tmp_path / "run"), "--json"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        shown = json.loads(explained.stdout)
        assert shown["decisions"][0]["target"]["nodes"] == [[MIDDLE, 1], [NEAR, 1]]
        assert {(a, b) for a, b, _ in shown["round_trips"]} >= {("home", NEAR), (NEAR, FAR)}
        run.wait_for(  # what waits is worked off before
            "a decision for less",
            lambda: any(d.is_change and not d.is_growth for d in run.decisions()),
            patience_seconds=600.0,
        )
        less = next(d for d in run.decisions() if d.is_change and not d.is_growth)
        assert less.target.nodes == ((NEAR, 1),)
        run.wait_for("the nearest node alone", stands_on(NEAR))
        assert (run.observations()[-1].backlog_records or 0) < 6000  # a batch: all that waited is done
    run.wait_for("nothing is left", lambda: is_gone(run), while_running=False)
