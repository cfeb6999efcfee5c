# SPDX-License-Identifier: Apache-2.0
"""One controller for each run: two would both scale its operators, and the first to go would end them."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.adaptors.process.identity import ProcessIdentity
from penstock.errors import ConfigurationError

LOCK_FILE = ".penstock-controller"


@contextmanager
def run_lock(folder: Path) -> Iterator[None]:
    """Hold a run folder. The kernel lets go of it when this process ends, however it ends.

    Raises
    ------
    ConfigurationError
        Another controller holds it, or the folder cannot be written to.
    """
    path = folder / LOCK_FILE
    try:
        file = path.open("a+", encoding="ascii")
    except OSError as fault:
        raise ConfigurationError(f"folder: {folder} cannot be used: {fault.strerror}", field="folder") from fault
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as fault:
            holder = ProcessIdentity.parse(_content(path))
            who = "another controller" if holder is None else f"another controller (process {holder.pid})"
            raise ConfigurationError(
                f"folder: {who} runs the run in {folder}; stop that one, or give another folder", field="folder"
            ) from fault
        except OSError as fault:
            raise ConfigurationError(
                f"folder: {folder} cannot be locked ({fault.strerror}); give a folder on another file system",
                field="folder",
            ) from fault
        file.truncate(0)
        file.write(str(ProcessIdentity.this_process()))
        file.flush()
        yield


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ""
