# SPDX-License-Identifier: Apache-2.0
"""The relay: a process that holds the network namespaces of a geo network and carries packets between them, late.

Each node is a network namespace with one TUN device. What a node sends comes out of its device here, waits for the
delay from that node to the receiver, and goes into the receiver's device. So every kernel with namespaces and TUN will
do: no netem, no packet filter, no package. A namespace has no name and no link to the machine's own network. It lives
while this process or one inside it does, so that nothing has to be removed after a kill -9.

It runs by path, with the standard library alone (`python -I -S relay.py <folder>`). In the folder it reads
``network.json``, at the start and after each SIGHUP::

    {"nodes": {name: address}, "delays": [[from, to, seconds], ...]}

and writes ``ready.json``: ``{"namespaces": {name: path}, "is_real_time": bool}``, or ``{"fault": text}``.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any

CLONE_NEWNET = 0x40000000
NETMASK = "255.255.255.0"
DEVICE = b"geo0"
_QUEUE_PACKETS = 10_000
"""Packets that wait in a device while this process is busy. With the default of 500, bursts would lose some."""
_LARGEST_PACKET = 1 << 17
_READ_AT_ONCE = 64

# linux/if_tun.h and linux/sockios.h
_TUNSETIFF, _TUNSETOFFLOAD = 0x400454CA, 0x400454D0
_IFF_TUN, _IFF_NO_PI, _IFF_VNET_HDR = 0x0001, 0x1000, 0x4000
_TUN_F_CSUM, _TUN_F_TSO4 = 0x01, 0x02
_SIOCSIFFLAGS, _SIOCSIFADDR, _SIOCSIFNETMASK, _SIOCSIFTXQLEN = 0x8914, 0x8916, 0x891C, 0x8943
_IFF_UP, _IFF_RUNNING = 0x0001, 0x0040
# With checksum and segmentation left to the devices, TCP hands over up to 64 KiB in one piece, behind this header. The
# piece goes into the other device as it came, header included.
_HEADER_BYTES = 10

_libc = ctypes.CDLL(None, use_errno=True)


class Relay:
    """The namespaces with their devices, and the packets on their way.

    Parameters
    ----------
    addresses
        The IPv4 address of each node.
    """

    def __init__(self, addresses: dict[str, str]) -> None:
        self.namespaces: dict[str, str] = {}
        self._addresses = {name: socket.inet_aton(address) for name, address in addresses.items()}
        self._devices: dict[bytes, int] = {}
        self._senders: dict[int, bytes] = {}
        self._delays: dict[tuple[bytes, bytes], float] = {}
        self._waiting: list[tuple[float, int, int, bytes]] = []
        self._count = 0
        for name, address in addresses.items():
            if _libc.unshare(CLONE_NEWNET) != 0:
                number = ctypes.get_errno()
                raise OSError(number, f"a network namespace cannot be made: {os.strerror(number)}")
            held = os.open("/proc/self/ns/net", os.O_RDONLY)
            self.namespaces[name] = f"/proc/{os.getpid()}/fd/{held}"
            device = _open_device(address)
            self._devices[self._addresses[name]] = device
            self._senders[device] = self._addresses[name]

    def set_delays(self, delays: list[tuple[str, str, float]]) -> None:
        """Set the delay of what is sent from now on. Pairs that are not listed have none."""
        self._delays = {(self._addresses[a], self._addresses[b]): float(seconds) for a, b, seconds in delays}

    def run(self, wake: int, on_wake: Any) -> None:
        """Carry packets for ever; `on_wake` is called when `wake` can be read."""
        devices = [*self._senders, wake]
        while True:
            # select takes microseconds; poll and epoll would round to milliseconds.
            ready, _, _ = select.select(devices, [], [], self._next_release())
            for descriptor in ready:
                if descriptor == wake:
                    os.read(wake, 4096)
                    on_wake()
                else:
                    self._take(descriptor)
            self._release()

    def _next_release(self) -> float | None:
        return max(0.0, self._waiting[0][0] - time.monotonic()) if self._waiting else None

    def _take(self, device: int) -> None:
        sender, now = self._senders[device], time.monotonic()
        for _ in range(_READ_AT_ONCE):
            try:
                packet = os.read(device, _LARGEST_PACKET)
            except BlockingIOError:
                return
            if packet[_HEADER_BYTES] >> 4 != 4:  # IPv6: the kernel's own announcements
                continue
            receiver = packet[_HEADER_BYTES + 16 : _HEADER_BYTES + 20]
            into = self._devices.get(receiver)
            if into is not None:
                self._count += 1  # keeps packets with the same release in their order
                due = now + self._delays.get((sender, receiver), 0.0)
                heapq.heappush(self._waiting, (due, self._count, into, packet))

    def _release(self) -> None:
        now = time.monotonic()
        while self._waiting and self._waiting[0][0] <= now:
            _, _, into, packet = heapq.heappop(self._waiting)
            try:
                os.write(into, packet)
            except OSError as fault:  # the receiver has no room: a lost packet, as in any network
                print(f"a packet was lost: {fault}", file=sys.stderr, flush=True)


def _open_device(address: str) -> int:
    """Return the TUN device of the namespace that this process is in, up and with its address; so is the loopback."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", DEVICE, _IFF_TUN | _IFF_NO_PI | _IFF_VNET_HDR))
    fcntl.ioctl(device, _TUNSETOFFLOAD, _TUN_F_CSUM | _TUN_F_TSO4)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for request, value in (
            (_SIOCSIFADDR, struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(address))),
            (_SIOCSIFNETMASK, struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(NETMASK))),
            (_SIOCSIFTXQLEN, struct.pack("i", _QUEUE_PACKETS)),
            (_SIOCSIFFLAGS, struct.pack("h", _IFF_UP | _IFF_RUNNING)),
        ):
            fcntl.ioctl(control, request, struct.pack("16s24s", DEVICE, value))
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16s24s", b"lo", struct.pack("h", _IFF_UP | _IFF_RUNNING)))
    return device


def hurry() -> bool:
    """Be served before other processes, or packets would be late by the machine's load. Returns whether always so."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except OSError:  # the control group has no real-time budget
        os.nice(-20)
        return False
    return True


def main() -> None:
    """Serve the folder given on the command line."""
    folder = Path(sys.argv[1])
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    signal.signal(signal.SIGHUP, lambda *_: None)
    try:
        wanted = json.loads((folder / "network.json").read_text())
        relay = Relay(wanted["nodes"])
        relay.set_delays(wanted["delays"])
        _write(folder, {"namespaces": relay.namespaces, "is_real_time": hurry()})
    except OSError as fault:
        _write(folder, {"fault": str(fault)})
        raise
    relay.run(read_end, lambda: relay.set_delays(json.loads((folder / "network.json").read_text())["delays"]))


def _write(folder: Path, answer: dict[str, Any]) -> None:
    """Write the answer in one step: a reader sees all of it or nothing."""
    (folder / "ready.new").write_text(json.dumps(answer))
    (folder / "ready.new").rename(folder / "ready.json")


if __name__ == "__main__":
    main()
