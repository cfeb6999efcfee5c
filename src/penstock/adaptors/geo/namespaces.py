# SPDX-License-Identifier: Apache-2.0
"""Entering a network namespace: a thread of this process for a moment, or a new process for good."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from penstock.adaptors.geo.relay import CLONE_NEWNET
from penstock.errors import ConfigurationError

_libc = ctypes.CDLL(None, use_errno=True)


def check_can_be_made() -> None:
    """Raise ConfigurationError, in one line, where network namespaces with delays cannot be made."""
    if os.geteuid() != 0:
        raise ConfigurationError(
            "geo: network namespaces need root; run it as root: sudo -E env PATH=$PATH <your command>", field="geo"
        )
    if not Path("/dev/net/tun").exists():
        raise ConfigurationError(
            "geo: /dev/net/tun is missing; load the kernel's module: modprobe tun (in a container: --device "
            "/dev/net/tun)",
            field="geo",
        )
    if shutil.which("nsenter") is None:
        raise ConfigurationError("geo: the program nsenter is missing; install util-linux", field="geo")


def command_inside(namespace: str, argv: Sequence[str]) -> list[str]:
    """Return the command that runs `argv` in a namespace. Its process is that of `argv`, not one in between."""
    return ["nsenter", f"--net={namespace}", "--", *argv]


@contextlib.contextmanager
def entered(namespace: str) -> Iterator[None]:
    """Have this thread inside a network namespace, and no other thread. Sockets stay where they were made."""
    here = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        there = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _set(there)
        finally:
            os.close(there)
        try:
            yield
        finally:
            _set(here)
    finally:
        os.close(here)


def _set(descriptor: int) -> None:
    if _libc.setns(descriptor, CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"the network namespace cannot be entered: {os.strerror(number)}")
