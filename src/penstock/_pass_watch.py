# SPDX-License-Identifier: Apache-2.0
"""Lifts the CPU cap of a query whose controller lives in its own process, and no longer decides.

The lease on its executors is kept by a thread of its own. It says that the process lives, not that passes end: a policy
that never returns would keep the cap that it set last, whatever arrives.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from time import monotonic as system_monotonic

_LOG = logging.getLogger(__name__)

_PASSES = 3
_LEAST_SECONDS = 60.0
_LOOK_SECONDS = 1.0
_END_SECONDS = 5.0


class PassWatch:
    """Opens the CPU shares when no pass has succeeded for three intervals, and a minute at least.

    The next pass that succeeds goes on from what is there.

    Parameters
    ----------
    operator
        Whose passes they are.
    interval_seconds
        From one pass to the next.
    open_shares
        Lifts the cap. It may fail, and is tried again then.
    look_seconds, monotonic
        How often it looks, and a clock that nobody sets.
    """

    def __init__(
        self,
        operator: str,
        interval_seconds: float,
        open_shares: Callable[[], None],
        *,
        look_seconds: float = _LOOK_SECONDS,
        monotonic: Callable[[], float] = system_monotonic,
    ) -> None:
        self._operator, self._open_shares = operator, open_shares
        self._most_silent = max(_LEAST_SECONDS, _PASSES * interval_seconds)
        self._look_seconds, self._monotonic = look_seconds, monotonic
        self._passed_at = monotonic()
        self._opened_after: float | None = None
        """The pass that they were opened after; None: they were not. While they are, another may succeed."""
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-pass-watch", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """End the looks. May be called twice."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join(_END_SECONDS)

    def passed(self) -> None:
        """Take note that a pass succeeded."""
        self._passed_at = self._monotonic()

    def look(self) -> None:
        """Look once."""
        passed_at = self._passed_at
        silent_seconds = self._monotonic() - passed_at
        if self._opened_after == passed_at or silent_seconds <= self._most_silent:
            return
        try:
            self._open_shares()
        except Exception:  # the query goes on; the next look tries again
            _LOG.exception("%s: CPU shares could not be opened", self._operator)
            return
        self._opened_after = passed_at
        _LOG.warning("%s: no pass succeeded for %.0f s: CPU shares were opened", self._operator, silent_seconds)

    def _run(self) -> None:
        while not self._end.wait(self._look_seconds):
            self.look()
