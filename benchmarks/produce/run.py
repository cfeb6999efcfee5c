# SPDX-License-Identifier: Apache-2.0
"""How late records go out of `penstock produce` at rising rates, into a real RabbitMQ and a real Kafka.

Each rate is one run of the command in a process of its own, against a broker started for it on this machine. The bar
is a p99 below 5 ms at 20,000 records a second.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.adaptors.process.children import Warden
from penstock.errors import ConfigurationError

BAR_SECONDS = 0.005


@contextmanager
def rabbitmq(warden: Warden, folder: Path) -> Iterator[Callable[[int], list[str]]]:
    """A private RabbitMQ; gives the arguments of the command for a run."""
    from penstock.adaptors.rabbitmq.connection import RabbitMQConnection
    from penstock.adaptors.rabbitmq.fanout import Fanout, declare
    from penstock.adaptors.rabbitmq.server import RabbitMQServer

    with RabbitMQServer(warden, folder / "rabbitmq") as server:

        def arguments(rate: int) -> list[str]:
            # A queue nobody reads: bounded, or the broker's memory would be what is measured.
            declare(RabbitMQConnection(server.url), Fanout(f"load-{rate}"))
            return [server.url, "--exchange", f"load-{rate}"]

        yield arguments


@contextmanager
def kafka(warden: Warden, folder: Path) -> Iterator[Callable[[int], list[str]]]:
    """A private Kafka; gives the arguments of the command for a run."""
    from penstock.adaptors.kafka.broker import KafkaBroker
    from penstock.adaptors.kafka.connection import KafkaConnection
    from penstock.adaptors.kafka.topics import Topics

    with KafkaBroker(warden, folder / "kafka") as broker:

        def arguments(rate: int) -> list[str]:
            Topics(KafkaConnection(broker.bootstrap_servers)).create(f"load-{rate}", partitions=2)
            return [f"kafka://{broker.bootstrap_servers}/load-{rate}"]

        yield arguments


BROKERS = {"rabbitmq": rabbitmq, "kafka": kafka}


def measure(target: list[str], rate: int, seconds: float) -> dict[str, Any]:
    """One run of the command."""
    shape = f"sampled:constant:rate={rate},duration={seconds:g}s"
    run = subprocess.run(
        [sys.executable, "-m", "penstock", "produce", *target, "--shape", shape, "--json"],
        stdout=subprocess.PIPE, text=True, check=False, timeout=seconds + 180,
    )  # fmt: skip
    if not run.stdout.strip():
        raise SystemExit(f"penstock produce ended with exit code {run.returncode}")
    result: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return result


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rates", type=int, nargs="+", default=[1_000, 5_000, 10_000, 20_000])
    parser.add_argument("--seconds", type=float, default=10.0, help="of load at each rate")
    parser.add_argument("--brokers", nargs="+", choices=sorted(BROKERS), default=sorted(BROKERS))
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    arguments = parser.parse_args()
    rows = []
    if not arguments.json:
        print(f"{'broker':<10}{'records/s':>10}{'sent':>10}{'mean ms':>10}{'p99 ms':>10}{'max ms':>10}  load average")
    with Warden() as warden, tempfile.TemporaryDirectory() as folder:
        for name in arguments.brokers:
            try:
                with BROKERS[name](warden, Path(folder)) as target:
                    for rate in arguments.rates:
                        result = measure(target(rate), rate, arguments.seconds)
                        row = {"broker": name, "rate": rate, "load_average": os.getloadavg()[0], **result}
                        rows.append(row)
                        if not arguments.json:
                            late = {key: 1e3 * row["lateness"][f"{key}_seconds"] for key in ("mean", "p99", "max")}
                            print(
                                f"{name:<10}{rate:>10,}{row['records_sent']:>10,}{late['mean']:>10.2f}"
                                f"{late['p99']:>10.2f}{late['max']:>10.1f}  {row['load_average']:.1f}"
                                + ("" if row["lateness"]["p99_seconds"] <= BAR_SECONDS else "  above 5 ms")
                                + (
                                    f"  {row['records_unconfirmed']:,} unconfirmed"
                                    if row["records_unconfirmed"]
                                    else ""
                                ),
                                flush=True,
                            )
            except ConfigurationError as fault:
                print(f"{name}: left out: {fault}", file=sys.stderr)
    if arguments.json:
        print(json.dumps({"rows": rows}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
