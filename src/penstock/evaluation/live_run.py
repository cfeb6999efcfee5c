# SPDX-License-Identifier: Apache-2.0
"""A `penstock run` in a process of its own, waited for; and what its store says of the throughput."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from penstock.errors import ClusterError, ConfigurationError
from penstock.evaluation.history import RunHistory
from penstock.evaluation.run_reading import read_history
from penstock.knowledge.sqlite import SqliteStore
from penstock.measuring.throughput import BatchEnd, Throughput, throughput_of
from penstock.records import Observation

_LAST_LINES = 15
_SHARE_TOLERANCE = 0.005
_LOOK_SECONDS = 2.0


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


def geo_working_folder(name: str) -> Path:
    """The same for what needs a geo cluster; ConfigurationError, in one line, where none can be made here."""
    from penstock.adaptors.geo.namespaces import check_can_be_made

    check_can_be_made()
    return working_folder(name)


@dataclass(frozen=True, slots=True)
class Watcher:
    """Hears how far a run is: what part of all records an operator has done."""

    operator: str
    records: int
    progress: Callable[[float], None]

    def look(self, path: Path) -> None:
        """Report what the run's store says; nothing while there is none."""
        if not path.is_file():
            return
        try:
            store = SqliteStore.open_readonly(path)
        except ConfigurationError:  # made, and not yet laid out
            return
        try:
            newest = store.observations(self.operator, limit=1)
        finally:
            store.close()
        if newest and newest[0].records_done is not None:
            self.progress(min(1.0, newest[0].records_done / self.records))


def part_of(progress: Callable[[float], None], start: float, share: float) -> Callable[[float], None]:
    """Hears the progress of one part of the whole: the part begins at `start` and is `share` of it."""
    return lambda done: progress(start + share * done)


def run_live(settings: Mapping[str, Any], folder: Path, watcher: Watcher | None = None) -> LiveRun:
    """Run a pipeline on Spark and wait for its end.

    Spark has one driver in a process, and `running` wires it: so the command is started as a user starts it.

    Parameters
    ----------
    settings, folder
        What is run, and where what it leaves is put.
    watcher
        Hears how far it is. None: nobody watches.

    Raises
    ------
    ClusterError
        The run failed; with the last lines that it printed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file, run_folder = folder / "settings.yaml", folder / "run"
    file.write_text(yaml.safe_dump(dict(settings)), encoding="utf-8")
    command = [sys.executable, "-m", "penstock", "run", str(file), "--no-view", "--json", "--folder", str(run_folder)]
    path = run_folder / "knowledge.sqlite"
    with (folder / "output.txt").open("w+", encoding="utf-8") as output:
        # As with `subprocess.run`, whatever ends this ends the run.
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=output, text=True) as child:
            try:
                printed = _wait(child, watcher, path)
            except BaseException:
                child.terminate()
                raise
        if child.returncode != 0:
            output.seek(0)
            said = "\n".join(output.read().splitlines()[-_LAST_LINES:])
            raise ClusterError(f"the run in {run_folder} ended with code {child.returncode}:\n{said}", target=str(file))
    store = SqliteStore.open_readonly(path)
    try:
        history = read_history(store)
    finally:
        store.close()
    return LiveRun(run_folder, json.loads(printed.strip().splitlines()[-1]), history, os.getloadavg()[0])


def _wait(child: subprocess.Popen[str], watcher: Watcher | None, path: Path) -> str:
    """What the run printed, when it has ended."""
    while True:
        try:
            return child.communicate(timeout=_LOOK_SECONDS)[0]
        except subprocess.TimeoutExpired:
            if watcher is not None:
                watcher.look(path)


def throughput(observations: Sequence[Observation], skip: int, least_done: int = 0) -> Throughput | None:
    """What an operator did, batch by batch; None: too few batches.

    The end of a batch is when it was first seen to have ended, so a single figure is as exact as the loop looks often.

    Parameters
    ----------
    observations
        Of one operator.
    skip
        First batches that are not counted, at least 1.
    least_done
        Nor are batches before so many records were done: runs are compared over the same records, as some cost more.
    """
    return throughput_of([BatchEnd(*point) for point in _counted(observations, skip, least_done)])


def done_before(observations: Sequence[Observation], skip: int) -> int:
    """The records that were done when counting began; 0 if it never did."""
    points = _counted(observations, skip, 0)
    return points[0][1] if points else 0


def while_counted(observations: Sequence[Observation], skip: int, least_done: int = 0) -> list[Observation]:
    """Those of the time over which `throughput` counts: other figures of a run are to be of the same batches."""
    points = _counted(observations, skip, least_done)
    return [seen for seen in observations if points[0][0] < seen.at <= points[-1][0]] if points else []


def _counted(observations: Sequence[Observation], skip: int, least_done: int) -> list[tuple[float, int]]:
    return [end for end in _batch_ends(observations)[skip - 1 :] if end[1] >= least_done]


def _batch_ends(observations: Sequence[Observation]) -> list[tuple[float, int]]:
    """When each batch was first seen to have ended, and the records that were done by then."""
    ends: dict[int, tuple[float, int]] = {}
    for seen in observations:
        if seen.last_batch_id is not None and seen.records_done is not None:
            ends.setdefault(seen.last_batch_id, (seen.at, seen.records_done))
    # A batch without records took no part: nothing was there to be done.
    points = [ends[batch] for batch in sorted(ends)]
    return [point for before, point in zip([(0.0, -1), *points], points, strict=False) if point[1] > before[1]]


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
