# SPDX-License-Identifier: Apache-2.0
"""Writes arrivals to files: as times, inter-arrival times or counts. The name determines the format, as for reading."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from penstock.arrivals.contract import Arrivals
from penstock.arrivals.cut import Cut
from penstock.arrivals.trace import write_npy
from penstock.arrivals.trace_files import Progress, inner_suffix
from penstock.arrivals.trace_times import KINDS
from penstock.errors import ConfigurationError
from penstock.ports import FloatArray
from penstock.units import parse_seconds

_ROWS_PER_BLOCK = 1 << 18
_COLUMN_NAMES = {"arrivals": "time", "iats": "iat", "counts": "count"}
_MOST_PERIODS = 1_000_000_000


def write_trace(
    arrivals: Arrivals,
    path: str | Path,
    *,
    kind: str = "arrivals",
    unit: str = "s",
    period_seconds: float | None = None,
    progress: Progress | None = None,
) -> int:
    """Write arrivals to a text, csv, npy or parquet file. Text and csv may be compressed (``.gz``, ``.xz``).

    Parameters
    ----------
    kind
        ``arrivals``: times. ``iats``: the times between them, the first from time zero, so that there are as many
        numbers as arrivals. ``counts``: how many arrived in each period.
    unit
        Unit of the numbers. For counts, the length of a period unless `period_seconds` is given.

    Returns
    -------
    int
        How many numbers were written. The file exists whole or not at all.
    """
    path = Path(path)
    per_unit = parse_seconds(f"1{unit}", field="unit")
    if kind not in KINDS:
        raise ConfigurationError(f"kind: unknown {kind!r}; known: {', '.join(KINDS)}", field="kind")
    if period_seconds is not None and kind != "counts":
        raise ConfigurationError("period: only counts have periods; leave it out", field="period")
    suffix = inner_suffix(path)
    if path.suffix in (".gz", ".xz") and suffix in (".npy", ".parquet"):
        raise ConfigurationError(
            f"output: {path}: only text and csv may be compressed; choose another name", field="output"
        )
    if kind == "counts":
        parts = _counts(arrivals, period_seconds or per_unit)
    else:
        # The times of a cut were read, and rounded, as those of the whole.
        largest = arrivals.end if isinstance(arrivals, Cut) else arrivals.duration_seconds
        parts = (_scaled(part, per_unit, largest) for part in _times(arrivals, kind))
    seen = [0]

    def watched() -> Iterator[FloatArray]:
        for part in parts:
            yield part
            seen[0] += len(part)
            if progress is not None and kind != "counts":
                progress(seen[0] / arrivals.total)

    with _replacing(path) as file:
        if suffix == ".npy":
            write_npy(
                watched(),
                file,
                ConfigurationError("output: there is nothing to write; give a trace with arrivals", field="output"),
            )
        elif suffix == ".parquet":
            _write_parquet(watched(), file, _COLUMN_NAMES[kind])
        else:
            _write_text(watched(), file, path.suffix, _COLUMN_NAMES[kind] if suffix == ".csv" else None)
    return seen[0]


def _times(arrivals: Arrivals, kind: str) -> Iterator[FloatArray]:
    last = 0.0
    for start in range(0, arrivals.total, _ROWS_PER_BLOCK):
        times = arrivals.times(start, min(start + _ROWS_PER_BLOCK, arrivals.total))
        yield np.diff(times, prepend=last) if kind == "iats" else times
        last = float(times[-1])


def _scaled(seconds: FloatArray, per_unit: float, largest: float) -> FloatArray:
    factor = round(1 / per_unit) if per_unit < 1 else 1 / per_unit
    scaled: FloatArray = seconds * factor
    nearest = np.round(scaled)
    # Restore what was rounded when the times were read or subtracted: whole microseconds stay whole.
    return np.where(np.abs(scaled - nearest) <= 4 * np.spacing(largest * factor), nearest, scaled)


def _counts(arrivals: Arrivals, period: float) -> Iterator[FloatArray]:
    periods = int(np.floor(arrivals.duration_seconds / period)) + 1
    if periods > _MOST_PERIODS:
        raise ConfigurationError(f"period: {period:g} s makes {periods} periods; give a longer one", field="period")
    if arrivals.duration_seconds == (periods - 1) * period and arrivals.count_until((periods - 1) * period) == (
        arrivals.count_until(np.nextafter((periods - 1) * period, 0.0))
    ):
        periods -= 1  # nothing arrives in the period that starts at the very end
    counts = np.zeros(periods, dtype=np.int64)
    for start in range(0, arrivals.total, _ROWS_PER_BLOCK):
        times = arrivals.times(start, min(start + _ROWS_PER_BLOCK, arrivals.total))
        index = np.minimum((times / period).astype(np.int64), periods - 1)
        first = int(index[0])
        part = np.bincount(index - first)
        counts[first : first + len(part)] += part
    yield counts.astype(np.float64)


def _write_text(parts: Iterable[FloatArray], file: BinaryIO, packing: str, header: str | None) -> None:
    raw = file
    if packing == ".gz":
        raw = cast("BinaryIO", gzip.GzipFile(fileobj=file, mode="wb", mtime=0))  # the same bytes whenever it is written
    elif packing == ".xz":
        raw = cast("BinaryIO", lzma.LZMAFile(file, "wb"))  # noqa: SIM115 - closed by the wrapper below
    with io.TextIOWrapper(raw, encoding="ascii", newline="\n") as text:
        if header is not None:
            text.write(header + "\n")
        for part in parts:
            is_whole = part == np.floor(part)
            # repr of a float is the shortest text that reads back as the same number.
            words = [
                str(int(v)) if whole else repr(v) for v, whole in zip(part.tolist(), is_whole.tolist(), strict=True)
            ]
            text.write("\n".join(words) + "\n")


def _write_parquet(parts: Iterable[FloatArray], file: BinaryIO, column: str) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as fault:
        raise ConfigurationError(
            "output: parquet needs pyarrow; install penstock[spark], or write a .npy file", field="output"
        ) from fault
    schema = pa.schema([(column, pa.float64())])
    with pq.ParquetWriter(file, schema) as writer:
        for part in parts:
            writer.write_table(pa.table({column: part}, schema=schema))


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    try:
        handle, draft = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}.", suffix=".part")
    except OSError as fault:
        raise ConfigurationError(f"output: {path} is not writable: {fault.strerror}", field="output") from fault
    try:
        file = os.fdopen(handle, "wb")
        try:
            yield file
        finally:
            if not file.closed:
                file.close()
        mask = os.umask(0)
        os.umask(mask)
        Path(draft).chmod(0o666 & ~mask)
        Path(draft).replace(path)
    except IsADirectoryError as fault:
        raise ConfigurationError(f"output: {path} is a folder; give the path of a file", field="output") from fault
    finally:
        Path(draft).unlink(missing_ok=True)
