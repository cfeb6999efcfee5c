# SPDX-License-Identifier: Apache-2.0
"""Files like the public trace, small and seeded: for tests, and to try the query without the trace.

They have what makes the real one awkward: a snapshot at time 0, events without a machine, requests that are missing or
written with an exponent, several events at one time, tasks that come back on another machine, and tasks whose end or
start is missing.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
from pathlib import Path

import numpy as np

from penstock.apps.google_cluster.events import TRACE_START_US, Event
from penstock.errors import ConfigurationError

_ENDS = (Event.FINISH, Event.FINISH, Event.FINISH, Event.KILL, Event.EVICT, Event.FAIL, Event.LOST)
_MEAN_RUN_US = 1_500e6
_STEP_US = 50_000
"""Times are multiples of it, so that some are equal."""


def generated_rows(machines: int, tasks: int, seconds: float, seed: int = 0) -> list[str]:
    """Return the rows of a trace in the published form, in the order of time, without line ends.

    Parameters
    ----------
    machines, tasks
        How many there are; a third of the tasks is there from the start.
    seconds
        Trace time from its start (600 s into the file's times) to its end.
    seed
        The same rows for the same seed.
    """
    for name, value in (("machines", machines), ("tasks", tasks), ("seconds", seconds)):
        if not value > 0:
            raise ConfigurationError(f"{name}: {value} must be above 0", field=name)
    rng = np.random.default_rng(seed)
    end_us = TRACE_START_US + round(seconds * 1e6)
    found: list[tuple[int, str]] = []
    for number in range(tasks):
        found += _task(rng, number, machines, end_us, is_there=number < tasks // 3)
    # Stable: events of one task at one time stay in their order.
    return [row for _, row in sorted(found, key=lambda timed: timed[0])]


def write_generated(path: Path, machines: int, tasks: int, seconds: float, seed: int = 0) -> Path:
    """Write such a trace, compressed where the name ends in .gz."""
    text = "".join(row + "\n" for row in generated_rows(machines, tasks, seconds, seed)).encode()
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
    return path


def _task(
    rng: np.random.Generator, number: int, machines: int, end_us: int, *, is_there: bool
) -> list[tuple[int, str]]:
    job, index = 1_000_000 + number // 7, number % 7
    user = base64.b64encode(hashlib.sha256(str(job % 50).encode()).digest()).decode()
    request = _request(rng)

    def row(at: int, event: Event, machine: int | None) -> tuple[int, str]:
        missing = "2" if request == ("", "", "") else ""
        fields = (
            at, missing, job, index, "" if machine is None else machine, int(event), user, job % 4, job % 12, *request,
            "0",
        )  # fmt: skip
        return at, ",".join(str(field) for field in fields)

    at = 0 if is_there else _on_grid(rng.uniform(TRACE_START_US, end_us))
    machine = 5_000_000 + int(rng.integers(machines))
    # As in the public trace, tasks of the snapshot are submitted with their machine.
    rows = [row(at, Event.SUBMIT, machine if is_there and rng.random() < 0.6 else None)]
    while True:
        if rng.random() < 0.1:
            request = _request(rng)
            rows.append(row(at, Event.UPDATE_PENDING, None))
        if rng.random() < 0.05:
            rows.append(row(at, Event.KILL, None))
            return rows
        if rng.random() > 0.02:
            rows.append(row(at, Event.SCHEDULE, machine))
        at = _on_grid(max(at, TRACE_START_US) + rng.exponential(_MEAN_RUN_US))
        if at < end_us and rng.random() < 0.15:
            request = _request(rng)
            rows.append(row(at, Event.UPDATE_RUNNING, machine))
            at = _on_grid(at + rng.exponential(_MEAN_RUN_US))
        if at >= end_us:
            return rows
        end = _ENDS[int(rng.integers(len(_ENDS)))]
        if rng.random() > 0.02:
            rows.append(row(at, end, machine))
        if end not in (Event.EVICT, Event.FAIL) or rng.random() < 0.3:
            return rows
        rows.append(row(at, Event.SUBMIT, None))
        machine = 5_000_000 + int(rng.integers(machines))


def _request(rng: np.random.Generator) -> tuple[str, str, str]:
    if rng.random() < 0.01:
        return "", "", ""
    cpu = rng.choice(["0", "0.00625", "0.0125", "0.025", "0.0625", "0.125", "0.5"])
    memory = f"{rng.uniform(0, 0.1):.4g}"
    return str(cpu), memory, f"{rng.uniform(0, 3e-4):.4g}"


def _on_grid(us: float) -> int:
    return int(us // _STEP_US) * _STEP_US
