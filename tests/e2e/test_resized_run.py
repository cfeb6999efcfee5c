# SPDX-License-Identifier: Apache-2.0
"""An operator that cannot keep up at the top of its limits is restarted with larger executors, and loses nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.live_run import LiveRun

from penstock.knowledge.sqlite import SqliteStore
from penstock.records import Decision, OutcomeStatus

pytestmark = [pytest.mark.long, pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(600)]

# Two milliseconds each: one core does 500 a second less the fixed part of a batch, two do twice that.
# On a busy machine the first batch takes half a minute; what the operator can serve shows in the two after it.
RATE, SECONDS = 600, 75


def settings(**others: Any) -> dict[str, Any]:
    """One executor of one core, which may become one of two."""
    return {
        "name": "resized",
        "arrivals": {"shape": f"constant:rate={RATE},duration={SECONDS}s",
                     "options": {"partitions": "2", "maxRowsPerBatch": "2000"}},
        "operators": [
            {
                "name": "slow",
                "app": "tests.e2e.slow_counter:slow_count",
                "options": {"milliseconds": "2"},
                "executor_memory": "600m",
                "driver_memory": "600m",
                "sizes": [{"cores": 2}],
            }
        ],
        "policy": {"name": "fixed"},
        "resize": {"after": "10s"},
        "window": "8s",
        "warm_up": "4s",
        "drain": "300s",
        **others,
    }  # fmt: skip


def test_an_operator_that_cannot_keep_up_gets_larger_executors(tmp_path: Path) -> None:
    """It stops at a batch border and goes on with two cores: no batch is run twice, every record is counted once."""
    with LiveRun(tmp_path / "run", settings()) as run:
        result = run.result()
        decisions = [d for d in run.decisions() if d.is_restart]
    total = RATE * SECONDS
    assert result["records_due"] == result["records_done"] == total

    operator = result["operators"]["slow"]
    assert (operator["restarts"], operator["resizes"], result["faults"]) == (0, 1, 0), run_text(tmp_path)
    (pause,) = operator["resize_pauses_seconds"]
    assert pause > 0.0

    (decision,) = decisions
    assert decision.verb == "restart larger"
    assert "the backlog grows" in decision.reason
    assert decision.evidence["records_that_will_wait"] == pytest.approx(RATE * 30.0, rel=0.2)
    detail = outcome_detail(tmp_path / "run", decision)
    assert detail.startswith("stopped at a batch border, paused for")

    output = tmp_path / "run" / "operators" / "slow" / "output"
    assert list(output.glob("*.again")) == [], "a batch was run twice"
    numbers = sorted(int(path.stem) for path in output.glob("*.json"))
    assert numbers == list(range(len(numbers))), "batches are missing"
    totals = [sum(json.loads((output / f"{n}.json").read_text()).values()) for n in numbers]
    assert totals == sorted(totals)
    assert totals[-1] == total, "records in the state"
    offsets = (tmp_path / "run" / "operators" / "slow" / "checkpoint" / "commits").glob("[0-9]*")
    assert max(int(path.name) for path in offsets) == numbers[-1]
    log = (tmp_path / "run" / "logs" / "slow.log").read_text()
    assert "the query ended at a batch border" in log


def outcome_detail(folder: Path, decision: Decision) -> str:
    """What became of a decision that was carried out."""
    store = SqliteStore.open_readonly(folder / "knowledge.sqlite")
    try:
        (action,) = [a for a in store.actions(limit=1000) if a.decision_id == decision.decision_id]
        (outcome,) = [o for o in store.outcomes(limit=1000) if o.request_id == action.request_id]
    finally:
        store.close()
    assert outcome.status is OutcomeStatus.DONE
    return outcome.detail


def run_text(folder: Path) -> str:
    """What the command printed, for a failed assertion."""
    return (folder / "run.out").read_text()
