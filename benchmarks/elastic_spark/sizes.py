# SPDX-License-Identifier: Apache-2.0
"""What every size sustains: each in turn gets more than it can do, until enough of its batches were full."""

from __future__ import annotations

import argparse
import csv
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from benchmarks.elastic_spark.pipeline import run, say, settings, source_options

from penstock.monitor.steady import SteadyBatches
from penstock.policies.elastic.sample_file import read_samples
from penstock.ports import Look
from penstock.records import Allocation, Decision, PlanRequest

_FULL_BATCHES = 2
"""Full batches that a size needs at least, however long that takes."""
_WARM_UP = 3.0
"""The first size goes on for so many times as long, and its last part counts: its JVMs compile their code meanwhile."""

Rates = Sequence[float]


class InTurn:
    """Gives an operator every size in turn, from the largest down, so that no size has executors with cold code.

    Parameters
    ----------
    sizes
        What it gets, in this order.
    rows
        Records of a full batch.
    least_seconds
        How long a size is watched at least.
    on_done
        Called with each size and the records a second of its full batches.
    """

    name = "in-turn"
    every_seconds = 2.0

    def __init__(
        self, sizes: Sequence[Allocation], rows: int, least_seconds: float, on_done: Callable[[Allocation, Rates], None]
    ) -> None:
        self._left = list(sizes)
        self._rows, self._least_seconds, self._on_done = rows, least_seconds, on_done
        self._steady = SteadyBatches()
        self._rates: list[tuple[float, float]] = []
        self._since: float | None = None
        self._is_first = True

    def watch(self, look: Look) -> tuple[str, ...]:
        """Take the full batches of the size whose turn it is, and go on to the next when they are enough."""
        at, observed = look.telemetry.at, look.observation.cluster.observed
        steady = self._steady.take(at, observed, look.telemetry.batches)
        if not self._left or observed != self._left[0]:
            return ()
        if self._since is None:
            self._since = at
        self._rates += [
            (batch.started_at, batch.rows / batch.duration_seconds) for batch, _ in steady if batch.rows >= self._rows
        ]
        for batch, had in steady:
            say(f"{had}: {batch.rows} records in {batch.duration_seconds:.1f} s")
        counts_from = self._since + (_WARM_UP - 1.0) * self._least_seconds * self._is_first
        rates = [rate for began, rate in self._rates if began >= counts_from]
        if len(rates) >= _FULL_BATCHES and at - counts_from >= self._least_seconds:
            self._on_done(self._left.pop(0), rates)
            self._rates, self._since, self._is_first = [], None, False
        return ()

    def plan(self, request: PlanRequest) -> Decision:
        """The size whose turn it is."""
        target = self._left[0] if self._left else request.current
        return Decision(request.operator, request.at, self.name, request.current, target, f"the turn of {target}")

    def close(self) -> None:
        """Nothing was started."""


def sustained(folder: Path, chosen: argparse.Namespace) -> tuple[Path, dict[Allocation, float]]:
    """A file with the samples of every size, and the median of each; sizes that the file has are not measured again."""
    path = folder / "throughput.csv"
    if not path.exists():
        with path.open("w", newline="") as file:
            csv.writer(file).writerow(["executors", "cpu_share", "throughput"])
    wanted = [Allocation(executors, chosen.share) for executors in range(chosen.sizes, 0, -1)]
    missing = [size for size in wanted if size not in _rates_of(path)]
    if missing:
        _measure(missing, path, folder, chosen)
    rates = _rates_of(path)
    return path, {size: median(rates[size]) for size in reversed(wanted)}


def _measure(sizes: list[Allocation], path: Path, folder: Path, chosen: argparse.Namespace) -> None:
    load = {"shape": "constant:rate=20000,duration=3600s", "options": source_options(chosen)}
    stop, left = threading.Event(), set(sizes)

    def keep(size: Allocation, rates: Rates) -> None:
        with path.open("a", newline="") as file:
            csv.writer(file).writerows([size.executors, size.cpu_share, f"{rate:.2f}"] for rate in rates)
        say(f"{size}: {median(rates):,.0f} records/s in {len(rates)} batches")
        left.discard(size)
        if not left:
            stop.set()

    # With more than they can do there is always a backlog, and a guard would keep executors from being taken away.
    made = settings(chosen, load, {"name": "fixed"}, "none")
    run(made, free_folder(folder, "sizes"), policy=InTurn(sizes, chosen.rows, chosen.each, keep), stop=stop)
    if left:
        missing = ", ".join(str(size) for size in left)
        raise SystemExit(f"the run ended before {missing} had {_FULL_BATCHES} full batches; what was measured is kept")


def _rates_of(path: Path) -> dict[Allocation, list[float]]:
    found: dict[Allocation, list[float]] = {}
    if len(path.read_text().splitlines()) > 1:
        for sample in read_samples(path):
            found.setdefault(sample.allocation, []).append(sample.records_per_second)
    return found


def free_folder(folder: Path, name: str) -> Path:
    """The first of NAME-1, NAME-2, ... that does not exist."""
    number = 1
    while (folder / f"{name}-{number}").exists():
        number += 1
    return folder / f"{name}-{number}"
