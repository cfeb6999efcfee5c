# SPDX-License-Identifier: Apache-2.0
"""How exact a geo network is: round trips against the delay asked for, throughput of one connection under it.

The loopback of this machine is measured the same way in the same run: what the machine does to both shows there.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from penstock.adaptors.geo.delays import OneWayDelays
from penstock.adaptors.geo.network import GeoNetwork
from penstock.adaptors.process.children import Warden
from penstock.cli.progress import busy
from penstock.errors import PenstockError

ASKED_MS = (0, 1, 10, 50, 100, 200, 300)
HERE, THERE = "home", "far"
_CHUNK = bytes(1 << 18)


@dataclass(frozen=True)
class Result:
    """One delay. Times are round trips in milliseconds, throughput in megabytes (10^6 bytes) a second."""

    asked_ms: float
    shortest_ms: float
    median_ms: float
    p95_ms: float
    median_error_ms: float
    megabytes_per_second: float
    relay_cpu_seconds_per_gigabyte: float | None
    """CPU of the relay while data went through; None for the loopback, which has none."""
    load_average: float


@contextlib.contextmanager
def echo(address: str) -> Iterator[int]:
    """Something that sends back single bytes and swallows the rest, on a free port; made in the caller's network."""
    server = socket.create_server((address, 0))

    def serve(connection: socket.socket) -> None:
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while data := connection.recv(1 << 20):
                if len(data) == 1:
                    connection.sendall(data)

    def accept() -> None:
        with contextlib.suppress(OSError):  # closed at the end
            while True:
                threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield int(server.getsockname()[1])
    finally:
        server.close()


def round_trips_ms(connection: socket.socket, count: int) -> list[float]:
    """Times of single bytes there and back, after two that warm up."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    taken = []
    for _ in range(count + 2):
        begun = time.perf_counter()
        connection.sendall(b"x")
        connection.recv(1)
        taken.append(1e3 * (time.perf_counter() - begun))
    return taken[2:]


def megabytes_per_second(connection: socket.socket, seconds: float) -> tuple[float, int]:
    """What one connection takes once its window has grown: the second half of the time counts. Also: all bytes sent."""
    sent, begun, counted_from, counted = 0, time.perf_counter(), None, 0
    while (now := time.perf_counter()) - begun < seconds:
        connection.sendall(_CHUNK)
        sent += len(_CHUNK)
        if now - begun > seconds / 2:
            counted_from = counted_from or now
            counted += len(_CHUNK)
    assert counted_from is not None
    return counted / 1e6 / (time.perf_counter() - counted_from), sent


def cpu_seconds(pid: int) -> float:
    """CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(address: tuple[str, int], asked_ms: float, count: int, seconds: float, relay: int | None) -> Result:
    """Measure from the network that this thread is in."""
    with socket.create_connection(address, 30) as connection:
        trips = round_trips_ms(connection, count)
    before = None if relay is None else cpu_seconds(relay)
    with socket.create_connection(address, 30) as connection:
        rate, sent = megabytes_per_second(connection, seconds)
    spent = None if relay is None or before is None else (cpu_seconds(relay) - before) / (sent / 1e9)
    median = statistics.median(trips)
    return Result(
        asked_ms, min(trips), median, statistics.quantiles(trips, n=20)[-1], median - asked_ms, rate, spent,
        os.getloadavg()[0],
    )  # fmt: skip


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one object as the only line")
    parser.add_argument("--trips", type=int, default=50, help="round trips for each delay")
    parser.add_argument("--seconds", type=float, default=8.0, help="of sending for each delay")
    options = parser.parse_args()
    try:
        with Warden() as warden, GeoNetwork(warden, warden.temporary_folder(), (HERE, THERE)) as network:
            relay = next(child.pid for child in warden.children)
            with echo("127.0.0.1") as port:
                with busy("the loopback"):
                    loopback = measure(("127.0.0.1", port), 0.0, options.trips, options.seconds, None)
                with network.entered(THERE):
                    server = echo(network.address(THERE))
                    far_port = server.__enter__()
                results = []
                for asked in ASKED_MS:
                    network.set_delays(OneWayDelays.of_round_trips({(HERE, THERE): asked / 1e3}))
                    time.sleep(0.5)
                    with network.entered(HERE), busy(f"{asked} ms, up to {max(ASKED_MS)} ms"):
                        address = (network.address(THERE), far_port)
                        results.append(measure(address, asked, options.trips, options.seconds, relay))
                server.__exit__(None, None, None)
            is_real_time = network.is_real_time
    except PenstockError as fault:
        print(fault, file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps({"loopback": asdict(loopback), "relay_is_real_time": is_real_time,
                          "results": [asdict(result) for result in results]}))  # fmt: skip
        return 0
    print("| asked ms | shortest | median | p95 | MB/s | of the loopback's | relay CPU s per GB | load |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|")
    for result in (loopback, *results):
        name = "loopback" if result is loopback else f"{result.asked_ms:g}"
        spent = result.relay_cpu_seconds_per_gigabyte
        print(
            f"| {name} | {result.shortest_ms:.2f} | {result.median_ms:.2f} | {result.p95_ms:.2f} "
            f"| {result.megabytes_per_second:.1f} | {result.megabytes_per_second / loopback.megabytes_per_second:.3f} "
            f"| {'' if spent is None else f'{spent:.1f}'} | {result.load_average:.1f} |"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
