# SPDX-License-Identifier: Apache-2.0
"""Bounds what ended executors leave: each start gets a folder with its logs and a copy of the application's jars."""

from __future__ import annotations

import shutil
from pathlib import Path

KEPT = 20
"""Folders of ended executors that stay for each application: the newest, for their logs."""


def remove_old_executors(work: Path, *, kept: int = KEPT, proc: Path = Path("/proc")) -> list[str]:
    """Remove folders ``<worker>/<application>/<executor>`` of executors that ended, but for the newest.

    Return what could not be removed, a line each.
    """
    faults: list[str] = []
    used = _working_folders(proc)
    # Working folders are shown without links; a run folder behind one must not look unused.
    for application in sorted(work.resolve().glob("*/*")):
        executors = [path for path in application.glob("*") if path.name.isdigit() and path.is_dir()]
        # One that begins has no process yet: the newest are kept, whatever they are.
        ended = sorted((path for path in executors if path not in used), key=lambda path: int(path.name))
        for folder in ended[: max(0, len(ended) - kept)]:
            try:
                shutil.rmtree(folder)
            except OSError as fault:
                faults.append(f"{folder} cannot be removed: {fault}")
    return faults


def _working_folders(proc: Path) -> set[Path]:
    """Where processes of this machine work: an executor works in its own folder."""
    found = set()
    for entry in proc.iterdir():
        if entry.name.isdigit():
            try:
                found.add((entry / "cwd").readlink())
            except OSError:  # it ended, or is another user's
                continue
    return found
