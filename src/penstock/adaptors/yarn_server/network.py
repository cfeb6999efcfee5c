# SPDX-License-Identifier: Apache-2.0
"""Holds a network namespace with a loopback and nothing else, until it is ended. Not for direct use.

YARN without Kerberos believes everybody who says that they are somebody. On the machine's own loopback every user
of it could have programs started; a namespace of its own can be entered by root alone. It has no name and no
mount, so it is gone with the last process in it. This file runs by path with only the standard library.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import struct

READY = "network is up"
"""The line that says so."""
_CLONE_NEWNET = 0x40000000
_SIOCSIFFLAGS = 0x8914
_IFF_UP, _IFF_RUNNING = 0x1, 0x40


def main() -> None:
    """Make the namespace, say so, and wait for the end."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"no network namespace can be made: {os.strerror(number)}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        flags = struct.pack("16s24s", b"lo", struct.pack("h", _IFF_UP | _IFF_RUNNING))
        fcntl.ioctl(control, _SIOCSIFFLAGS, flags)
    print(READY, flush=True)
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
