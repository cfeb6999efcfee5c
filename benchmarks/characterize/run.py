# SPDX-License-Identifier: Apache-2.0
"""Seconds of the characterisation job over a whole trace with one and with two executors, and without Spark."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penstock._characterize import Characterization, characterize_traces
from penstock.apps.characterize import COLUMNS, WindowSettings, characterize_gaps
from penstock.arrivals import Reading, open_gaps

TRACE = Path("bc-paug89") / "BC-pAug89.timestamps_us.txt.xz"
READING = Reading(format="bc-paug89")


def data_folder() -> Path:
    """Where the real traces are: PENSTOCK_DATA, or shared/data beside the repository."""
    named = os.environ.get("PENSTOCK_DATA")
    return Path(named) if named else Path(__file__).resolve().parents[3] / "shared" / "data"


def here(path: Path, settings: WindowSettings) -> tuple[float, float, list[dict[str, Any]]]:
    """Seconds for reading and for the windows in this process, and their rows."""
    begun = time.perf_counter()
    gaps = open_gaps(path, READING)
    read = time.perf_counter()
    rows = characterize_gaps(path.name, gaps, settings)
    return read - begun, time.perf_counter() - read, rows


def differences(result: Characterization, rows: Sequence[dict[str, Any]]) -> int:
    """Cells of the job's table that are not those computed here."""
    names = [name for name in COLUMNS if name != "fit_seconds"]
    return sum(far[name] != near[name] for far, near in zip(result.rows, rows, strict=True) for name in names)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--window", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=1, help="runs of each, in turn, of which the quickest counts")
    parser.add_argument("--executors", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
    arguments = parser.parse_args()
    path = data_folder() / TRACE
    if not path.is_file():
        print(f"no real trace: {path} is not there; set PENSTOCK_DATA to the folder of the traces", file=sys.stderr)
        return 0
    settings = WindowSettings(arguments.window)
    load = os.getloadavg()[0]
    reading_seconds, windows_seconds, rows = here(path, settings)
    runs: dict[int, list[Characterization]] = {count: [] for count in arguments.executors}
    for _ in range(arguments.repeats):
        for count, results in runs.items():
            results.append(characterize_traces({path.name: path}, READING, settings, executors=count))
    seconds = {count: min(result.seconds for result in results) for count, results in runs.items()}
    first = arguments.executors[0]
    document = {
        "trace": TRACE.parts[0],
        "windows": len(rows),
        "window": arguments.window,
        "cores": os.cpu_count(),
        "free_cores": max(0.0, round((os.cpu_count() or 1) - load, 1)),
        "here_seconds": {"reading": reading_seconds, "windows": windows_seconds},
        "job_seconds": seconds,
        "speed_up": {count: seconds[first] / value for count, value in seconds.items()},
        "cells_that_differ": sum(differences(result, rows) for results in runs.values() for result in results),
    }
    if arguments.json:
        print(json.dumps(document))
    else:
        for name, value in document.items():
            print(f"{name:20} {value}")
    return 0 if document["cells_that_differ"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
