# SPDX-License-Identifier: Apache-2.0
"""The folder of something that runs on its own: made at its start, and removed with everything in it at its end."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from penstock.errors import ClusterError, ConfigurationError


def make_marked_folder(folder: Path, mark: str) -> None:
    """Make a folder with a file `mark` in it, which says that it may be removed. One that was left behind is removed.

    Raises
    ------
    ConfigurationError
        It holds something else.
    """
    if folder.exists() and any(folder.iterdir()) and not (folder / mark).exists():
        raise ConfigurationError(
            f"--folder: {folder} holds something else, and would be removed with the cluster; give another",
            field="--folder",
        )
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(mode=0o700, parents=True)
    (folder / mark).touch()


def wait_until_gone(folder: Path, within_seconds: float, target: str) -> None:
    """Wait until a folder has been removed by whom it belongs to; raises ClusterError where that takes too long."""
    deadline = time.monotonic() + within_seconds
    while folder.exists():
        if time.monotonic() > deadline:
            raise ClusterError(f"{folder} was not removed within {within_seconds:g} s", target=target)
        time.sleep(0.05)
