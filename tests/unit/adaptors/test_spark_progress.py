# SPDX-License-Identifier: Apache-2.0
"""Progress reports recorded from Spark 4.3, translated."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.listener import StreamingQueryProgress

from penstock.adaptors.spark.progress import is_batch, to_batch_progress
from penstock.errors import MetricSourceError

RECORDED = Path(__file__).parent / "recorded"


def recorded(name: str) -> dict[str, Any]:
    """A recorded report."""
    report: dict[str, Any] = json.loads((RECORDED / f"{name}.json").read_text())
    return report


def test_a_batch_is_translated_with_its_times_in_seconds_since_the_epoch() -> None:
    """A batch starts at its trigger and ends when the trigger's work is done, in seconds."""
    batch = to_batch_progress("counter", recorded("progress_rate_stateful"))
    start = datetime(2026, 11, 15, 19, 45, 36, 107000, tzinfo=UTC).timestamp()
    assert batch.operator == "counter"
    assert batch.query_id == "bb3abede-c831-48c5-9652-e6320a2f8ece"
    assert batch.run_id == "ac1f2e13-e83f-463c-8b3e-3969a2b9f89c"
    assert batch.batch_id == 2
    assert batch.started_at == pytest.approx(start)
    assert batch.ended_at == pytest.approx(start + 2.437)
    assert batch.rows == 200
    assert batch.phase_seconds["addBatch"] == pytest.approx(2.181)
    assert batch.state_rows == 10


def test_offsets_are_kept_as_json_text() -> None:
    """Offsets become JSON text, whether a number, an object or absent."""
    (rate,) = to_batch_progress("a", recorded("progress_rate_stateful")).sources
    assert (rate.start_offset, rate.end_offset, rate.latest_offset, rate.rows) == ("18", "22", "22", 200)
    (files,) = to_batch_progress("a", recorded("progress_files_first_batch")).sources
    assert (files.start_offset, files.end_offset, files.latest_offset) == (None, '{"logOffset":0}', None)


def test_a_live_report_gives_the_same_batch_as_its_json() -> None:
    """PySpark's own object, whose offsets are text and may read "None", is read like its JSON."""
    plain = recorded("progress_files_first_batch")
    live = StreamingQueryProgress.fromJson(recorded("progress_files_first_batch"))
    source = dict(live["sources"][0], startOffset="None", endOffset='{"logOffset":0}', latestOffset="None")
    live["sources"] = [source]
    assert to_batch_progress("a", live) == to_batch_progress("a", plain)


def test_an_offset_object_keeps_its_fields_in_order() -> None:
    """The offset of a replayed trace keeps its exact integers."""
    report = recorded("progress_rate_stateful")
    report["sources"][0]["endOffset"] = {"epoch_us": 1763235936107001, "index": 12}
    (source,) = to_batch_progress("a", report).sources
    assert source.end_offset == '{"epoch_us":1763235936107001,"index":12}'


def test_a_no_data_batch_is_a_batch_of_no_rows() -> None:
    """A batch Spark ran to let state expire counts, with zero rows."""
    report = recorded("progress_files_no_data")
    assert is_batch(report)
    assert to_batch_progress("a", report).rows == 0


def test_an_idle_trigger_is_not_a_batch() -> None:
    """A trigger that executed nothing is told by its phases, whatever batch id it carries."""
    idle = recorded("progress_files_no_data") | {"durationMs": {"latestOffset": 4, "triggerExecution": 5}}
    assert not is_batch(idle)
    assert not is_batch(idle | {"durationMs": {}})


def test_rows_are_summed_over_sources_where_the_total_is_missing() -> None:
    """Without numInputRows the rows are those of the sources, not zero."""
    report = recorded("progress_rate_stateful")
    del report["numInputRows"]
    report["sources"].append(dict(report["sources"][0], numInputRows=5))
    assert to_batch_progress("a", report).rows == 205


def test_a_stateless_query_has_unknown_state() -> None:
    """Without state operators the number of state rows is not known, not zero."""
    assert to_batch_progress("a", recorded("progress_rate_stateful") | {"stateOperators": []}).state_rows is None


@pytest.mark.parametrize("field", ["timestamp", "batchId", "durationMs", "sources", "runId"])
def test_a_report_that_lacks_a_field_is_refused_by_name(field: str) -> None:
    """A broken report raises an error that names what is missing."""
    report = recorded("progress_rate_stateful")
    del report[field]
    with pytest.raises(MetricSourceError, match=field):
        to_batch_progress("a", report)
