# SPDX-License-Identifier: Apache-2.0
"""The same results with pandas, from the whole file at once: what the query is checked against.

Where the query applies event after event and keeps sums, this takes the last event of each task on each machine before
a time, and adds up those that run. Both must agree to the last digit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.apps.google_cluster import events
from penstock.apps.google_cluster.events import ENDED, RUNNING
from penstock.apps.google_cluster.results import ClusterResults

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = {
    events.TIME: "time", events.JOB: "job", events.TASK: "task", events.MACHINE: "machine", events.EVENT: "event",
    events.CPU: "cpu", events.MEMORY: "memory", events.DISK: "disk",
}  # fmt: skip
_REQUESTS = ("cpu", "memory", "disk")
_PERCENTILES = {"median": 50, "p75": 75, "p90": 90, "p95": 95}


def expected_results(trace: Path, every_seconds: int = 900, lateness_seconds: int = 0) -> list[dict[str, Any]]:
    """Compute the results of a trace file (also .gz). Rows that are not whole are not allowed here."""
    import pandas as pd

    table = pd.read_csv(trace, header=None, dtype=str, usecols=list(_COLUMNS)).rename(columns=_COLUMNS)
    table = table[table.machine.notna() & table.event.isin([str(int(e)) for e in RUNNING | ENDED])]
    table = table[table.time != str(events.AFTER_THE_TRACE_US)]
    for name in ("time", "job", "task", "machine", "event"):
        table[name] = table[name].astype("int64")
    for name in _REQUESTS:
        table[name] = table[name].map(_in_units).astype("int64")
    # A stable sort keeps the file's order among equal times.
    table = table.sort_values("time", kind="stable")
    results: list[dict[str, Any]] = []
    at = 0
    while len(table) and events.TRACE_START_US + (at + lateness_seconds) * 1_000_000 <= table.time.iloc[-1]:
        results.append(
            {"time_seconds": float(at), **_statistics(table[table.time < events.TRACE_START_US + at * 10**6])}
        )
        at += every_seconds
    return results


def _in_units(text: object) -> int:
    return int(Decimal(text) * events.UNITS) if isinstance(text, str) else 0


def _statistics(before: pd.DataFrame) -> dict[str, Any]:
    last = before.drop_duplicates(["machine", "job", "task"], keep="last")
    running = last[last.event.isin([int(e) for e in RUNNING])]
    of_machine = running.groupby("machine").agg(
        tasks=("event", "size"), cpu=("cpu", "sum"), memory=("memory", "sum"), disk=("disk", "sum")
    )
    of_machine = of_machine.reindex(before.machine.unique(), fill_value=0)
    result: dict[str, Any] = {"machines": len(of_machine), "late_events": 0}
    for name in ("tasks", *_REQUESTS):
        units = 1 if name == "tasks" else events.UNITS
        column = of_machine[name]
        total = int(column.sum())
        result[f"{name}_total"] = total / units
        result[f"{name}_mean"] = total / (max(1, len(column)) * units)
        for label, percent in _PERCENTILES.items():
            result[f"{name}_{label}"] = _percentile(column, percent, units)
    return result


def _percentile(column: pd.Series[int], percent: int, units: int) -> float:
    if not len(column):
        return 0.0
    # Between two whole numbers, at whole hundredths of the way: what pandas rounds is put right by rounding to those.
    return round(100 * float(column.quantile(percent / 100))) / (100 * units)


def differences(found: ClusterResults | None, expected: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say where results differ from what is expected; none: they are equal to the last digit."""
    results = () if found is None else found.results
    faults = []
    if len(results) != len(expected):
        faults.append(f"{len(results)} results instead of {len(expected)}")
    for ours, theirs in zip(results, expected, strict=False):
        at = theirs["time_seconds"]
        faults += [
            f"at {at:g} s: {name} is {ours.get(name)!r} instead of {value!r}"
            for name, value in theirs.items()
            if ours.get(name) != value
        ]
    return faults
