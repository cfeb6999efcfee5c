# SPDX-License-Identifier: Apache-2.0
"""A query that fails in the same way every time ends the run with its own error, and is not restarted on and on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.live_run import LiveRun, is_gone

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(900)]


def spec(app: str, **options: str) -> dict[str, Any]:
    """One operator, and records enough for many batches."""
    return {
        "name": "failing",
        "arrivals": {"shape": "constant:rate=50,duration=10m", "options": {"maxRowsPerBatch": "100"}},
        "operators": [
            {"name": "shop", "app": f"tests.e2e.failing_apps:{app}", "options": options,
             "executor_memory": "600m", "driver_memory": "600m"}
        ],
        "policy": "fixed",
        "restarts": {"most": 5},
    }  # fmt: skip


def lines_of(run: LiveRun, word: str) -> list[str]:
    """What the run said with a word in it, in order."""
    return [line for line in run.output().splitlines() if word in line]


def test_an_exception_of_the_function_is_tried_once_more_and_named(tmp_path: Path) -> None:
    """The first message names error and batch; after the second time at that batch the run ends with the same words."""
    with LiveRun(tmp_path / "run", spec("fails_at_a_record", number="450")) as run:
        assert run.process.wait(600) == 1, run.output()
        first, *others = lines_of(run, "shop: stopped")
        found = re.search(
            r"shop: stopped in batch (\d+): ValueError: record 450 has no price; starting it again", first
        )
        assert found, run.output()
        assert int(found[1]) >= 4  # 100 records a batch at most
        assert len(others) == 1
        assert f"operator shop stopped in batch {found[1]}: ValueError: record 450 has no price" in run.output()
        assert "the same failure at the same batch as before, so it is not started again" in run.output()
        run.wait_for("nothing is left", lambda: is_gone(run), while_running=False)


def test_a_query_that_spark_refuses_while_it_runs_is_not_restarted(tmp_path: Path) -> None:
    """An analysis error that comes only when a batch is planned ends the run at once, at whichever batch that is."""
    with LiveRun(tmp_path / "run", spec("two_watermarks")) as run:
        assert run.process.wait(600) == 1, run.output()
        # Before the controller had seen it run, or after.
        said = r"operator shop (stopped in batch \d+|cannot run): AnalysisException: Redefining watermark is disallowed"
        assert re.search(said, run.output()), run.output()
        assert "starting it again" not in run.output()
