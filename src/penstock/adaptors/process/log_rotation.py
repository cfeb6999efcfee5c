# SPDX-License-Identifier: Apache-2.0
"""Bounds the logs of processes that run for weeks: a full one is copied aside, and begins anew.

A process writes to the file that it was started with, and cannot be asked to open another. It appends, so the file can
be emptied under it. Lines that come between the copy and that moment are lost.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

MOST_BYTES = 20 << 20
"""How large a log grows."""
KEPT = 3
"""How many full ones are kept beside it, as name.log.1 (the newest) to name.log.3."""
OWN_LOG = "controller.log"
"""The controller rotates its own log as it writes."""


def rotate_logs(folders: Iterable[Path], *, most_bytes: int = MOST_BYTES, kept: int = KEPT) -> list[str]:
    """Rotate every log above `most_bytes` in some folders. Return what could not be done, a line each."""
    faults = []
    for folder in folders:
        for log in sorted(folder.glob("*.log")):
            try:
                if log.name != OWN_LOG and log.stat().st_size > most_bytes:
                    _rotate(log, kept)
            except OSError as fault:
                faults.append(f"{log} cannot be rotated: {fault}")
    return faults


def _rotate(log: Path, kept: int) -> None:
    for number in range(kept, 1, -1):
        older = _numbered(log, number - 1)
        if older.exists():
            older.replace(_numbered(log, number))
    newest = _numbered(log, 1)
    try:
        shutil.copyfile(log, newest)
    except OSError:  # no room for a copy: the log must not fill the disk all the same
        newest.unlink(missing_ok=True)
        raise
    finally:
        with log.open("r+b") as file:
            file.truncate(0)


def _numbered(log: Path, number: int) -> Path:
    return log.with_name(f"{log.name}.{number}")
