# SPDX-License-Identifier: Apache-2.0
"""A Unix domain socket in a folder that only this user can enter."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

from penstock.errors import ConfigurationError

# The kernel's sockaddr_un.sun_path holds 108 bytes including the terminating zero.
_LONGEST_PATH_BYTES = 107


def checked_socket_path(path: str | Path) -> Path:
    """Return the absolute path, or raise if it is longer than the 107 bytes the kernel allows."""
    absolute = Path(path).absolute()
    length = len(str(absolute).encode())
    if length > _LONGEST_PATH_BYTES:
        raise ConfigurationError(
            f"socket_path: {absolute} has {length} bytes; a socket's path can have at most {_LONGEST_PATH_BYTES}. "
            "Choose a shorter run folder",
            field="socket_path",
        )
    return absolute


def listen_privately(path: Path) -> socket.socket:
    """Listen on `path`, in a folder nobody else can enter. A socket left by a dead agent is replaced."""
    folder = path.parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise ConfigurationError(
            f"socket_path: others can enter {folder}; run: chmod 700 {folder}", field="socket_path"
        )
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_stale(path)
        listening.bind(str(path))
        path.chmod(0o600)
        listening.listen(4)
    except BaseException:
        listening.close()
        raise
    return listening


def wake_listener(path: Path, timeout_seconds: float) -> None:
    """Wake a thread that waits in `accept`. It would wake by itself a little later."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as visitor, contextlib.suppress(OSError):
        visitor.settimeout(timeout_seconds)
        visitor.connect(str(path))


def _remove_stale(path: Path) -> None:
    if not path.exists():
        return
    if not path.is_socket():
        raise ConfigurationError(
            f"socket_path: {path} exists and is not a socket; choose another run folder", field="socket_path"
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
    raise ConfigurationError(
        f"socket_path: another agent listens on {path}; choose another run folder or end that run",
        field="socket_path",
    )
