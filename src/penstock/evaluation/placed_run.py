# SPDX-License-Identifier: Apache-2.0
"""Measurements at several sizes and delays, in a process of their own: each is handed on when it is taken."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import ClusterError
from penstock.measuring.placed_turns import PlacedJob
from penstock.measuring.real_time_turns import RealTimeJob
from penstock.records import encode

_PROGRAMS = {
    PlacedJob: "penstock.running.placed_measurement",
    RealTimeJob: "penstock.running.real_time_measurement",
}
_LAST_LINES = 15


@dataclass(frozen=True, slots=True)
class TakenTurn:
    """What a turn of a job gave: its place among the turns, and the figures."""

    place: int
    records_per_second: float
    batches: int
    load_average: float
    """Of the machine over the last minute: what else ran on it."""
    steal: float | None = None
    """The part of its CPU that other guests had meanwhile; None: it is not known."""


def measure_live(job: PlacedJob | RealTimeJob, folder: Path) -> Iterator[TakenTurn]:
    """Start the measurement of a job, and give each turn as soon as it is taken.

    Raises
    ------
    ClusterError
        It failed; with the last lines that it printed. What was taken before was given.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "job.json"
    file.write_text(encode(job), encoding="utf-8")
    with (folder / "output.txt").open("w+", encoding="utf-8") as output:
        command = [sys.executable, "-m", _PROGRAMS[type(job)], str(file)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=output, text=True) as child:
            assert child.stdout is not None
            try:
                for line in child.stdout:
                    yield TakenTurn(**json.loads(line))
            except BaseException:
                child.terminate()
                raise
        if child.returncode != 0:
            output.seek(0)
            said = "\n".join(output.read().splitlines()[-_LAST_LINES:])
            raise ClusterError(
                f"the measurement in {folder} ended with code {child.returncode}:\n{said}", target=str(file)
            )
