# SPDX-License-Identifier: Apache-2.0
"""A whole run that a master decides for: two masters, and the one that leads is killed while the run goes on."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.live_run import LiveRun
from tests.integration.test_master_on_spark import Masters

from penstock.records import Decision
from penstock.service.master_stores import TOKEN_FILE

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kill, pytest.mark.long, pytest.mark.timeout(600)]
SECONDS = 120


def settings() -> dict[str, Any]:
    """An operator that has more than it needs: `threshold` takes an executor away."""
    return {
        "name": "words",
        "arrivals": {"shape": f"constant:rate=200,duration={SECONDS}s", "options": {"payload": "log"}},
        "operators": [
            {
                "name": "logs",
                "app": "penstock.apps.log_analysis:log_analysis",
                "executors": [1, 2],
                "cpu_shares": [1.0],
                "trigger": "2s",
                "executor_memory": "700m",
                "driver_memory": "700m",
            }
        ],
        "objective": {"p95": "60s"},
        "policy": {"name": "threshold", "options": {"every_seconds": "4s", "upper": 0.99, "lower": 0.9}},
        "guards": {"cooldown_down": "4s", "opposite": "8s"},
        "window": "8s",
        "warm_up": "5s",
        "drain": "180s",
    }


def test_a_master_decides_for_a_run_and_another_goes_on(tmp_path: Path) -> None:
    """It takes an executor away, by the run's own loop; the next leader has the run again, and every record is done."""
    masters = Masters(tmp_path)
    token = {"PENSTOCK_AGENT_TOKEN_FILE": str(masters.store.folder / TOKEN_FILE)}
    try:
        with LiveRun(tmp_path / "run", settings(), "--master", masters.places, environment=token) as run:

            def asked() -> list[Decision]:
                return [one for one in run.decisions() if one.policy == "master" and one.is_change]

            run.wait_for("a size that the master asked for", lambda: bool(asked()))
            leader = str(masters.ask("agents")["leader"])
            process = masters.processes[int(leader.rpartition(":")[2])]
            process.send_signal(signal.SIGKILL)
            process.wait()

            def has_another() -> bool:
                view = masters.ask("agents")
                return view.get("leader") not in (None, leader) and [a["name"] for a in view["agents"]] == ["words"]

            run.wait_for("another leader", has_another)
            result = run.result()
            first = asked()[0]
        assert first.target.executors == 1
        assert result["records_read"] == result["records_done"] == result["records_due"] == 200 * SECONDS
        history = masters.store.open_readonly("words")
        decided = {one.decision_id: one for one in history.decisions("logs", limit=10_000)}
        latency = history.observations("logs", limit=1)[-1].latency
        history.close()
        assert latency is not None
        assert latency.is_exact, "the run knows when records arrived, and says so"
        assert decided[str(first.evidence["decision_of_the_master"])].policy == "threshold"
    finally:
        masters.close()
