# SPDX-License-Identifier: Apache-2.0
"""The results: statistics of the cluster by trace time, in one small JSON file that is always whole.

A batch adds its results to those in the file. One that is run again after a crash finds them there and writes the same
file again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.apps.whole_file import write_whole
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

FILE_NAME = "results.json"


@dataclass(frozen=True, slots=True)
class ClusterResults:
    """All results so far, in the order of trace time; each has `time_seconds`, `machines`, `tasks_total`, ..."""

    results: tuple[Mapping[str, Any], ...]

    def at(self, time_seconds: float) -> Mapping[str, Any] | None:
        """The result for one trace time; None: there is none yet."""
        return next((result for result in self.results if result["time_seconds"] == time_seconds), None)

    @property
    def late_events(self) -> int:
        """How many events came too late for a result that should have had them, or in the wrong order."""
        return int(self.results[-1]["late_events"]) if self.results else 0


def add_results(folder: str | Path, results: Iterable[Mapping[str, Any]]) -> None:
    """Add results to `folder`/results.json. A reader sees the old or the new file, never a part."""
    known = read_results(folder)
    by_time = {result["time_seconds"]: dict(result) for result in (known.results if known is not None else ())}
    by_time.update({result["time_seconds"]: dict(result) for result in results})
    target = Path(folder) / FILE_NAME
    write_whole(target, json.dumps({"results": [by_time[at] for at in sorted(by_time)]}, indent=1))


def read_results(path: str | Path) -> ClusterResults | None:
    """Read the results in a folder (or in the file itself). None if there are none yet.

    Raises
    ------
    ConfigurationError
        The file is something else.
    """
    file = Path(path)
    if file.is_dir():
        file = file / FILE_NAME
    try:
        results = json.loads(file.read_text(encoding="utf-8"))["results"]
        return ClusterResults(tuple(sorted(results, key=lambda result: float(result["time_seconds"]))))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as fault:
        raise ConfigurationError(
            f"output: {file} does not contain results ({fault!r}); give the output folder of a Google cluster query",
            field="output",
        ) from fault


def results_writer(results: DataFrame, folder: str) -> DataStreamWriter:
    """Return the writer, not yet started, that adds each batch's results to `folder`/results.json."""

    def write(batch: DataFrame, _: int) -> None:
        rows = [row.asDict() for row in batch.collect()]
        if rows:
            add_results(folder, rows)

    return results.writeStream.outputMode("append").foreachBatch(write)
