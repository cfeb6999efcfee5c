# SPDX-License-Identifier: Apache-2.0
"""Translates Spark's progress reports into `BatchProgress`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from penstock.errors import MetricSourceError
from penstock.records import BatchProgress, SourceProgress


def is_batch(progress: Mapping[str, Any]) -> bool:
    """Whether a progress report describes an executed batch.

    A trigger that found nothing to do may be reported too (in Spark below 3.5, and in `recentProgress`). It has no
    rows, carries the id of the batch still to come, and spent no time in `addBatch`. A no-data batch, which Spark runs
    to let state expire, has no rows either, but it was executed and did spend time there.
    """
    return "addBatch" in (progress.get("durationMs") or {})


def to_batch_progress(operator: str, progress: Mapping[str, Any]) -> BatchProgress:
    """Return the batch in a progress report.

    Parameters
    ----------
    operator
        The name of the operator the query belongs to.
    progress
        PySpark's `StreamingQueryProgress`, or the dictionary in its `json`.

    Raises
    ------
    MetricSourceError
        The report lacks what every batch has. The message names the field.
    """
    try:
        durations = {str(name): int(ms) / 1e3 for name, ms in progress["durationMs"].items()}
        started_at = datetime.fromisoformat(progress["timestamp"]).timestamp()
        sources = tuple(_source(source) for source in progress["sources"])
        rows = progress.get("numInputRows")
        states = progress.get("stateOperators") or ()
        return BatchProgress(
            operator=operator,
            query_id=str(progress["id"]),
            run_id=str(progress["runId"]),
            batch_id=int(progress["batchId"]),
            started_at=started_at,
            ended_at=started_at + durations["triggerExecution"],
            rows=sum(source.rows for source in sources) if rows is None else int(rows),
            phase_seconds=durations,
            sources=sources,
            state_rows=sum(int(state["numRowsTotal"]) for state in states) if states else None,
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as fault:
        raise MetricSourceError(
            f"a progress report of {operator} could not be read: {type(fault).__name__}: {fault}", target=operator
        ) from fault


def _source(source: Mapping[str, Any]) -> SourceProgress:
    return SourceProgress(
        description=str(source["description"]),
        start_offset=_offset_text(source.get("startOffset")),
        end_offset=_offset_text(source.get("endOffset")),
        latest_offset=_offset_text(source.get("latestOffset")),
        rows=int(source["numInputRows"]),
    )


def _offset_text(offset: Any) -> str | None:
    """Return an offset as JSON text. A live report carries the text itself, a report read from JSON its value.

    PySpark writes a missing offset of a live report as the text "None".
    """
    if offset is None or offset in ("None", "null", ""):
        return None
    return offset if isinstance(offset, str) else json.dumps(offset, separators=(",", ":"))
