# SPDX-License-Identifier: Apache-2.0
"""Measured round trips between nodes, as a table that is kept fresh: ``{(from, to): seconds}``.

A TCP connection takes one round trip to open, whatever listens at the other end, so nothing has to be installed there.
The far side answers in its kernel: its load does not count. What is measured from A to B need not be what is measured
from B to A, and pairs that could not be measured are missing from the table: nobody may take them for near.
"""

from __future__ import annotations

import logging
import socket
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import permutations

_LOG = logging.getLogger(__name__)

Address = tuple[str, int]
LatencyMap = Mapping[tuple[str, str], float]
"""Round trips in seconds by pair of nodes. Pairs may be missing, and a pair may differ from its reverse."""

Measure = Callable[[str, str], float | None]
"""Returns the round trip from one node to another in seconds, or None where it cannot be measured."""

ATTEMPTS = 3
_KEPT = 5
"""How many measurements of a pair count: the median of these follows a change and ignores a single late answer."""


def connect_seconds(address: Address, *, attempts: int = ATTEMPTS, timeout_seconds: float = 2.0) -> float | None:
    """Return how long it takes to open a connection from here, the shortest of some attempts. None: nobody answers.

    The shortest, because load on either machine only ever makes an attempt longer.
    """
    best: float | None = None
    for _ in range(attempts):
        started = time.perf_counter()
        try:
            socket.create_connection(address, timeout_seconds).close()
        except OSError:
            continue
        taken = time.perf_counter() - started
        best = taken if best is None else min(best, taken)
    return best


class RoundTrips:
    """The latest round trips between some nodes. Thread-safe.

    Parameters
    ----------
    measure
        Measures one pair.
    nodes
        Returns the nodes that are there now: the others' entries are dropped.
    patience
        After so many refreshes in a row without an answer, a pair is dropped from the table.
    """

    def __init__(self, measure: Measure, nodes: Callable[[], Iterable[str]], *, patience: int = 3) -> None:
        self._measure = measure
        self._nodes = nodes
        self._patience = patience
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, str], deque[float]] = {}
        self._missed: dict[tuple[str, str], int] = {}
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def seconds(self) -> dict[tuple[str, str], float]:
        """Return the table as of the last refresh: a copy, which does not change."""
        with self._lock:
            return {pair: statistics.median(kept) for pair, kept in self._kept.items()}

    def refresh(self) -> None:
        """Measure every pair once, in both directions."""
        pairs = list(permutations(dict.fromkeys(self._nodes()), 2))
        for pair in pairs:
            self._take(pair, self._measure(*pair))
        with self._lock:
            for gone in self._kept.keys() - set(pairs):
                del self._kept[gone]
                self._missed.pop(gone, None)

    def start(self, every_seconds: float = 60.0) -> None:
        """Refresh at once and then again and again, in a thread of its own."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, args=(every_seconds,), name="penstock-round-trips", daemon=True
            )
            self._thread.start()

    def stop(self) -> None:
        """End the refreshes. May be called twice."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(timeout=30.0)

    def _run(self, every_seconds: float) -> None:
        while True:
            try:
                self.refresh()
            except Exception:  # the nodes cannot be named now, or a defect of ours: the next refresh may succeed
                _LOG.exception("round trips between nodes could not be measured")
            if self._stopped.wait(every_seconds):
                return

    def _take(self, pair: tuple[str, str], seconds: float | None) -> None:
        with self._lock:
            if seconds is not None:
                self._kept.setdefault(pair, deque(maxlen=_KEPT)).append(seconds)
                self._missed.pop(pair, None)
                return
            self._missed[pair] = self._missed.get(pair, 0) + 1
            if self._missed[pair] >= self._patience:
                self._kept.pop(pair, None)
