# SPDX-License-Identifier: Apache-2.0
"""Round trips between the hosts of any Spark cluster, measured by tasks on the executors of a running application.

One small job with as many tasks as there are executor cores. Each task opens connections to every host and reports
where it ran. Spark places tasks as it likes: hosts that no task came to have no entry in this round.
"""

from __future__ import annotations

import socket
import statistics
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from penstock.adaptors.round_trips import Address, connect_seconds

if TYPE_CHECKING:
    from pyspark import SparkContext


def measure_from_executors(
    spark_context: SparkContext, listening: Mapping[str, Address], *, tasks: int | None = None
) -> dict[tuple[str, str], float]:
    """Return round trips in seconds from the hosts with executors to all hosts.

    Parameters
    ----------
    spark_context
        The running application.
    listening
        By host: an address and a port on which something listens, such as its worker's.
    tasks
        How many tasks; default: the application's parallelism.
    """
    targets = dict(listening)
    count = tasks or spark_context.defaultParallelism

    def probe(_: Iterable[int]) -> Iterator[tuple[str, dict[str, float]]]:
        yield from measure_from_here(targets)

    found: dict[tuple[str, str], list[float]] = {}
    for here, seconds in spark_context.parallelize(range(count), count).mapPartitions(probe).collect():
        for there, taken in seconds.items():
            found.setdefault((here, there), []).append(taken)
    return {pair: statistics.median(taken) for pair, taken in found.items()}


def measure_from_here(listening: Mapping[str, Address]) -> Iterator[tuple[str, dict[str, float]]]:
    """Return the name of this host and the round trips to the others; nothing where it is none of them."""
    here = next((host for host, (address, _) in listening.items() if _is_this_host(address)), None)
    if here is not None:
        taken = {host: connect_seconds(address) for host, address in listening.items() if host != here}
        yield here, {host: seconds for host, seconds in taken.items() if seconds is not None}


def _is_this_host(address: str) -> bool:
    """Whether an address is one of this host: only then can a socket be bound to it."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
            own.bind((address, 0))
    except OSError:
        return False
    return True
