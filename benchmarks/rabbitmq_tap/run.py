# SPDX-License-Identifier: Apache-2.0
"""What the tap costs: the broker's CPU with the pipeline's queue alone, and with monitor queue and tap beside it.

One producer and one consumer of the pipeline's queue run in both cases, in turns, at the same rate. The MEAD paper
saw the broker's CPU rise from 3 % to 5 %.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil

from penstock.adaptors.process.children import Warden
from penstock.adaptors.rabbitmq.connection import RabbitMQConnection
from penstock.adaptors.rabbitmq.fanout import Fanout, declare, remove
from penstock.adaptors.rabbitmq.queue_tap import QueueTap
from penstock.adaptors.rabbitmq.server import RabbitMQServer
from penstock.errors import ConfigurationError


def broker_process(server: RabbitMQServer) -> psutil.Process:
    """The Erlang machine below the server's script."""
    script = psutil.Process(server.pids[-1])
    return next(p for p in [script, *script.children(recursive=True)] if p.name().startswith("beam"))


def drain(connection: RabbitMQConnection, queue: str, is_over: threading.Event) -> None:
    """The pipeline: takes messages and does nothing with them."""
    link = connection.open()
    for _ in link.channel().consume(queue, auto_ack=True, inactivity_timeout=0.2):
        if is_over.is_set():
            break
    link.close()


def once(server: RabbitMQServer, rate: int, seconds: float, *, is_tapped: bool) -> dict[str, float]:
    """Broker's CPU in cores over one load, and how many messages the tap saw."""
    connection = RabbitMQConnection(server.url)
    fanout = Fanout("tapped" if is_tapped else "plain", monitor_queue=None if is_tapped else "")
    declare(connection, fanout)
    is_over = threading.Event()
    pipeline = threading.Thread(target=drain, args=(connection, fanout.pipeline_queue_name, is_over))
    pipeline.start()
    tap = QueueTap(connection, fanout.monitor_queue_name, most_per_second=rate * 2) if is_tapped else None
    if tap is not None:
        tap.start()
    broker = broker_process(server)
    shape = f"sampled:constant:rate={rate},duration={seconds:g}s"
    before, begun = broker.cpu_times(), time.monotonic()
    try:
        subprocess.run(
            [sys.executable, "-m", "penstock", "produce", server.url, "--exchange", fanout.exchange, "--shape", shape,
             "--transient", "--json"],
            check=True, stdout=subprocess.DEVNULL, timeout=seconds + 120,
        )  # fmt: skip
        after, ended = broker.cpu_times(), time.monotonic()
    finally:
        is_over.set()
        pipeline.join()
        if tap is not None:
            tap.stop()
        remove(connection, fanout)
    used = after.user + after.system - before.user - before.system
    return {"broker_cores": used / (ended - begun), "received": float(tap.counts().received if tap else 0)}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=1_000, help="messages a second")
    parser.add_argument("--seconds", type=float, default=10.0, help="of load in each run")
    parser.add_argument("--repeats", type=int, default=2, help="pairs of runs, of which the median counts")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
    arguments = parser.parse_args()
    try:
        with (
            Warden() as warden,
            tempfile.TemporaryDirectory() as folder,
            RabbitMQServer(warden, Path(folder) / "rabbitmq") as server,
        ):
            runs: dict[bool, list[dict[str, float]]] = {False: [], True: []}
            for _ in range(arguments.repeats):
                for is_tapped in (False, True):
                    runs[is_tapped].append(once(server, arguments.rate, arguments.seconds, is_tapped=is_tapped))
    except ConfigurationError as fault:
        print(f"left out: {fault}", file=sys.stderr)
        return 0
    cores = {tapped: statistics.median(run["broker_cores"] for run in some) for tapped, some in runs.items()}
    result: dict[str, Any] = {
        "rate": arguments.rate, "broker_cores": cores[False], "broker_cores_tapped": cores[True],
        "ratio": cores[True] / cores[False], "load_average": os.getloadavg()[0],
    }  # fmt: skip
    if arguments.json:
        print(json.dumps(result))
    else:
        print(
            f"{arguments.rate:,} messages/s: broker {100 * cores[False]:.1f} % of a core without the tap, "
            f"{100 * cores[True]:.1f} % with it (x {result['ratio']:.2f}; load average {result['load_average']:.1f})"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
