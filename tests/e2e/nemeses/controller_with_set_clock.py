# SPDX-License-Identifier: Apache-2.0
"""`penstock`, with a wall clock that a file sets: the number in it is added to the machine's clock, at once.

Setting the clock of the machine would harm everything else on it. The controller takes its time from one object, which
is replaced here; other processes of the run keep the machine's clock.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from penstock.clock import SystemClock
from penstock.running import pipeline_run

VARIABLE = "PENSTOCK_TEST_CLOCK"
"""Names the file."""


class SetClock(SystemClock):
    """The machine's clocks, and the wall clock set by what the file says."""

    def __init__(self) -> None:
        self._file = Path(os.environ[VARIABLE])

    def now(self) -> float:
        """Return the present instant as a clock that was set shows it."""
        try:
            return time.time() + float(self._file.read_text(encoding="ascii"))
        except (OSError, ValueError):  # not there, or being written
            return time.time()


def main() -> None:
    """Run the command line with that clock."""
    pipeline_run.SystemClock = SetClock  # type: ignore[attr-defined]
    from penstock.cli import main as penstock

    penstock()


if __name__ == "__main__":
    main()
