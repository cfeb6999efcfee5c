# SPDX-License-Identifier: Apache-2.0
"""What an operator's executors measure of the way to other nodes: written by its process, read by the run.

The executors of an application are the only agents that Penstock has on the nodes of somebody else's cluster. They
measure from where they are; the driver, which is on the run's own machine, is measured from by the run itself.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.running.operator_job import ROUND_TRIPS_FILE, OperatorJob

if TYPE_CHECKING:
    from pyspark import SparkContext

    from penstock.adaptors.round_trips import Address, RoundTrips

_LOG = logging.getLogger(__name__)

EVERY_SECONDS = 60.0
"""Between two measurements: each takes some of the executors' time."""
_VALID_SECONDS = 4.0 * EVERY_SECONDS
_MOST_FAILURES = 3
"""In a row, before it is given up: a job fails once when a node is lost, and always where executors lack Penstock."""


def keep_measuring(spark_context: SparkContext, job: OperatorJob, stop: threading.Event) -> None:
    """Measure from the executors every minute, until `stop` is set or it fails again and again; called in a thread."""
    from penstock.adaptors.spark.executor_round_trips import measure_from_executors

    path, failures = Path(job.folder) / ROUND_TRIPS_FILE, 0
    while failures < _MOST_FAILURES and not stop.wait(EVERY_SECONDS):
        try:
            write_round_trips(path, measure_from_executors(spark_context, job.measure_to))
            failures = 0
        except Exception as fault:  # Spark's or the disk's, whatever it is: plans go on with what is known
            failures += 1
            again = "any more" if failures == _MOST_FAILURES else "this time"
            _LOG.warning("round trips are not measured %s: %s: %s", again, type(fault).__name__, fault)


def write_round_trips(path: Path, seconds: Mapping[tuple[str, str], float]) -> None:
    """Write the file in one step: a reader sees all of it or nothing."""
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps([[*pair, taken] for pair, taken in seconds.items()]), encoding="utf-8")
    draft.replace(path)


def read_round_trips(folders: Iterable[Path], now: float) -> dict[tuple[str, str], float]:
    """What the executors of these operators last measured; files that were not renewed for minutes do not count."""
    found: dict[tuple[str, str], float] = {}
    for folder in folders:
        path = folder / ROUND_TRIPS_FILE
        try:
            # One "of the future" was written before the clock was set back: nobody knows how long ago.
            if abs(now - path.stat().st_mtime) <= _VALID_SECONDS:
                found |= {(a, b): float(seconds) for a, b, seconds in json.loads(path.read_text(encoding="utf-8"))}
        except (OSError, ValueError):  # none was measured yet
            continue
    return found


def standalone_round_trips(
    listening: Mapping[str, Address], driver: str, folders: Iterable[Path], nodes: Iterable[str]
) -> RoundTrips:
    """The round trips of a standalone cluster whose workers listen somewhere.

    Parameters
    ----------
    listening
        By node: where its worker listens.
    driver
        What the node of the drivers, and of this process, is called.
    folders
        Of the operators, whose executors measure from their nodes.
    nodes
        Those that count, besides the driver's.
    """
    from penstock.adaptors.round_trips import RoundTrips, connect_seconds

    places = tuple(folders)

    def measure(sender: str, receiver: str) -> float | None:
        if sender == driver:
            return connect_seconds(listening[receiver]) if receiver in listening else None
        return read_round_trips(places, time.time()).get((sender, receiver))

    names = (driver, *(node for node in nodes if node != driver))
    return RoundTrips(measure, lambda: names)
