# SPDX-License-Identifier: Apache-2.0
"""The Spark job: tasks open the files and describe windows in parallel, and only rows travel.

It has two steps. One task per file reads it, keeps its inter-arrival times as an array on its machine, and lists its
windows. Then one task per window maps the array (or creates it, on a machine that has none yet), reads only its own
part, and describes it. The driver sees where windows begin and their descriptions, never their content.
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
    """Return the table of all windows of all traces (`COLUMNS`), one row each.

    Parameters
    ----------
    traces
        Path of each stream's file, as the executors see it.
    reading
        How to read the files.
    cache_dir
        The folder where executors keep the inter-arrival times. None: a private folder under their temporary one.

    Raises
    ------
    ConfigurationError
        Lists every file that cannot be read as a trace, with the reason.
    """
    reader = _Reader(reading, settings, cache_dir)
    files = spark.range(0, len(traces), 1, len(traces))
    plan = files.mapInArrow(partial(reader.plan, list(traces.items())), _PLAN).toArrow().to_pylist()
    faults = [window["fault"] for window in plan if window["fault"] is not None]
    if faults:
        raise ConfigurationError.of_all("trace", faults)
    # Windows differ in cost: use more tasks than slots, so that none waits long for the last.
    tasks = max(1, min(len(plan), _TASKS_PER_SLOT * spark.sparkContext.defaultParallelism))
    return spark.range(0, len(plan), 1, tasks).mapInArrow(partial(reader.describe, plan), _TABLE)


class _Reader:
    """What the tasks do. Every task gets a copy, without any data."""

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
        # Cached per process: Python workers outlive tasks. One at a time: each may be mapped from a large file.
        if path not in _open:
            folder = Path(self._cache_dir) if self._cache_dir is not None else default_cache_dir()
            opened = open_gaps(path, self._reading, cache_dir=folder)
            _open.clear()
            _open[path] = opened
        return _open[path]


def _chosen(items: Sequence[T], batches: Iterator[pa.RecordBatch]) -> Iterator[T]:
    """Return the items whose numbers this task received."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield items[number]


def _batch(rows: Sequence[Mapping[str, Any]], schema: str) -> pa.RecordBatch:
    import pyarrow as pa

    types = {"string": pa.string(), "bigint": pa.int64(), "double": pa.float64()}
    fields = [field.split() for field in schema.replace("`", "").split(", ")]
    return pa.RecordBatch.from_pylist(list(rows), schema=pa.schema([(name, types[kind]) for name, kind in fields]))
