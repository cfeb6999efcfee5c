# SPDX-License-Identifier: Apache-2.0
"""How many executors a cluster can give an application: asked in the background, so that it never holds up the loop."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from penstock.errors import MetricSourceError
from penstock.records import ExecutorRoom

_LOG = logging.getLogger(__name__)


class RoomWatch:
    """Asks a cluster again and again, in a thread of its own, and keeps the last answer.

    Parameters
    ----------
    read
        Asks the cluster; None: it does not know. Raises MetricSourceError where it does not answer.
    every_seconds
        How often.
    """

    def __init__(self, read: Callable[[], ExecutorRoom | None], *, every_seconds: float = 5.0) -> None:
        self._read = read
        self._every_seconds = every_seconds
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._room: ExecutorRoom | None = None
        self.fault: str | None = None
        """Why the last reading failed, or None if it succeeded."""

    def room(self) -> ExecutorRoom | None:
        """Return what the cluster can give; None: that is not known now."""
        return self._room

    def start(self) -> None:
        """Ask once now, then repeatedly in the background."""
        self.look()
        self._thread = threading.Thread(target=self._run, name="penstock-room", daemon=True)
        self._thread.start()

    def look(self) -> None:
        """Ask once. What an earlier answer said does not hold where there is none now."""
        try:
            self._room, fault = self._read(), None
        except MetricSourceError as error:
            self._room, fault = None, str(error)
        except Exception as error:  # a defect of ours must never end the thread
            self._room, fault = None, f"what the cluster can give is not known: {type(error).__name__}: {error}"
        if fault is not None and fault != self.fault:
            _LOG.warning("%s", fault)
        self.fault = fault

    @property
    def faults(self) -> tuple[str, ...]:
        """The same as lines for the user."""
        return () if self.fault is None else (self.fault,)

    def stop(self) -> None:
        """End the thread. May be called twice."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(timeout=10.0)

    def _run(self) -> None:
        while not self._stopped.wait(self._every_seconds):
            self.look()
