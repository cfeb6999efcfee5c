# SPDX-License-Identifier: Apache-2.0
"""How long an operator stood still between two runs of its query."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.records import BatchProgress


@dataclass(frozen=True, slots=True)
class RestartPause:
    """From the end of the last batch before a restart to the start of the first one after it."""

    seconds: float
    last_batch: int
    first_batch: int


class PauseMeter:
    """Takes every batch of one operator, and measures the pause when a new run begins.

    Examples
    --------
    >>> meter = PauseMeter()
    >>> before = BatchProgress("logs", "query", "first run", 7, 12.0, 13.0, 10, {}, ())
    >>> after = BatchProgress("logs", "query", "second run", 8, 33.0, 34.0, 10, {}, ())
    >>> meter.add(before), meter.add(after)
    (None, RestartPause(seconds=20.0, last_batch=7, first_batch=8))
    """

    def __init__(self) -> None:
        self._last: BatchProgress | None = None

    @property
    def run_id(self) -> str | None:
        """The run of the newest batch; None before the first one."""
        return None if self._last is None else self._last.run_id

    def add(self, batch: BatchProgress) -> RestartPause | None:
        """Take one batch; returns the pause before it where it is the first of a new run."""
        last, self._last = self._last, batch
        if last is None or last.run_id == batch.run_id:
            return None
        return RestartPause(max(0.0, batch.started_at - last.ended_at), last.batch_id, batch.batch_id)
