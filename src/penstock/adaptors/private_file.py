# SPDX-License-Identifier: Apache-2.0
"""Files and folders that other users of the machine must not see: they hold a password, or may."""

from __future__ import annotations

import os
import threading
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Write a file that nobody else may read (it may hold a password), whole or not at all.

    Of several that write it at once, each succeeds, and what one of them wrote stays.
    """
    draft = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.draft")
    draft.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())  # some file systems say only now that there is no room
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def write_private_once(path: Path, text: str) -> None:
    """Write such a file where there is none; of several processes that do so at once, one succeeds for all."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    write_private(draft, text)
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        return
    finally:
        draft.unlink(missing_ok=True)


def make_private_folder(folder: Path) -> bool:
    """Make a folder that nobody else may enter, and say whether it is one.

    A folder that was there and is empty is closed too. One with content is left as it is: it may be shared on purpose.
    """
    try:
        folder.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        if not folder.is_dir():
            raise
    if folder.stat().st_uid == os.geteuid() and not any(folder.iterdir()):
        folder.chmod(0o700)  # whatever the umask is
    return is_private(folder)


def is_private(folder: Path) -> bool:
    """Whether nobody but this user may enter a folder (and root, who may enter any)."""
    status = folder.stat()
    return status.st_uid == os.geteuid() and not status.st_mode & 0o077
