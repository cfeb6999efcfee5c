# SPDX-License-Identifier: Apache-2.0
"""Numbers out of trace files, a bounded chunk at a time, each with the line or row it stood in.

A format is one function in `FORMATS`; adding one more there is all it takes.
"""

from __future__ import annotations

import csv
import gzip
import io
import lzma
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from penstock.errors import ConfigurationError

_CHUNK_BYTES = 1 << 20
_CHUNK_ROWS = 1 << 16
_PACKED = (".gz", ".xz")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some numbers as they stand in a file, and the line (or row) of each, counted from `places[0]`."""

    values: NDArray[Any]
    places: NDArray[np.int64] | range
    word: str = "line"


def open_bytes(path: Path) -> BinaryIO:
    """Open a file that may be packed by gzip or xz."""
    if path.suffix == ".gz":
        return cast("BinaryIO", gzip.open(path, "rb"))
    return cast("BinaryIO", lzma.open(path, "rb") if path.suffix == ".xz" else path.open("rb"))


def read_chunks(path: Path, column: str | None = None) -> Iterator[Chunk]:
    """Give the numbers of a file in order, in chunks of bounded size.

    The name says the format: ``.csv``, ``.npy``, ``.parquet``, any other is text (one number per line, comments
    after #); text and csv may be packed (``.gz``, ``.xz``).
    """
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "is not there"
        raise ConfigurationError(f"trace: {path} {what}; give the path of a file", field="trace")
    suffix = Path(path.stem).suffix if path.suffix in _PACKED else path.suffix
    read = FORMATS.get(suffix, _read_text)
    if path.suffix in _PACKED and read not in (_read_text, _read_csv):
        raise ConfigurationError(f"trace: {path}: only text and csv may be packed; unpack it first", field="trace")
    with _faults_named(path):
        yield from read(path, column)


@contextmanager
def _faults_named(path: Path) -> Iterator[None]:
    try:
        yield
    except ConfigurationError:
        raise
    except (OSError, EOFError, lzma.LZMAError, UnicodeDecodeError, ValueError, csv.Error) as fault:
        raise ConfigurationError(f"trace: {path} cannot be read: {fault}", field="trace") from fault


def _read_text(path: Path, column: str | None) -> Iterator[Chunk]:
    if column is not None:
        raise ConfigurationError(
            f"column: {path} is read as text, one number per line, which has no column {column!r}; "
            "leave column out, or give a .csv or .parquet file",
            field="column",
        )
    with open_bytes(path) as file:
        first = 1
        while lines := file.readlines(_CHUNK_BYTES):
            if first == 1:
                lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
            yield _parse_lines(path, lines, first)
            first += len(lines)


def _parse_lines(path: Path, lines: list[bytes], first: int) -> Chunk:
    try:  # the common case: nothing but numbers
        return Chunk(np.array([float(line) for line in lines]), range(first, first + len(lines)))
    except ValueError:
        cells = [(place, line.partition(b"#")[0].strip()) for place, line in enumerate(lines, first)]
    return _parse_cells(path, [(place, cell.decode(errors="replace")) for place, cell in cells if cell])


def _parse_cells(path: Path, cells: list[tuple[int, str]]) -> Chunk:
    values, wrong = [], []
    for place, cell in cells:
        try:
            values.append(float(cell))
        except ValueError:
            wrong.append(f"line {place}: {cell[:40]!r}")
    if wrong:
        shown = ", ".join(wrong[:5]) + (", ..." if len(wrong) > 5 else "")
        raise ConfigurationError(
            f"trace: {path}: not a number in {shown}; write one number per line (comments start with #), "
            "or give a .csv file and its column",
            field="trace",
        )
    return Chunk(np.array(values, dtype=np.float64), np.array([place for place, _ in cells], dtype=np.int64))


def _read_csv(path: Path, column: str | None) -> Iterator[Chunk]:
    with io.TextIOWrapper(open_bytes(path), encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file)
        header = next(rows, None)
        if header is None:
            return
        at = _column_of(path, header, column)
        # A first row whose cell is a number is data: the table has no header.
        pending = [(1, header)] if _is_number(header[at]) else []
        while True:
            pending += [(rows.line_num, row) for row in islice(rows, _CHUNK_ROWS)]
            if not pending:
                return
            yield _parse_cells(path, [(place, row[at] if at < len(row) else "") for place, row in pending if row])
            pending = []


def _column_of(path: Path, header: list[str], column: str | None) -> int:
    names = [name.strip() for name in header]
    if column is None and len(names) == 1:
        return 0
    if column is not None and column in names:
        return names.index(column)
    if column is not None and column.isdecimal() and int(column) < len(names):
        return int(column)
    has_names = not any(_is_number(name) for name in names)
    known = f"columns: {', '.join(names)}" if has_names else f"columns: 0 to {len(names) - 1}"
    problem = "column: not given" if column is None else f"column: no column {column!r}"
    raise ConfigurationError(f"{problem} for {path}; {known}", field="column")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _read_npy(path: Path, column: str | None) -> Iterator[Chunk]:
    if column is not None:
        raise ConfigurationError(f"column: {path} is one array without columns; leave column out", field="column")
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    if array.ndim != 1 or array.dtype.kind not in "iuf":
        raise ConfigurationError(
            f"trace: {path} holds an array of shape {array.shape} and type {array.dtype}; "
            "give one dimension of numbers",
            field="trace",
        )
    for start in range(0, len(array), _CHUNK_ROWS):
        values = np.array(array[start : start + _CHUNK_ROWS])
        yield Chunk(values, range(start, start + len(values)), "index")


def _read_parquet(path: Path, column: str | None) -> Iterator[Chunk]:
    try:
        import pyarrow.parquet  # late: only this format needs it
    except ImportError as fault:
        raise ConfigurationError(
            f"trace: {path}: parquet needs pyarrow; install penstock[spark], or save the trace as .npy",
            field="trace",
        ) from fault
    with pyarrow.parquet.ParquetFile(path) as file:
        names = file.schema_arrow.names
        at = _column_of(path, names, column)
        start = 0
        for batch in file.iter_batches(batch_size=_CHUNK_ROWS, columns=[names[at]]):
            array = batch.column(0)
            if array.null_count:
                place = start + array.is_null().to_pylist().index(True)
                raise ConfigurationError(
                    f"trace: {path}: row {place} of column {names[at]!r} is null; remove such rows", field="trace"
                )
            values = array.to_numpy(zero_copy_only=False)
            if values.dtype.kind not in "iuf":
                raise ConfigurationError(
                    f"trace: {path}: column {names[at]!r} holds {array.type}, not numbers; "
                    "cast it to numbers and give their unit",
                    field="trace",
                )
            yield Chunk(values, range(start, start + len(values)), "row")
            start += len(values)


FORMATS: dict[str, Callable[[Path, str | None], Iterator[Chunk]]] = {
    ".csv": _read_csv,
    ".npy": _read_npy,
    ".parquet": _read_parquet,
}
