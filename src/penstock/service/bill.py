# SPDX-License-Identifier: Apache-2.0
"""Adds up what a pipeline costs while it is looked at, each observation once."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from time import monotonic

from penstock.account import OperatorAccount
from penstock.loop import CycleReport
from penstock.money import Cost, CostBasis, total_cost
from penstock.ports import KnowledgeStore

_MOST_AT_ONCE = 100_000
_PIECE_SECONDS = 1800.0


class Bill:
    """What the operators of one run have cost. Safe to use from several threads.

    Parameters
    ----------
    bases
        What each operator's time is priced by; empty: nothing is added up, and no cost is known.
    """

    def __init__(self, bases: Mapping[str, CostBasis]) -> None:
        self._bases = bases
        self._accounts = {name: OperatorAccount() for name in bases}
        self._last = dict.fromkeys(bases, -math.inf)
        self._cursor = dict.fromkeys(bases, 0.0)
        self._is_counted = False
        self._reading = threading.Lock()
        self._settled: dict[str, Cost] = {}
        self._lock = threading.Lock()

    def take(self, report: CycleReport) -> None:
        """Count one look, once.

        One that is older than the one before counts too: since then the clock was set back.
        """
        seen = report.observation
        if seen.operator not in self._accounts:
            return
        with self._lock:
            if seen.at != self._last[seen.operator]:
                self._last[seen.operator] = seen.at
                self._accounts[seen.operator].add(report)

    def read(self, store: KnowledgeStore, since: float, until: float, *, seconds: float = math.inf) -> None:
        """Count what a store remembers and was not counted yet, oldest first.

        Parameters
        ----------
        store
            Whose records.
        since, until
            When the run began, and its newest record.
        seconds
            How long this may take; the rest is counted the next time, and until then no cost is known.
        """
        with self._reading:
            deadline = monotonic() + seconds
            for name in self._bases:
                self._cursor[name] = max(self._cursor[name], since)
                while self._cursor[name] < until:
                    if monotonic() > deadline:
                        return
                    start = self._cursor[name]
                    # Where it is not known when the run began, all is read at once.
                    end = start + _PIECE_SECONDS if since > 0 else math.inf
                    for seen in store.observations(name, since=start, before=end, limit=_MOST_AT_ONCE):
                        self.take(CycleReport(seen))
                    self._cursor[name] = min(end, until)
            self._is_counted = True

    def settle(self, costs: Mapping[str, Cost]) -> None:
        """Take what a run has come to in the end, of every operator: nothing needs to be read and counted then."""
        with self._lock:
            self._settled = dict(costs)

    @property
    def is_settled(self) -> bool:
        """Whether the end is known."""
        return bool(self._settled)

    def of(self, operator: str) -> Cost | None:
        """What one operator has cost; None: no price is known, or it was not observed."""
        with self._lock:
            if self._settled:
                return self._settled.get(operator)
            account = self._accounts.get(operator)
            return None if account is None or not self._is_counted else account.cost(self._bases[operator])

    def whole(self) -> Cost | None:
        """What all have cost; None: that of one is not known."""
        return total_cost([self.of(name) for name in self._bases])
