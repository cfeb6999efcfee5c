# SPDX-License-Identifier: Apache-2.0
"""The elastic policy on a real query: it scales out for a load that rises, in when it falls, and explains both."""

from pathlib import Path
from typing import Any

import pytest
from tests.e2e.live_run import LiveRun, is_gone

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1200)]

CATCH_UP = 60.0


def settings() -> dict[str, Any]:
    """Each core does 200 records a second: two are needed for the minute of the rise, one before and after."""
    return {
        "name": "elastic",
        "arrivals": {"shape": "steps:150s@60,60s@350,60s@60", "options": {"partitions": 6}},
        "operators": [
            {
                "name": "rated",
                "app": "tests.e2e.rated_operator:keep_nothing",
                "options": {"milliseconds": "5"},
                "executors": [1, 3],
                "executor_memory": "600m",
                "driver_memory": "700m",
            }
        ],
        "policy": {"name": "elastic", "options": {"catch_up": "60s"}},
        "guards": {"drain": "30s"},
        "window": "10s",
        "warm_up": "5s",
        "drain": "180s",
    }


def test_it_follows_a_load_on_spark(tmp_path: Path) -> None:
    """Executors go and come with the load, decisions have their numbers, all records are done, nothing is left."""
    with LiveRun(tmp_path / "run", settings()) as run:
        result = run.result()
        decisions = run.decisions(changes_only=False)
        changes = [d for d in decisions if d.is_change]
        assert {d.policy for d in decisions} == {"elastic"}
        assert any(not d.is_growth for d in changes), f"nothing was given back:\n{run.output()}"
        assert any(d.is_growth for d in changes), f"nothing was added:\n{run.output()}"
        for change in changes:
            assert "records/s" in change.reason
            assert change.evidence["sustained_low"]
        assert any("measurements" in str(d.evidence.get("known_by")) for d in decisions), "no batch gave a sample"
        assert result["records_due"] == result["records_read"] == result["records_done"]
        assert result["executor_seconds"] < 0.95 * result["static_capacity_seconds"]
        run.wait_for("nothing is left", lambda: is_gone(run), while_running=False)
