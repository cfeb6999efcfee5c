# SPDX-License-Identifier: Apache-2.0
"""The folder of something that runs on its own: made at its start, and removed with everything in it at its end."""

from __future__ import annotations

import fcntl
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def starting_alone(folder: Path) -> Iterator[None]:
    """Let one start of what belongs to a folder wait for another, so that two at once give one.

    The lock lies beside the folder, which a start removes. It is released by the kernel, however its holder ends.

    Raises
    ------
    ConfigurationError
        There is no place for it.
    """
    if not folder.name:
        raise ConfigurationError(f"--folder: {folder} cannot be used; give a folder below it", field="--folder")
    lock_file = folder.with_name(f".{folder.name}.lock")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = lock_file.open("w")
    except OSError as fault:
        raise ConfigurationError(
            f"--folder: {folder.parent} cannot be used: {fault.strerror}; give a folder that may be written to",
            field="--folder",
        ) from fault
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
