# SPDX-License-Identifier: Apache-2.0
"""The Spark job: files are opened where the tasks run, windows are described in parallel, only rows travel.

Two steps. Each file is read by one task, which keeps its inter-arrival times as an array on its machine and tells which
windows there are; then each window is described by a task that maps the array (or makes it, on a machine that has none
yet) and reads its own part alone. The driver sees where windows begin and what is said of them, never what is in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.apps.characterize.windows import COLUMNS, WindowSettings, plan_windows, row_of
from penstock.arrivals import Gaps, Reading, open_gaps
from penstock.arrivals.file_cache import default_cache_dir
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")

_PLAN = "stream string, path string, window bigint, first bigint, n bigint, start double, fault string"
_TABLE = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())
_TASKS_PER_SLOT = 4
_open: dict[str, Gaps] = {}


def characterize(
    spark: SparkSession,
    traces: Mapping[str, str],
    reading: Reading,
    settings: WindowSettings,
    *,
    cache_dir: str | None = None,
) -> DataFrame:
    """Give the table of all windows of all traces (`COLUMNS`), one row each.

    Parameters
    ----------
    traces
        Path of each stream's file, as the executors see it.
    reading
        How the files are read.
    cache_dir
        Where executors keep the inter-arrival times; None: a private folder under their temporary one.

    Raises
    ------
    ConfigurationError
        Every file that cannot be read as a trace, with why.
    """
    reader = _Reader(reading, settings, cache_dir)
    files = spark.range(0, len(traces), 1, len(traces))
    plan = files.mapInArrow(partial(reader.plan, list(traces.items())), _PLAN).toArrow().to_pylist()
    faults = [window["fault"] for window in plan if window["fault"] is not None]
    if faults:
        raise ConfigurationError.of_all("trace", faults)
    # Windows cost unlike each other: more tasks than slots, so that none waits long for the last.
    tasks = max(1, min(len(plan), _TASKS_PER_SLOT * spark.sparkContext.defaultParallelism))
    return spark.range(0, len(plan), 1, tasks).mapInArrow(partial(reader.describe, plan), _TABLE)


class _Reader:
    """What the tasks do; goes to each of them, without any data."""

    def __init__(self, reading: Reading, settings: WindowSettings, cache_dir: str | None) -> None:
        self._reading, self._settings, self._cache_dir = reading, settings, cache_dir

    def plan(self, files: Sequence[tuple[str, str]], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for stream, path in _chosen(files, batches):
            place = {"stream": stream, "path": path}
            try:
                windows = plan_windows(self._gaps(path), self._settings)
                yield _batch([{**place, **window, "fault": None} for window in windows], _PLAN)
            except ConfigurationError as fault:
                unknown = {"window": None, "first": None, "n": None, "start": None}
                yield _batch([{**place, **unknown, "fault": str(fault).removeprefix("trace: ")}], _PLAN)

    def describe(
        self, plan: Sequence[Mapping[str, Any]], batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        for window in _chosen(plan, batches):
            place = {name: window[name] for name in ("window", "first", "n", "start")}
            yield _batch([row_of(window["stream"], place, self._gaps(window["path"]), self._settings)], _TABLE)

    def _gaps(self, path: str) -> Gaps:
        # Kept per process: Python workers live on between tasks. One at a time: each may be mapped from a large file.
        if path not in _open:
            folder = Path(self._cache_dir) if self._cache_dir is not None else default_cache_dir()
            opened = open_gaps(path, self._reading, cache_dir=folder)
            _open.clear()
            _open[path] = opened
        return _open[path]


def _chosen(items: Sequence[T], batches: Iterator[pa.RecordBatch]) -> Iterator[T]:
    """Give the items whose numbers this task got."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield items[number]


def _batch(rows: Sequence[Mapping[str, Any]], schema: str) -> pa.RecordBatch:
    import pyarrow as pa

    types = {"string": pa.string(), "bigint": pa.int64(), "double": pa.float64()}
    fields = [field.split() for field in schema.replace("`", "").split(", ")]
    return pa.RecordBatch.from_pylist(list(rows), schema=pa.schema([(name, types[kind]) for name, kind in fields]))
