# SPDX-License-Identifier: Apache-2.0
"""A query without Spark whose executors are on hosts of their own, where agents hold them to what it is asked for.

``python -m tests.shared_query NAME APPLICATION EXECUTORS MASTERS TOKEN_FILE`` runs one in a process of its own, with
the real agent. EXECUTORS is a file with a line for each executor that its driver sees: id and host.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.toy_query import MOST_EXECUTORS, ToyQuery, start, toy_settings

from penstock.adaptors.agent.master_address import master_address
from penstock.adaptors.far_shares import FarShares
from penstock.records import Action, Allocation, ExecutorState, Telemetry

SHARES = (0.05, 0.1, 1.0)
Executors = Callable[[], list[tuple[str, str]]]


class SharedQuery(ToyQuery):
    """A toy whose executors are real processes somewhere: it sees them as they are told, and holds none itself.

    Parameters
    ----------
    application
        The id in the executors' command lines.
    executors
        Tells ids and hosts of the executors that there are.
    """

    can_set_cpu_share = True

    def __init__(self, name: str, write: Callable[[dict[str, Any]], None], application: str, there: Executors) -> None:
        super().__init__(name, write)
        self.shares = FarShares(application, Allocation(MOST_EXECUTORS, SHARES[-1]), 1, None)
        self._there = there

    def collect(self) -> Telemetry:
        """What the toy saw, with these executors, and what they are to be held to."""
        executors = tuple(ExecutorState(one, host, 1, True, 0, 0.0) for one, host in self._there())
        return replace(super().collect(), executors=executors, cpu=None, share=self.shares.share)

    def request(self, action: Action) -> None:
        """Have the share set."""
        super().request(action)
        self.shares.apply(action.target)

    def release(self) -> None:
        """Have nothing held."""
        super().release()
        self.shares.open()

    def open_shares(self) -> None:
        """Lift the caps."""
        self.shares.open()


def shared_settings(name: str, *, executors: int = 2, cpu_share: float = 0.1) -> dict[str, object]:
    """Such a query as a master is introduced to it: the master wants this size, whatever it sees."""
    entry = {"name": name, "executors": [1, MOST_EXECUTORS], "cpu_shares": list(SHARES)}
    options = {"executors": executors, "cpu_share": cpu_share, "every_seconds": 0.5}
    return toy_settings(name, operators=[entry], policy={"name": "fixed", "options": options}, window=5.0)


def main() -> None:
    """Run until the process is killed."""
    name, application, executors, masters, token_file = sys.argv[1:]

    def there() -> list[tuple[str, str]]:
        lines = Path(executors).read_text(encoding="utf-8").splitlines()
        return [(one, host) for one, host in (line.split() for line in lines)]

    query = SharedQuery(name, print, application, there)
    start(query, master_address(masters, token_file=token_file, without_tls=True), settings=shared_settings(name))
    threading.Event().wait()


if __name__ == "__main__":
    main()
