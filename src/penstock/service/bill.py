# SPDX-License-Identifier: Apache-2.0
"""Adds up what a pipeline costs while it is looked at, each observation once."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from penstock.account import OperatorAccount
from penstock.loop import CycleReport
from penstock.money import Cost, CostBasis, total_cost
from penstock.ports import KnowledgeStore
from penstock.records import Observation

_MOST_AT_ONCE = 100_000


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
        self._newest = dict.fromkeys(bases, 0.0)
        self._lock = threading.Lock()

    def take(self, seen: Observation) -> None:
        """Count one look; an older one than the newest counts no more."""
        if seen.operator not in self._accounts:
            return
        with self._lock:
            if seen.at > self._newest[seen.operator]:
                self._newest[seen.operator] = seen.at
                self._accounts[seen.operator].add(CycleReport(seen))

    def read(self, store: KnowledgeStore, since: float) -> None:
        """Count what a store remembers and was not counted yet."""
        for name in self._bases:
            start = max(since, self._newest[name])
            for seen in store.observations(name, since=start, limit=_MOST_AT_ONCE):
                self.take(seen)

    def of(self, operator: str) -> Cost | None:
        """What one operator has cost; None: no price is known, or it was not observed."""
        with self._lock:
            account = self._accounts.get(operator)
            return None if account is None else account.cost(self._bases[operator])

    def whole(self) -> Cost | None:
        """What all have cost; None: that of one is not known."""
        return total_cost([self.of(name) for name in self._bases])
