# SPDX-License-Identifier: Apache-2.0
"""The example of a pipeline of one's own: windowed counts behind topics, as exact as a direct count at any size."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.dataset as ds
import pytest
import yaml
from tests.e2e.live_run import LiveRun, is_gone

from penstock.arrivals import parse_shape

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(900), pytest.mark.long]

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(("p95", "executors"), [("60s", 1), ("1s", 2)])
def test_the_example_ends_at_the_size_that_its_objective_needs_and_counts_exactly(
    tmp_path: Path, p95: str, executors: int
) -> None:
    """Every window that was written has as many lines as the shape sent in that time, and all early ones are there."""
    spec = yaml.safe_load((EXAMPLES / "windowed-counts.yaml").read_text(encoding="utf-8"))
    spec["objective"] = {"p95": p95}
    shutil.copy(EXAMPLES / "windowed_counts.py", tmp_path)  # beside the settings file, which is where it is found
    with LiveRun(tmp_path / "run", spec) as run:
        result = run.result()
        epoch = json.loads((run.folder / "producer-result.json").read_text(encoding="utf-8"))["epoch"]
        last = {decision.operator: decision.target.executors for decision in run.decisions(changes_only=False)}
        # What a record costs at `counts` shows later, and a plan takes one level at a time: it is still on its way.
        assert last["enrich"] == executors, run.output()
        run.wait_for("nothing is left", lambda: is_gone(run), while_running=False)
    shape = parse_shape(spec["arrivals"]["shape"])
    assert result["records_due"] == result["records_done"] == shape.total

    # Kafka's times are milliseconds.
    sent_ms = (round(epoch * 1e6) + np.rint(shape.times(0, shape.total) * 1e6).astype(np.int64)) // 1000
    expected = Counter((sent_ms // 5000 * 5).tolist())
    rows = ds.dataset(run.folder / "operators" / "counts" / "output", format="parquet", exclude_invalid_files=True)
    found: Counter[int] = Counter()
    for row in rows.to_table().to_pylist():
        assert row["level"] in {"none", "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"}
        found[int(row["start"].timestamp())] += row["count"]
    assert found == {start: count for start, count in expected.items() if start <= max(found)}
    assert len(found) >= len(expected) - 4  # the newest windows are open when the run ends
