# SPDX-License-Identifier: Apache-2.0
"""What an operator's batches have taught, as a text that a later run can begin with."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence

from penstock.errors import ConfigurationError
from penstock.performance.batch_memory import RememberedBatch
from penstock.performance.demand import check_allocation
from penstock.records import Allocation

_VERSION = 1
_LOG = logging.getLogger(__name__)


def note_name(operator: str) -> str:
    """Under which name the text is kept."""
    return f"batches of {operator}"


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
    except (ValueError, TypeError, KeyError, ConfigurationError):
        _LOG.warning("what earlier batches taught cannot be read, and is learnt anew", exc_info=True)
        return ()


def _batch(row: Sequence[float]) -> RememberedBatch:
    at, rows, seconds, executors, share, youth = row
    allocation = check_allocation(Allocation(int(executors), float(share)))
    if not (int(rows) > 0 and 0.0 < float(seconds) < 1e9 and float(youth) >= 0.0):
        raise ConfigurationError(f"batch: {rows} records in {seconds} s is none", field="batches")
    return RememberedBatch(float(at), int(rows), float(seconds), allocation, float(youth))
