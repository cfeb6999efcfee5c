# SPDX-License-Identifier: Apache-2.0
"""The machines of the cluster and its statistics at regular times. Pure numpy: Spark hands it rows and keeps its bytes.

Of each machine the row of the newest event counts, so a copy of a row, or rows of a batch in another order, change
nothing.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.apps.google_cluster.events import TRACE_START_US, UNITS
from penstock.apps.google_cluster.statistics import spread

QUANTITIES = {"tasks": 1, "cpu": UNITS, "memory": UNITS, "disk": UNITS}
"""What is known of a machine, and how many units make one."""
COLUMNS = ("time", "row", "machine", *QUANTITIES)

Rows = NDArray[np.int64]
"""A line for each column of `COLUMNS`."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What stays between two batches."""

    machines: Rows
    """The newest row of each machine before `next_at`."""
    ahead: Rows
    """Rows from `next_at` on, which the next result must not see."""
    next_at: int
    """The file's time of the next result."""
    newest: int
    late: int


class ClusterState:
    """The state of the whole cluster.

    Parameters
    ----------
    every_us
        Trace time from one result to the next.
    lateness_us
        How much newer an event must be than a result's time before the result is given: by so much may events come out
        of order.
    kept
        What `to_bytes` returned. None: no row yet.
    """

    def __init__(self, every_us: int, lateness_us: int = 0, kept: bytes | None = None) -> None:
        self._every_us = every_us
        self._lateness_us = lateness_us
        nothing = np.empty((len(COLUMNS), 0), dtype=np.int64)
        self._kept = Kept(nothing, nothing, TRACE_START_US, -1, 0)
        if kept is not None:
            self._kept = pickle.loads(kept)

    def to_bytes(self) -> bytes:
        """Everything, for the next batch."""
        return pickle.dumps(self._kept, protocol=5)

    def take(self, rows: Rows, late: int = 0) -> list[dict[str, Any]]:
        """Take in the rows of a batch; return the results that are now complete.

        Parameters
        ----------
        rows
            A line for each of `COLUMNS`, in any order.
        late
            How many of them were marked late upstream.
        """
        kept = self._kept
        next_at = kept.next_at
        if next_at > TRACE_START_US:
            # The results before this one were given without these rows.
            late += int(np.count_nonzero(rows[0] < next_at - self._every_us))
        late += kept.late
        newest = max(kept.newest, int(rows[0].max(initial=-1)))
        machines, ahead = kept.machines, np.concatenate([kept.ahead, rows], axis=1)
        results = []
        while True:
            is_now = ahead[0] < next_at
            machines = _newest_of_each(np.concatenate([machines, ahead[:, is_now]], axis=1))
            ahead = ahead[:, ~is_now]
            if newest < next_at + self._lateness_us:
                break
            results.append(_result(machines, next_at, late))
            next_at += self._every_us
        self._kept = Kept(machines, ahead, next_at, newest, late)
        return results


def _newest_of_each(rows: Rows) -> Rows:
    in_order = rows[:, np.lexsort((rows[1], rows[0], rows[2]))]
    is_last = np.append(in_order[2][1:] != in_order[2][:-1], True)[: in_order.shape[1]]
    return in_order[:, is_last]


def _result(machines: Rows, at_us: int, late: int) -> dict[str, Any]:
    result: dict[str, Any] = {
        "time_seconds": (at_us - TRACE_START_US) / 1e6, "machines": machines.shape[1], "late_events": late,
    }  # fmt: skip
    for line, (name, units) in enumerate(QUANTITIES.items(), start=3):
        values = machines[line] if machines.shape[1] else np.zeros(1, dtype=np.int64)
        result.update(spread(values, units).to_json(name))
    return result


def result_columns() -> list[str]:
    """The names of a result's columns, in order."""
    nothing = np.empty((len(COLUMNS), 0), dtype=np.int64)
    return list(_result(nothing, TRACE_START_US, 0))
