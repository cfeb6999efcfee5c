# SPDX-License-Identifier: Apache-2.0
"""Files derived from others once, and found again by later calls and other processes."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from penstock.errors import ConfigurationError


def fingerprint(path: Path, field: str) -> tuple[str, int, int]:
    """Return a value that changes whenever the file does: its path, modification time and size."""
    try:
        state = path.stat()
    except OSError as fault:
        raise ConfigurationError(f"{field}: {path} cannot be read: {fault.strerror}", field=field) from fault
    if not path.is_file():
        raise ConfigurationError(f"{field}: {path} is not a file", field=field)
    return str(path.resolve()), state.st_mtime_ns, state.st_size


def cached_file(folder: Path, name: str, identity: object, write: Callable[[BinaryIO], None]) -> Path:
    """Return the file that `write` produced for this identity, now or at an earlier call.

    It exists whole or not at all, even if several processes create it at once or one dies meanwhile.
    """
    stem, suffix = os.path.splitext(name)  # noqa: PTH122 - a name, not a path
    target = folder / f"{stem}-{hashlib.sha256(repr(identity).encode()).hexdigest()[:24]}{suffix}"
    if target.exists():
        return target
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(dir=folder, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
        Path(part).replace(target)
    finally:
        Path(part).unlink(missing_ok=True)
    return target


def default_cache_dir() -> Path:
    """Return the default folder for converted files: private, under the system's temporary folder."""
    folder = Path(tempfile.gettempdir()) / f"penstock-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    state = folder.lstat()
    # Others may write to the temporary folder: never read what somebody else may have put there.
    if not folder.is_dir() or folder.is_symlink() or state.st_uid != os.getuid() or state.st_mode & 0o022:
        raise ConfigurationError(
            f"cacheDir: {folder} is not a private folder of this user; remove it, or name another cacheDir",
            field="cacheDir",
        )
    return folder
