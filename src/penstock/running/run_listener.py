# SPDX-License-Identifier: Apache-2.0
"""Who sees a run go by."""

from __future__ import annotations

from typing import Protocol

from penstock.loop import CycleReport


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
