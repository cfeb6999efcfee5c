# SPDX-License-Identifier: Apache-2.0
"""Penstock's own log of a run, with the clock that `explain` and `report` show."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from logging.handlers import RotatingFileHandler
from pathlib import Path

from penstock.running.log_rotation import KEPT, MOST_BYTES
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


@contextmanager
def logging_to(path: Path) -> Iterator[None]:
    """Write Penstock's own log to a file instead of across the view."""
    path.parent.mkdir(parents=True, exist_ok=True)
    logger, handler = (
        logging.getLogger("penstock"),
        RotatingFileHandler(path, maxBytes=MOST_BYTES, backupCount=KEPT, encoding="utf-8"),
    )
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
