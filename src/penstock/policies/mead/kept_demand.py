# SPDX-License-Identifier: Apache-2.0
"""What an operator's batches, or its windows of CPU, have taught, as a text that a later run can begin with."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence

from penstock.errors import ConfigurationError
from penstock.performance.batch_memory import RememberedBatch
from penstock.performance.cpu_demand_learning import CpuMemory
from penstock.performance.demand import check_allocation
from penstock.records import Allocation

_VERSION = 1
_LOG = logging.getLogger(__name__)
_UNREADABLE = (ValueError, TypeError, KeyError, OverflowError, RecursionError, ConfigurationError)


def note_name(operator: str) -> str:
    """Under which name the text is kept."""
    return f"batches of {operator}"


def cpu_note_name(operator: str) -> str:
    """Under which name the text of an operator in real-time mode is kept."""
    return f"CPU of {operator}"


def as_text(query: str, batches: Sequence[RememberedBatch]) -> str:
    """Batches as a text, with the query that they are of."""
    rows = [
        [round(b.at, 3), b.rows, round(b.seconds, 6), b.allocation.executors, b.allocation.cpu_share, round(b.youth, 3)]
        for b in batches
    ]
    return json.dumps({"version": _VERSION, "query": query, "batches": rows})


def from_text(query: str, text: str | None) -> tuple[RememberedBatch, ...]:
    """The batches of a text; none where it is of another query, or cannot be read."""
    if text is None:
        return ()
    try:
        kept = json.loads(text)
        if kept["version"] != _VERSION or kept["query"] != query:
            return ()
        return tuple(_batch(row) for row in kept["batches"])
    except _UNREADABLE:
        _LOG.warning("what earlier batches taught cannot be read, and is learnt anew", exc_info=True)
        return ()


def _batch(row: Sequence[float]) -> RememberedBatch:
    at, rows, seconds, executors, share, youth = row
    allocation = check_allocation(Allocation(int(executors), float(share)))
    if not (int(rows) > 0 and 0.0 < float(seconds) < 1e9 and float(youth) >= 0.0):
        raise ConfigurationError(f"batch: {rows} records in {seconds} s is none", field="batches")
    return RememberedBatch(float(at), int(rows), float(seconds), allocation, float(youth))


def cpu_as_text(query: str, memory: CpuMemory) -> str:
    """Windows of CPU as a text, with the query that they are of."""
    sums = [memory.weights, memory.weights_squared, memory.cores, memory.records, *memory.squares]
    return json.dumps({"version": _VERSION, "query": query, "windows": sums})


def cpu_from_text(query: str, text: str | None) -> CpuMemory | None:
    """The windows of a text; None where there are none, it is of another query, or cannot be read."""
    if text is None:
        return None
    try:
        kept = json.loads(text)
        if kept["version"] != _VERSION or kept["query"] != query:
            return None
        weights, weights_squared, used, arrived, *squares = (float(one) for one in kept["windows"])
        cores, both, records = squares
        return CpuMemory(weights, weights_squared, used, arrived, (cores, both, records))
    except _UNREADABLE:
        _LOG.warning("what earlier windows of CPU taught cannot be read, and is learnt anew", exc_info=True)
        return None
