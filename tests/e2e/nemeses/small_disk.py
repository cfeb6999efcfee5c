# SPDX-License-Identifier: Apache-2.0
"""A small disk of its own for a run folder, which can be filled: a file system in memory. It needs root."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

_STEP_BYTES = 1 << 20


@contextlib.contextmanager
def small_disk(folder: Path, size: str = "2g") -> Iterator[bool]:
    """Mount it at `folder` for the length of the block; gives False where that is not allowed: the folder is plain."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "penstock-nemeses", str(folder)]
    try:
        is_mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        is_mounted = False
    try:
        yield is_mounted
    finally:
        if is_mounted:
            _unmount(folder)


def _unmount(folder: Path) -> None:
    for _ in range(50):  # a process that was killed may take a moment to let go of its files
        if subprocess.run(["umount", str(folder)], capture_output=True, check=False).returncode == 0:
            return
        time.sleep(0.2)
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextlib.contextmanager
def filled(folder: Path) -> Iterator[Path]:
    """Leave no byte free on the disk of a folder for the length of the block; gives the file that takes them.

    What others free meanwhile is taken where the block calls `top_up`.
    """
    ballast = folder / ".ballast"
    try:
        top_up(ballast)
        yield ballast
    finally:
        ballast.unlink(missing_ok=True)


def top_up(ballast: Path) -> int:
    """Take what is free; gives the size of the ballast."""
    with ballast.open("ab") as file:
        step = _STEP_BYTES
        while step:
            try:
                os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, step)
            except OSError:
                step //= 2
        return os.fstat(file.fileno()).st_size
