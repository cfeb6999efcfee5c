# SPDX-License-Identifier: Apache-2.0
"""A `penstock run` in a process of its own, waited for; and what its store says of the throughput."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from penstock.errors import ClusterError
from penstock.evaluation.history import RunHistory
from penstock.evaluation.run_reading import read_history
from penstock.knowledge.sqlite import SqliteStore
from penstock.measuring.throughput import BatchEnd, Throughput, throughput_of
from penstock.records import Observation

_LAST_LINES = 15
_SHARE_TOLERANCE = 0.005


@dataclass(frozen=True)
class LiveRun:
    """A run that has ended."""

    folder: Path
    summary: Mapping[str, Any]
    history: RunHistory
    load_average: float
    """Of the machine over the last minute, at the end of the run: what else ran on it."""

    def output_of(self, operator: str) -> Path:
        """Where an operator wrote its result."""
        return self.folder / "operators" / operator / "output"


def working_folder(name: str) -> Path:
    """A new folder beside those of other runs, which stays: `penstock report` shows what is in it."""
    runs = Path("runs")
    runs.mkdir(exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=runs)).resolve()


def run_live(settings: Mapping[str, Any], folder: Path) -> LiveRun:
    """Run a pipeline on Spark and wait for its end.

    Spark has one driver in a process, and `running` wires it: so the command is started as a user starts it.

    Raises
    ------
    ClusterError
        The run failed; with the last lines that it printed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file, run_folder = folder / "settings.yaml", folder / "run"
    file.write_text(yaml.safe_dump(dict(settings)), encoding="utf-8")
    command = [sys.executable, "-m", "penstock", "run", str(file), "--no-view", "--json", "--folder", str(run_folder)]
    with (folder / "output.txt").open("w+", encoding="utf-8") as output:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=output, text=True, check=False)
        if done.returncode != 0:
            output.seek(0)
            said = "\n".join(output.read().splitlines()[-_LAST_LINES:])
            raise ClusterError(f"the run in {run_folder} ended with code {done.returncode}:\n{said}", target=str(file))
    store = SqliteStore.open_readonly(run_folder / "knowledge.sqlite")
    try:
        history = read_history(store)
    finally:
        store.close()
    return LiveRun(run_folder, json.loads(done.stdout.strip().splitlines()[-1]), history, os.getloadavg()[0])


def throughput(observations: Sequence[Observation], skip: int) -> Throughput | None:
    """What an operator did, batch by batch, after the first `skip` batches (at least 1); None: too few.

    The end of a batch is when it was first seen to have ended, so a single figure is as exact as the loop looks often.
    """
    ends: dict[int, tuple[float, int]] = {}
    for seen in observations:
        if seen.last_batch_id is not None and seen.records_done is not None:
            ends.setdefault(seen.last_batch_id, (seen.at, seen.records_done))
    # A batch without records took no part: nothing was there to be done.
    points = [ends[batch] for batch in sorted(ends)]
    points = [point for before, point in zip([(0.0, -1), *points], points, strict=False) if point[1] > before[1]]
    return throughput_of([BatchEnd(*point) for point in points[skip - 1 :]])


def settled(observations: Sequence[Observation], executors: int | None, shares: Sequence[float]) -> list[Observation]:
    """Those at which the operator had as many executors (None: any number) and one of these CPU shares."""
    return [
        seen
        for seen in observations
        if (has := seen.cluster.observed) is not None
        and executors in (None, has.executors)
        and any(abs(has.cpu_share - share) < _SHARE_TOLERANCE for share in shares)
    ]


def mean_utilisation(observations: Sequence[Observation]) -> float | None:
    """CPU used over CPU allowed, averaged over what was observed while there was something to do."""
    known = [seen.utilisation for seen in observations if seen.utilisation is not None and seen.backlog_records]
    return float(np.mean(known)) if known else None
