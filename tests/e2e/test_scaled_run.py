# SPDX-License-Identifier: Apache-2.0
"""The whole product under load: it rises, Penstock scales up; it falls, Penstock scales down; nothing is lost."""

from pathlib import Path
from typing import Any

import pytest
from tests.e2e.live_run import LiveRun, is_gone, kill_9

from penstock.records import Objective

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(1200)]

OBJECTIVE = Objective("p95", 8.0)


def settings(shape: str, *, rows_per_batch: int | None = None, **others: Any) -> dict[str, Any]:
    """The log analysis with few, far levels, so that what is measured stays far from the policy's bounds.

    With `rows_per_batch` there is a batch of that size each second, and the batches pace the run, not the arrivals.

    A batch costs CPU however few records it holds: with this trigger a calm was seen to use 0.15 to 0.3 cores, less
    than the lowest level of half a core.
    """
    limit = {} if rows_per_batch is None else {"maxRowsPerBatch": str(rows_per_batch)}
    return {
        "name": "e2e",
        "arrivals": {"shape": shape, "options": {"payload": "log", **limit}},
        "operators": [
            {
                "name": "logs",
                "app": "penstock.apps.log_analysis:log_analysis",
                "executors": [1, 2],
                "cpu_shares": [0.5, 1.0],
                "trigger": "3s" if rows_per_batch is None else "1s",
                "executor_memory": "700m",
                "driver_memory": "700m",
            }
        ],
        "objective": {"p95": f"{OBJECTIVE.seconds}s"},
        "policy": {"name": "threshold", "options": {"every_seconds": "4s", "upper": 0.9, "lower": 0.5}},
        "guards": {"cooldown_down": "4s", "opposite": "8s"},
        "window": "8s",
        "warm_up": "5s",
        "drain": "180s",
        **others,
    }


def costly(spec: dict[str, Any], *, milliseconds: float) -> dict[str, Any]:
    """The same, where each line takes so much CPU at least: a fast machine did 12,000 plain ones in half a core."""
    operator = {
        **spec["operators"][0],
        "app": "tests.costly_lines:analyse_costly_lines",
        "options": {"milliseconds": str(milliseconds)},
    }
    return {**spec, "operators": [operator]}


@pytest.mark.core
@pytest.mark.cgroups
def test_load_rises_and_falls(tmp_path: Path) -> None:
    """Scaled down in the calm, up in the rush until latency is back under the objective, down again after it."""
    calm, rush, evening = 120, 60, 45  # a first batch was seen to take 50 s on a slow machine
    low, high = 50, 600
    spec = costly(settings(f"steps:{calm}s@{low},{rush}s@{high},{evening}s@{low}"), milliseconds=1.0)
    with LiveRun(tmp_path / "run", spec) as run:
        result = run.result()
        seen = run.observations()
        decisions = run.decisions()
        rates = [(o.at, o.arrival_rate_rows_per_second or 0.0) for o in seen]
        rush_begins = next(at for at, rate in rates if rate > (low + high) / 2)
        rush_ends = rush_begins + rush
        before = [d for d in decisions if d.at < rush_begins]
        during = [d for d in decisions if rush_begins <= d.at < rush_ends]

        in_the_calm = before[-1].target.capacity
        assert in_the_calm < before[0].current.capacity, "the calm was not used to save"
        assert during, "the rush changed nothing"
        assert during[0].is_growth
        at_the_height = max(d.target.capacity for d in during)
        assert at_the_height > in_the_calm
        assert decisions[-1].target.capacity < at_the_height, "it was not scaled down when the load fell"
        assert all(d.reason and d.evidence for d in decisions)

        last_up = max(d.at for d in during if d.is_growth)
        settled = [OBJECTIVE.is_met_by(o.latency) for o in seen if o.at > last_up and o.latency is not None]
        assert settled[-1], "latency did not come back under the objective"

        due = result["records_due"]
        assert due == calm * low + rush * high + evening * low
        assert result["records_read"] == result["records_done"] == due
        assert run.total_counted("logs") == due
        assert 0.5 <= result["cpu_share_mean"] < 1.0
        assert result["capacity_seconds"] < result["static_capacity_seconds"]
        assert {d["operator"] for d in result["decisions"]} == {"logs"}
        run.wait_for("nothing is left", lambda: is_gone(run), while_running=False)


@pytest.mark.kill
def test_executor_and_worker_are_killed_and_every_record_is_counted_once(tmp_path: Path) -> None:
    """An executor, then the only worker, is killed -9 under load: both come back, no record is lost or doubled."""
    records = 30_000
    spec = settings(f"constant:rate={records // 10},duration=10s", rows_per_batch=1000, warm_up="200s", drain="600s")
    with LiveRun(tmp_path / "run", spec) as run:
        run.wait_for("the first batch", lambda: any(o.records_done for o in run.observations()))
        kill_9(run.processes("CoarseGrainedExecutorBackend")[0])
        done = run.observations()[-1].records_done or 0
        run.wait_for("more records done", lambda: (run.observations()[-1].records_done or 0) > done + 2000)
        kill_9(run.processes("org.apache.spark.deploy.worker.Worker")[0])
        result = run.result()
        assert "a new one was started" in run.output()
        assert result["records_due"] == result["records_done"] == records
        assert run.total_counted("logs") == records
        run.wait_for("nothing is left", lambda: is_gone(run), while_running=False)


@pytest.mark.core
@pytest.mark.kill
def test_a_killed_controller_leaves_nothing(tmp_path: Path) -> None:
    """After kill -9 of Penstock no process of the embedded cluster, no operator and no control group stays."""
    with LiveRun(tmp_path / "run", settings("constant:rate=200,duration=300s")) as run:
        run.wait_for("the first batch", lambda: any(o.records_done for o in run.observations()))
        assert run.processes("CoarseGrainedExecutorBackend")
        run.process.kill()
        run.process.wait()
        run.wait_for("nothing is left", lambda: is_gone(run), while_running=False)
