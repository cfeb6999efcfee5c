# SPDX-License-Identifier: Apache-2.0
"""All runs as one table, and what was promised held against them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from statistics import mean, median
from typing import Any

from benchmarks.promise.rivals import LOADS, MACHINES, RIVALS

KEPT = 0.9
"""Of the runs where static keeps the bound, mead is to keep it in this part."""
_DYNAMIC = tuple(rival.name for rival in RIVALS if rival.spark)


@dataclass(frozen=True)
class Run:
    """One run, after its start-up."""

    load: str
    neighbour: str
    rival: str
    number: int
    bound_seconds: float
    p95_seconds: float | None
    violation_share: float | None
    """Part of the looks whose last window had a 95th percentile above the bound."""
    executor_seconds: float
    cpu_seconds: float
    """Executors times CPU share, over time: what was paid for."""
    static_cpu_seconds: float
    changes: int
    records_due: int | None
    records_done: int | None
    version: str
    commit: str | None
    failure: str = ""

    @property
    def is_kept(self) -> bool:
        """Whether the bound was kept; a run that failed has not kept it."""
        return not self.failure and self.p95_seconds is not None and self.p95_seconds <= self.bound_seconds

    def to_json(self) -> dict[str, Any]:
        """One line of the file of runs."""
        return asdict(self)


def table(runs: Sequence[Run]) -> list[str]:
    """Markdown: a row for each load, neighbour and rival; no run is left out."""
    lines = [
        "| load | machine | sized by | kept | p95, median (worst) | violated | executor-s | CPU of static | changes |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for load, neighbour, rival, group in _groups(runs):
        p95 = [run.p95_seconds for run in group if run.p95_seconds is not None]
        shares = [run.violation_share for run in group if run.violation_share is not None]
        done = [run for run in group if not run.failure]
        cells = [
            f"{median(p95):.1f} s ({max(p95):.1f} s)" if p95 else "unknown",
            f"{mean(shares):.1%}" if shares else "unknown",
            f"{mean(run.executor_seconds for run in done):,.0f}" if done else "",
            f"{mean(run.cpu_seconds / run.static_cpu_seconds for run in done):.0%}" if done else "",
            f"{mean(run.changes for run in done):.1f}" if done else "",
        ]
        kept = f"{sum(run.is_kept for run in group)} of {len(group)}"
        lines.append(f"| {load} | {neighbour} | {rival} | {kept} | {' | '.join(cells)} |")
    return lines


def verdicts(runs: Sequence[Run]) -> list[tuple[str, bool | None]]:
    """What was promised, and whether it was so; None: the runs that would say so are missing."""
    found: list[tuple[str, bool | None]] = []
    by = {(load, neighbour, rival): group for load, neighbour, rival, group in _groups(runs)}
    for load, neighbour in product(LOADS, MACHINES):
        where = f"{load}, {neighbour}"
        mead, static = by.get((load, neighbour, "mead"), []), by.get((load, neighbour, "static"), [])
        kept = {run.number for run in static if run.is_kept}
        beside = [run for run in mead if run.number in kept]
        found.append((
            f"{where}: mead keeps the bound in {KEPT:.0%} of the runs in which static does "
            f"({sum(run.is_kept for run in beside)} of {len(beside)})",
            None if not beside else sum(run.is_kept for run in beside) >= KEPT * len(beside),
        ))  # fmt: skip
        found.append((
            f"{where}: mead takes less CPU than static",
            _mean(mead, "cpu_seconds") < _mean(static, "cpu_seconds") if mead and static else None,
        ))  # fmt: skip
        for dynamic in _DYNAMIC:
            other = by.get((load, neighbour, dynamic), [])
            found.append((f"{where}: mead is better than {dynamic}", _is_better(mead, other)))
    return found


def _is_better(mead: Sequence[Run], other: Sequence[Run]) -> bool | None:
    """At most its violation time for fewer executor seconds, or half of it for as many."""
    if not mead or not other:
        return None
    violations, executors = _mean(mead, "violation_share"), _mean(mead, "executor_seconds")
    others, their_executors = _mean(other, "violation_share"), _mean(other, "executor_seconds")
    is_cheaper = violations <= others and executors < their_executors
    return is_cheaper or (violations <= 0.5 * others and executors <= their_executors)


def _mean(runs: Sequence[Run], name: str) -> float:
    """The mean over runs; a run that failed violates all the time."""
    return mean(1.0 if getattr(run, name) is None else float(getattr(run, name)) for run in runs)


def _groups(runs: Sequence[Run]) -> list[tuple[str, str, str, list[Run]]]:
    """The runs of each load, neighbour and rival, in a fixed order."""
    keys = sorted(
        {(run.load, run.neighbour, run.rival) for run in runs},
        key=lambda key: (LOADS.index(key[0]), MACHINES.index(key[1]), [rival.name for rival in RIVALS].index(key[2])),
    )
    return [(*key, [run for run in runs if (run.load, run.neighbour, run.rival) == key]) for key in keys]
