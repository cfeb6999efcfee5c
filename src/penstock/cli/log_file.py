# SPDX-License-Identifier: Apache-2.0
"""Penstock's own log of a run, with the clock that `explain` and `report` show."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from logging.handlers import RotatingFileHandler
from pathlib import Path

from penstock.adaptors.process.log_rotation import KEPT, MOST_BYTES
from penstock.units import moment


class RunLogFormatter(logging.Formatter):
    """Begins each line with local date and time, and with the time since the first look once there was one.

    An event that the run's knowledge keeps (`at`) stands with the instant that is kept with it.
    """

    def __init__(self) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")
        self._started_at: float | None = None

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, with a traceback below it where there is one."""
        known = getattr(record, "at", None)
        if self._started_at is None and known is not None:
            self._started_at = known
        at = record.created if known is None else known
        return (
            f"{time.strftime('%Y-%m-%d', time.localtime(at))} {moment(at, self._started_at)} {super().format(record)}"
        )


class _RunLog(RotatingFileHandler):
    """A file that leaves out what its disk does not take, and says so with the next line that it takes.

    Python's own handler prints a traceback for each such line, and tries to write it again when the file is closed.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, maxBytes=MOST_BYTES, backupCount=KEPT, encoding="utf-8")
        self._lost = 0
        self._why: OSError | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, after one that says what is missing."""
        lost, self._lost = self._lost, 0
        if lost:
            text = f"{lost:,} line{'s'[: lost > 1]} of this log could not be written: {self._why}"
            super().emit(logging.LogRecord(__name__, logging.WARNING, __file__, 0, text, None, None))
        if self._lost:
            self._lost += lost
        else:
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is Python's
        """Count a line that could not be written, and open the file anew for the next one."""
        fault = sys.exc_info()[1]
        if not isinstance(fault, OSError):
            super().handleError(record)
            return
        self._lost, self._why = self._lost + 1, fault
        stream, self.stream = self.stream, None
        if stream is not None:
            with suppress(OSError):  # what it still holds cannot be written either
                stream.close()


@contextmanager
def logging_to(path: Path) -> Iterator[None]:
    """Write Penstock's own log to a file instead of across the view."""
    path.parent.mkdir(parents=True, exist_ok=True)
    logger, handler = logging.getLogger("penstock"), _RunLog(path)
    handler.setFormatter(RunLogFormatter())
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()
        logger.setLevel(before[0])
        logger.propagate = before[1]
