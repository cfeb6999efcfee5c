# SPDX-License-Identifier: Apache-2.0
"""Who sees a run go by."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from penstock.knowledge.run_notes import RunNotes
from penstock.loop import CycleReport

_LOG = logging.getLogger(__name__)


class RunListener(Protocol):
    """Wants to see a run go by."""

    def phase(self, text: str, fraction: float | None = None) -> None:
        """What is being done now, and how far it is."""
        ...

    def report(self, report: CycleReport) -> None:
        """One operator's pass."""
        ...

    def fault(self, operator: str, text: str) -> None:
        """A pass that failed, or something the user should know."""
        ...


class SafeListener:
    """Passes everything on to a listener, and goes on where that fails: a full disk under a view ends no run.

    Parameters
    ----------
    listener
        Who wants to see the run.
    """

    def __init__(self, listener: RunListener) -> None:
        self._listener = listener
        self._said = ""

    def phase(self, text: str, fraction: float | None = None) -> None:
        """Pass on what is being done now."""
        self._attempt(lambda: self._listener.phase(text, fraction))

    def report(self, report: CycleReport) -> None:
        """Pass on one operator's pass."""
        self._attempt(lambda: self._listener.report(report))

    def fault(self, operator: str, text: str) -> None:
        """Pass on something the user should know."""
        self._attempt(lambda: self._listener.fault(operator, text))

    def _attempt(self, show: Callable[[], None]) -> None:
        try:
            show()
        except Exception as fault:  # whatever is wrong with a view, the run is not
            if (why := f"{type(fault).__name__}: {fault}") != self._said:
                self._said = why
                _LOG.warning("the run goes on, but cannot be shown: %s", why)


class NotingListener:
    """Passes everything on to a listener, and keeps what the user should know with the run.

    Parameters
    ----------
    listener
        Who wants to see the run.
    notes
        Where what is said is kept.
    """

    def __init__(self, listener: RunListener, notes: RunNotes) -> None:
        self._listener, self._notes = listener, notes

    def phase(self, text: str, fraction: float | None = None) -> None:
        """Pass on what is being done now."""
        self._listener.phase(text, fraction)

    def report(self, report: CycleReport) -> None:
        """Pass on one operator's pass."""
        self._listener.report(report)

    def fault(self, operator: str, text: str) -> None:
        """Keep something the user should know, and pass it on."""
        self._notes.add(operator, text)
        self._listener.fault(operator, text)
