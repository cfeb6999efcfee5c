# SPDX-License-Identifier: Apache-2.0
"""MEAD on a real query: it learns what a batch costs, plans, and takes no more than a level at a time."""

from pathlib import Path
from typing import Any

import pytest
from tests.e2e.live_run import LiveRun, is_gone

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.cgroups, pytest.mark.timeout(1200)]

SHARES = [0.4, 0.55, 1.0]
CALM = ",".join(["12s@20,8s@100"] * 6)
"""Batches of many sizes, so that they teach soon; the lowest share is enough."""
RUSH = "100s@240"
MILLISECONDS = 2.0
"""Of CPU for a line, and up to a fifth of that for its analysis: 0.4 cores do 200 lines a second at the very most."""


def settings(shape: str) -> dict[str, Any]:
    """The analysis of costly lines on one executor: its limit and not the machine says how many it can do.

    At the lowest share at least 40 of the 240 lines a second of the rush have to wait, however little batches and
    analysis cost: 4,000 at its end, which take it 20 s. With the whole core the lines take six tenths of it.
    """
    return {
        "name": "mead",
        "arrivals": {"shape": shape, "options": {"payload": "log"}},
        "operators": [
            {
                "name": "logs",
                "app": "tests.costly_lines:analyse_costly_lines",
                "options": {"milliseconds": str(MILLISECONDS)},
                "cpu_shares": SHARES,
                "executor_memory": "700m",
                "driver_memory": "700m",
            }
        ],
        "objective": {"p95": "15s"},
        "policy": {"name": "mead", "options": {"window": 5000, "every_seconds": "5s", "rescue_every": "2s"}},
        "guards": {"cooldown_down": "4s", "opposite": "8s"},
        "window": "10s",
        "warm_up": "5s",
        "drain": "180s",
    }


def test_mead_learns_plans_and_saves_on_a_real_query(tmp_path: Path) -> None:
    """Decisions rest on what was learnt, every one is a level at most, all records are done, nothing is left."""
    with LiveRun(tmp_path / "run", settings(f"steps:{CALM},{RUSH}")) as run:
        result = run.result()
        decisions = run.decisions()
        planned = [d for d in decisions if "fixed_seconds" in d.evidence]
        assert planned, f"no plan in four minutes:\n{run.output()}"
        assert {d.policy for d in decisions} == {"mead"}
        for decision in planned:
            assert decision.evidence["per_record_seconds"]
            assert decision.reason
        assert result["objective"]["met_steady"], f"the bound was broken:\n{run.output()}"
        downs = [d for d in decisions if d.is_change and not d.is_growth]
        assert downs, "an operator that is nearly idle kept all its CPU"
        for down in downs:
            before, after = (SHARES.index(a.cpu_share) for a in (down.current, down.target))
            assert before - after == 1, f"two levels at once: {down.explain()}"
        assert result["records_due"] == result["records_read"] == result["records_done"]
        assert run.total_counted("logs") == result["records_due"]
        assert result["capacity_seconds"] < result["static_capacity_seconds"]
        run.wait_for("nothing is left", lambda: is_gone(run), while_running=False)
