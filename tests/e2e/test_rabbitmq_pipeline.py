# SPDX-License-Identifier: Apache-2.0
"""MEAD's own set-up on a real cluster and broker: RabbitMQ's fanout feeds the log analysis and the monitor."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tests.e2e.live_run import LiveRun, is_gone

from penstock.adaptors.rabbitmq.server import find_rabbitmq
from penstock.errors import ConfigurationError

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.spark,
    pytest.mark.rabbitmq,
    pytest.mark.cgroups,
    pytest.mark.long,
    pytest.mark.timeout(1200),
]

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "log-analysis-rabbitmq.yaml"


def done_by(run: LiveRun, at: float) -> int:
    """How many records were in finished batches at that time."""
    return max((seen.records_done or 0 for seen in run.observations() if seen.at <= at), default=0)


def holds(folder: Path, secret: str) -> list[Path]:
    """Files for people and the store that hold a secret; configuration of the run's own processes is private."""
    told = [*folder.glob("*.sqlite*"), *folder.glob("*.html"), *folder.glob("*.json"), *folder.rglob("*.log")]
    return [path for path in told if path.name != "producer.json" and secret.encode() in path.read_bytes()]


def test_the_example_keeps_its_bound_on_plans_made_from_the_tap(tmp_path: Path) -> None:
    """All records are done once, the bound is kept, and plans know of arrivals that no finished batch has carried."""
    try:
        find_rabbitmq()
    except ConfigurationError as fault:
        pytest.skip(str(fault))
    with LiveRun(tmp_path / "run", yaml.safe_load(EXAMPLE.read_text())) as run:
        run.wait_for("its server is there", (run.folder / "rabbitmq" / "password").exists)
        password = (run.folder / "rabbitmq" / "password").read_text()
        result = run.result()
        output = run.output()
        assert result["records_due"] == result["records_read"] == result["records_done"] > 30_000
        assert run.total_counted("analysis") == result["records_due"]
        assert result["objective"]["met_steady"], f"the bound was broken:\n{output}"

        plans = [d.workload for d in run.decisions(changes_only=False) if d.workload is not None]
        assert plans, f"no plan in three minutes:\n{output}"
        # The window is longer than the load, so its size is what was known to have arrived.
        ahead = [plan.windows[0] + 1 - done_by(run, plan.at) for plan in plans]
        assert max(ahead) > 0, f"every plan waited for batches: {ahead}"
        assert any(plan.is_exact for plan in plans), "no plan rests on the times of all arrivals"
        assert [d for d in run.decisions() if "fixed_seconds" in d.evidence], "no change came from a plan"
        assert result["capacity_seconds"] < result["static_capacity_seconds"]
        assert password not in output
        assert holds(run.folder, password) == []
        run.wait_for("nothing is left", lambda: is_gone(run), while_running=False)
