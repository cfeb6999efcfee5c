# SPDX-License-Identifier: Apache-2.0
"""The past of operators as columns of numbers: a record is decoded once, however often a plot asks for its time."""

from __future__ import annotations

import math
import threading
from array import array
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.metrics import METRICS, own_values
from penstock.ports import KnowledgeStore
from penstock.records import Allocation, Decision, Mode, Observation

FloatArray = npt.NDArray[np.float64]
MOST_ROWS = 100_000
"""How much of an operator's past is kept here: as much as a store keeps of everything."""
_MOST_AT_ONCE = 100_000


@dataclass(frozen=True, slots=True)
class ChangeHead:
    """What a plot shows of a change."""

    decision_id: str
    at: float
    verb: str
    target: Allocation
    is_recommended_only: bool


class _Table:
    """Rows of numbers as they came; what is not known is NaN."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.at = array("d")
        self._columns = {name: array("d") for name in names}
        self.is_cut = False
        """Whether the oldest rows are gone."""

    def add(self, at: float, values: Mapping[str, float | None]) -> None:
        for name in values.keys() - self._columns.keys():  # such as a metric of the user's own
            self._columns[name] = array("d", [math.nan]) * len(self.at)
        self.at.append(at)
        for name, column in self._columns.items():
            value = values.get(name)
            column.append(math.nan if value is None else float(value))
        if len(self.at) > MOST_ROWS + MOST_ROWS // 10:
            self.is_cut = True
            for one in (self.at, *self._columns.values()):
                del one[: len(one) - MOST_ROWS]

    def between(self, name: str, start: float, end: float) -> tuple[FloatArray, FloatArray]:
        if name not in self._columns:
            return np.empty(0), np.empty(0)
        at, values = np.array(self.at), np.array(self._columns[name])
        is_wanted = (at >= start) & (at < end)
        at, values = at[is_wanted], values[is_wanted]
        if np.any(at[1:] < at[:-1]):  # a clock was set back
            order = np.argsort(at, kind="stable")
            at, values = at[order], values[order]
        return at, values


class OperatorColumns:
    """The past of one operator, read from its store as far as it was not read yet. Safe to use from several threads.

    Parameters
    ----------
    store, operator
        Whose records.
    since
        When the run began.
    """

    def __init__(self, store: KnowledgeStore, operator: str, since: float) -> None:
        self._store, self._operator = store, operator
        self._lock = threading.Lock()
        self._since, self._decided_since = since, since
        self._decided_ids: set[str] = set()
        self._seen = _Table(tuple(METRICS))
        self._expected = _Table(("arrivals", "latency", "latency_low", "latency_high"))
        self._path: tuple[str, ...] | None = None
        self._changes: list[ChangeHead] = []

    def read(self) -> None:
        """Take in what has come since the last time."""
        with self._lock:
            for seen in self._store.observations(self._operator, since=self._since, limit=_MOST_AT_ONCE):
                if seen.at > self._since or not self._seen.at:
                    self._take(seen)
            for decision in self._store.decisions(self._operator, since=self._decided_since, limit=_MOST_AT_ONCE):
                if decision.decision_id not in self._decided_ids:
                    self._decide(decision)

    def measured(self, metric: str, start: float, end: float) -> tuple[FloatArray, FloatArray]:
        """When a metric was read in a time, and what it was; NaN: it was not known."""
        with self._lock:
            return self._seen.between(metric, start, end)

    def expected(self, what: str, start: float, end: float) -> tuple[FloatArray, FloatArray]:
        """What decisions of a time expected: ``arrivals`` a second, or ``latency`` of their path in seconds.

        ``latency_low`` and ``latency_high`` are the ends of its interval; where it has none, it itself.
        """
        with self._lock:
            return self._expected.between(what, start, end)

    def changes(self, start: float, end: float, most: int) -> list[ChangeHead]:
        """The newest changes of a time, oldest first."""
        with self._lock:
            return [one for one in self._changes if start <= one.at < end][-most:]

    def is_cut(self, start: float) -> bool:
        """Whether something of a time that begins there was known and is gone."""
        with self._lock:
            return self._seen.is_cut and start < min(self._seen.at)

    def path(self) -> tuple[str, ...] | None:
        """The path that predictions of latency are for; None: there was none."""
        with self._lock:
            return self._path

    def _take(self, seen: Observation) -> None:
        known = {name: metric.read(seen) for name, metric in METRICS.items()}
        self._seen.add(seen.at, {**known, **own_values(seen)})
        self._since = seen.at

    def _decide(self, decision: Decision) -> None:
        if decision.at > self._decided_since:
            self._decided_since, self._decided_ids = decision.at, set()
        self._decided_ids.add(decision.decision_id)
        workload, prediction = decision.workload, decision.prediction
        if prediction is not None:
            self._path = prediction.path
        self._expected.add(
            decision.at,
            {
                "arrivals": None if workload is None else workload.arrivals_per_second,
                "latency": None if prediction is None else prediction.seconds,
                "latency_low": None if prediction is None else _or(prediction.low_seconds, prediction.seconds),
                "latency_high": None if prediction is None else _or(prediction.high_seconds, prediction.seconds),
            },
        )
        if decision.is_change:
            self._changes.append(
                ChangeHead(
                    decision.decision_id, decision.at, decision.verb, decision.target, decision.mode is Mode.RECOMMEND
                )
            )
            del self._changes[:-MOST_ROWS]


def _or(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value


class Columns:
    """The past of all operators of a run, each read when it is first asked for."""

    def __init__(self, store: KnowledgeStore, since: float) -> None:
        self._store, self._since = store, since
        self._lock = threading.Lock()
        self._known: dict[str, OperatorColumns] = {}

    def of(self, operator: str) -> OperatorColumns:
        """That of one operator, up to date."""
        with self._lock:
            if operator not in self._known:
                self._known[operator] = OperatorColumns(self._store, operator, self._since)
            found = self._known[operator]
        found.read()
        return found
