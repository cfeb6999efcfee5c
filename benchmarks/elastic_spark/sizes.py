# SPDX-License-Identifier: Apache-2.0
"""What every size sustains, and what new executors cost: each size in turn gets more than it can do."""

from __future__ import annotations

import argparse
import csv
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from statistics import median

from benchmarks.elastic_spark.pipeline import run, say, settings, source_options

from penstock.monitor.steady import SteadyBatches
from penstock.policies.elastic.sample_file import read_samples
from penstock.ports import Look
from penstock.records import Allocation, BatchProgress, Decision, PlanRequest

_FULL_BATCHES = 3
"""Full batches that a size needs at least, however long that takes."""
_WARM_UP = 3.0
"""The first size goes on for so many times as long, and its last part counts: its JVMs compile their code meanwhile."""
_SAMPLES, _STARTS = "throughput.csv", "starts.csv"

Rates = Sequence[float]


@dataclass(frozen=True)
class Start:
    """What was done from when executors came until the end of the first batch that began with them.

    Attributes
    ----------
    before, executors
        How many there were, and are.
    alone_seconds
        How long the batch that ran when they came had run.
    rows
        Records of that batch, and of the first one that began with them.
    seconds
        From when they were all there until the end of that one.
    """

    before: int
    executors: int
    alone_seconds: float
    rows: int
    seconds: float

    def lost_seconds(self, sustained: Mapping[int, float]) -> float:
        """Seconds of an executor that each new one cost: what all together could have done meanwhile, and did not."""
        left = max(0.0, self.rows - self.alone_seconds * sustained[self.before])
        lost = max(0.0, self.seconds - left / sustained[self.executors])
        return self.executors * lost / (self.executors - self.before)


class InTurn:
    """Gives an operator every size in turn, from the largest down, so that no size has executors with cold code.

    Then it goes up again, to see what is done until new executors work as the others do.

    Parameters
    ----------
    sizes
        What it gets, in this order.
    ups
        What it gets after these, each larger than the one before.
    rows
        Records of a full batch.
    least_seconds
        How long a size is watched at least.
    on_done
        Called with each size and the records a second of its full batches.
    on_start
        Called with what was seen after each step up.
    """

    name = "in-turn"
    every_seconds = 2.0

    def __init__(
        self,
        sizes: Sequence[Allocation],
        ups: Sequence[Allocation],
        *,
        rows: int,
        least_seconds: float,
        on_done: Callable[[Allocation, Rates], None],
        on_start: Callable[[Start], None],
    ) -> None:
        self._left = [*sizes, *ups]
        self._ups = len(ups)
        self._rows, self._least_seconds, self._on_done, self._on_start = rows, least_seconds, on_done, on_start
        self._had: Allocation | None = None
        self._across: list[BatchProgress] = []
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
        if len(self._left) <= self._ups:
            self._look_at_start(observed, look.telemetry.batches)
            return ()
        counts_from = self._since + (_WARM_UP - 1.0) * self._least_seconds * self._is_first
        rates = [rate for began, rate in self._rates if began >= counts_from]
        if len(rates) >= _FULL_BATCHES and at - counts_from >= self._least_seconds:
            self._had = self._left.pop(0)
            self._on_done(self._had, rates)
            self._rates, self._since, self._is_first = [], None, False
        return ()

    def _look_at_start(self, observed: Allocation, batches: Sequence[BatchProgress]) -> None:
        """Take the batch that ran when all the new executors were there, and the first one that began then."""
        assert self._since is not None
        self._across += [batch for batch in batches if batch.started_at < self._since]
        first = next((batch for batch in batches if batch.started_at >= self._since), None)
        if first is None or self._had is None:
            return
        running = self._across[-1:]
        start = Start(
            self._had.executors,
            observed.executors,
            alone_seconds=sum(self._since - batch.started_at for batch in running),
            rows=first.rows + sum(batch.rows for batch in running),
            seconds=first.ended_at - self._since,
        )
        self._on_start(start)
        self._had, self._since, self._across = self._left.pop(0), None, []

    def plan(self, request: PlanRequest) -> Decision:
        """The size whose turn it is."""
        target = self._left[0] if self._left else request.current
        return Decision(request.operator, request.at, self.name, request.current, target, f"the turn of {target}")

    def close(self) -> None:
        """Nothing was started."""


@dataclass(frozen=True)
class Measured:
    """What is known before the day.

    Attributes
    ----------
    samples
        A file with the samples of every size.
    sustained
        What each size sustains: the median of its samples.
    start_seconds
        Seconds of an executor that a new one costs before it works as the others do: the median of the steps up.
    """

    samples: Path
    sustained: dict[Allocation, float]
    start_seconds: float


def measured(folder: Path, chosen: argparse.Namespace) -> Measured:
    """Measure what the folder does not have yet."""
    path, starts = folder / _SAMPLES, folder / _STARTS
    for file, columns in ((path, ["executors", "cpu_share", "throughput"]), (starts, list(Start.__annotations__))):
        if not file.exists():
            _add(file, [columns])
    wanted = [Allocation(executors, chosen.share) for executors in range(chosen.sizes, 0, -1)]
    missing = [size for size in wanted if size not in _rates_of(path)]
    ups = [] if _starts_of(starts) else [size for size in reversed(wanted) if size.executors % 2 and size.executors > 1]
    if missing or ups:
        # Steps up begin at one executor.
        _measure(missing if missing[-1:] == wanted[-1:] else [*missing, wanted[-1]], ups, folder, chosen)
    rates = _rates_of(path)
    sustained = {size: median(rates[size]) for size in reversed(wanted)}
    by_executors = {size.executors: rate for size, rate in sustained.items()}
    return Measured(path, sustained, median(start.lost_seconds(by_executors) for start in _starts_of(starts)))


def _measure(sizes: list[Allocation], ups: list[Allocation], folder: Path, chosen: argparse.Namespace) -> None:
    load = {"shape": "constant:rate=20000,duration=3600s", "options": source_options(chosen)}
    stop, left = threading.Event(), len(sizes) + len(ups)

    def one_less() -> None:
        nonlocal left
        left -= 1
        if not left:
            stop.set()

    def keep(size: Allocation, rates: Rates) -> None:
        _add(folder / _SAMPLES, [[size.executors, size.cpu_share, f"{rate:.2f}"] for rate in rates])
        say(f"{size}: {median(rates):,.0f} records/s in {len(rates)} batches")
        one_less()

    def keep_start(start: Start) -> None:
        _add(folder / _STARTS, [list(astuple(start))])
        say(f"from {start.before} to {start.executors} executors: {start.rows} records in {start.seconds:.1f} s")
        one_less()

    # With more than they can do there is always a backlog, and a guard would keep executors from being taken away.
    made = settings(chosen, load, {"name": "fixed"}, "none")
    policy = InTurn(sizes, ups, rows=chosen.rows, least_seconds=chosen.each, on_done=keep, on_start=keep_start)
    run(made, free_folder(folder, "sizes"), policy=policy, stop=stop)
    if left:
        raise SystemExit(f"the run ended before {left} of its sizes had enough full batches; what was measured is kept")


def _add(path: Path, rows: Sequence[Sequence[object]]) -> None:
    with path.open("a", newline="") as file:
        csv.writer(file).writerows(rows)


def _starts_of(path: Path) -> list[Start]:
    with path.open(newline="") as file:
        return [
            Start(
                int(row["before"]),
                int(row["executors"]),
                float(row["alone_seconds"]),
                int(row["rows"]),
                float(row["seconds"]),
            )
            for row in csv.DictReader(file)
        ]


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
