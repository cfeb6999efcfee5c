# SPDX-License-Identifier: Apache-2.0
"""What runs on Spark: the log analysis on small executors, and what is kept of it while it goes by."""

from __future__ import annotations

import argparse
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.evaluation.run_reading import read_history
from penstock.knowledge.sqlite import SqliteStore
from penstock.loop import CycleReport
from penstock.ports import Policy
from penstock.records import Observation
from penstock.running.pipeline_run import run_pipeline
from penstock.settings import RunSettings, parse_settings

NAME = "log-analysis"
_SAID_EVERY_SECONDS = 15.0


@dataclass
class Watched:
    """Prints where a run is, and its changes, while it goes by."""

    _began_at: float | None = None
    _said_at: float = 0.0

    def phase(self, text: str, fraction: float | None = None) -> None:
        """Say what is done now."""
        if fraction is None:
            say(text)

    def report(self, report: CycleReport) -> None:
        """Print changes, and now and then what is seen."""
        seen, decision = report.observation, report.decision
        if self._began_at is None:
            self._began_at = seen.at
        if decision is not None and decision.is_change:
            say(f"{decision.change_text}: {decision.reason}")
        if seen.at - self._said_at >= _SAID_EVERY_SECONDS:
            self._said_at = seen.at
            say(_line(seen, seen.at - self._began_at))

    def fault(self, operator: str, text: str) -> None:
        """Print a fault."""
        say(f"{operator}: {text}")


def say(text: str) -> None:
    """A line of progress."""
    print(f"    {text}", file=sys.stderr, flush=True)


def _line(seen: Observation, seconds: float) -> str:
    rate, waiting, latency = seen.arrival_rate_rows_per_second, seen.backlog_records, seen.latency
    return ", ".join(
        [
            f"{seconds:.0f} s: {seen.cluster.observed}",
            "arrivals unknown" if rate is None else f"{rate:,.0f} records/s arrive",
            "backlog unknown" if waiting is None else f"{waiting:,.0f} wait or are in work",
            "age unknown" if latency is None else f"oldest {latency.max_seconds:.1f} s",
            "no batch yet" if seen.batch_seconds is None else f"batches of {seen.batch_seconds:.1f} s",
        ]
    )


def source_options(chosen: argparse.Namespace) -> dict[str, Any]:
    """The records, and the cap on a batch that makes it clear what a size sustains."""
    return {"payload": "log", "partitions": 2 * chosen.sizes, "maxRowsPerBatch": chosen.rows}


def settings(
    chosen: argparse.Namespace, load: dict[str, Any], policy: dict[str, Any], guards: str | dict[str, Any]
) -> RunSettings:
    """A run of the log analysis on small executors."""
    return parse_settings(
        {
            "name": "elastic-spark",
            "arrivals": load,
            "operators": [
                {
                    "name": NAME,
                    "app": "penstock.apps.log_analysis:log_analysis",
                    "executors": [1, chosen.sizes],
                    "cpu_shares": [chosen.share],
                    "executor_memory": "600m",
                    "driver_memory": "700m",
                    # Warm within seconds, so that what was measured is what the day has.
                    "spark": {"spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"},
                }
            ],
            "policy": policy,
            "guards": guards,
            "window": "10s",
            "warm_up": "20s",
            "drain": "300s",
        },
        "benchmark",
    )


def run(
    settings: RunSettings, folder: Path, *, policy: Policy | None = None, stop: threading.Event | None = None
) -> None:
    """One run to its end, or until it is stopped."""
    run_pipeline(settings, folder, listener=Watched(), stop=stop or threading.Event(), policy=policy)


def kept(folder: Path) -> tuple[list[Observation], list[float]]:
    """What the store of a run has: every look, and the times of its changes."""
    store = SqliteStore.open_readonly(folder / "knowledge.sqlite")
    try:
        history = read_history(store)
    finally:
        store.close()
    return list(history.observations[NAME]), [change.at for change in history.changes]
