# SPDX-License-Identifier: Apache-2.0
"""Reads numbers from trace files, a bounded chunk at a time, each with its line or row.

A format is one function in `FORMATS`; to add a format, add a function there.
"""

from __future__ import annotations

import csv
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from penstock.arrivals.timestamps import is_timestamp, nanoseconds_of
from penstock.errors import ConfigurationError

_CHUNK_BYTES = 1 << 20
_CHUNK_ROWS = 1 << 16
_MOST_LOOKED_AT = 1000
"""Lines in which the first with content is looked for."""
_COMPRESSED_SUFFIXES = (".gz", ".xz")

Progress = Callable[[float], None]
"""Receives, from time to time, which part of a file has been read, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Numbers as they stand in a file, and the line (or row) of each, counted from `places[0]`."""

    values: NDArray[Any]
    places: NDArray[np.int64] | range
    word: str = "line"


def open_bytes(path: Path, progress: Progress | None = None) -> BinaryIO:
    """Open a file that may be compressed by gzip or xz. `progress` receives how far it has been read."""
    raw = _WatchedFile(path, progress)
    try:
        if path.suffix == ".gz":
            return cast("BinaryIO", _Gzip(raw))
        return cast("BinaryIO", _Xz(raw) if path.suffix == ".xz" else io.BufferedReader(raw))
    except BaseException:
        raw.close()
        raise


class _WatchedFile(io.FileIO):
    """A file as stored, compressed or not, that reports how far it has been read."""

    def __init__(self, path: Path, progress: Progress | None) -> None:
        super().__init__(path, "rb")
        self._progress = progress
        self._size = max(1, path.stat().st_size)
        self._reported = 0.0

    def readinto(self, buffer: Any) -> int | None:
        count = super().readinto(buffer)
        self._tell()
        return count

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self._tell()
        return data

    def _tell(self) -> None:
        if self._progress is not None and (done := min(1.0, self.tell() / self._size)) >= min(
            1.0, self._reported + 0.01
        ):
            self._reported = done
            self._progress(done)


class _Gzip(gzip.GzipFile):
    def __init__(self, raw: io.FileIO) -> None:
        self._raw = raw
        super().__init__(fileobj=cast("BinaryIO", raw), mode="rb")

    def close(self) -> None:
        super().close()
        self._raw.close()


class _Xz(lzma.LZMAFile):
    def __init__(self, raw: io.FileIO) -> None:
        self._raw = raw
        super().__init__(cast("BinaryIO", raw), "rb")

    def close(self) -> None:
        super().close()
        self._raw.close()


def inner_suffix(path: Path) -> str:
    """Return the suffix of a file's content, below that of its compression."""
    return Path(path.stem).suffix if path.suffix in _COMPRESSED_SUFFIXES else path.suffix


def check_is_file(path: Path) -> None:
    """Raise ConfigurationError if there is no file to read."""
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "is not there"
        raise ConfigurationError(f"trace: {path} {what}; give the path of a file", field="trace")


def read_chunks(
    path: Path, column: str | None = None, progress: Progress | None = None, *, are_dates: bool = False
) -> Iterator[Chunk]:
    """Yield the numbers of a file in order, in chunks of bounded size.

    The name determines the format: ``.csv``, ``.npy``, ``.parquet``; any other is text (one number per line, comments
    after #). Text and csv may be compressed (``.gz``, ``.xz``). With `are_dates` they hold ISO timestamps, which become
    whole nanoseconds since 1970 (`has_dates`).
    """
    check_is_file(path)
    read = FORMATS.get(inner_suffix(path), _read_text)
    if are_dates:
        with faults_named(path):
            for cells in (_csv_cells if read is _read_csv else _text_cells)(path, column, progress):
                yield Chunk(_nanoseconds(path, cells), np.array([place for place, _ in cells], dtype=np.int64))
        return
    if path.suffix in _COMPRESSED_SUFFIXES and read not in (_read_text, _read_csv):
        raise ConfigurationError(
            f"trace: {path}: only text and csv may be compressed; decompress it first", field="trace"
        )
    with faults_named(path):
        yield from read(path, column, progress)


@contextmanager
def faults_named(path: Path) -> Iterator[None]:
    """Turn errors while reading a file into ConfigurationErrors with its name."""
    try:
        yield
    except ConfigurationError:
        raise
    except (OSError, EOFError, lzma.LZMAError, zlib.error, ValueError, OverflowError, csv.Error) as fault:
        raise ConfigurationError(f"trace: {path} cannot be read: {fault}", field="trace") from fault


def has_dates(path: Path, column: str | None = None) -> bool:
    """Whether a text or csv file holds ISO timestamps, by its first line with content.

    Unreadable files are not reported here, but when they are read.
    """
    read = FORMATS.get(inner_suffix(path), _read_text)
    if read not in (_read_text, _read_csv) or not path.is_file():
        return False
    try:
        with io.TextIOWrapper(open_bytes(path), encoding="utf-8-sig", newline="") as file:
            if read is _read_text:
                lines = (line.partition("#")[0].strip() for line in islice(file, _MOST_LOOKED_AT))
                return is_timestamp(next((line for line in lines if line), ""))
            rows = csv.reader(file)
            header = next(rows, [])
            at = _column_of(path, header, column)
            return any(is_timestamp(row[at]) for row in (header, next(rows, [])) if at < len(row))
    except (ConfigurationError, OSError, EOFError, ValueError, lzma.LZMAError, zlib.error, csv.Error):
        return False


def _nanoseconds(path: Path, cells: list[tuple[int, str]]) -> NDArray[np.int64]:
    values, wrong = [], []
    for place, cell in cells:
        value = nanoseconds_of(cell)
        if value is None:
            wrong.append(f"line {place}: {cell[:40]!r}")
        else:
            values.append(value)
    if wrong:
        shown = ", ".join(wrong[:5]) + (", ..." if len(wrong) > 5 else "")
        raise ConfigurationError(
            f"trace: {path}: not a timestamp in {shown}; write each as 2026-01-31T12:00:00.123Z or with an offset such "
            "as +01:00",
            field="trace",
        )
    return np.array(values, dtype=np.int64)


def _text_cells(path: Path, column: str | None, progress: Progress | None) -> Iterator[list[tuple[int, str]]]:
    """The lines of a text with their numbers, without comments."""
    for lines, first in _text_lines(path, column, progress):
        cells = [(place, line.partition(b"#")[0].strip()) for place, line in enumerate(lines, first)]
        if found := [(place, cell.decode(errors="replace")) for place, cell in cells if cell]:
            yield found


def _read_text(path: Path, column: str | None, progress: Progress | None) -> Iterator[Chunk]:
    for lines, first in _text_lines(path, column, progress):
        yield _parse_lines(path, lines, first)


def _text_lines(path: Path, column: str | None, progress: Progress | None) -> Iterator[tuple[list[bytes], int]]:
    if column is not None:
        raise ConfigurationError(
            f"column: {path} is read as text, one number per line, which has no column {column!r}; "
            "leave column out, or give a .csv or .parquet file",
            field="column",
        )
    with open_bytes(path, progress) as file:
        first = 1
        while lines := file.readlines(_CHUNK_BYTES):
            if first == 1:
                lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
            yield lines, first
            first += len(lines)


def _parse_lines(path: Path, lines: list[bytes], first: int) -> Chunk:
    try:  # the common case: only numbers
        return Chunk(_exact([float(line) for line in lines], lines), range(first, first + len(lines)))
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
            f"trace: {path}: not a number in {shown}; write one number or one ISO timestamp per line (comments start "
            "with #), or give a .csv file and its column",
            field="trace",
        )
    exact = _exact(values, [cell for _, cell in cells])
    return Chunk(exact, np.array([place for place, _ in cells], dtype=np.int64))


def _exact(values: list[float], cells: Sequence[bytes | str]) -> NDArray[Any]:
    """Return the numbers as floats, or as whole numbers if floats would lose digits (nanoseconds since 1970)."""
    array = np.array(values, dtype=np.float64)
    if len(array) and np.abs(array).max() >= 2**53:
        try:
            return np.array([int(cell) for cell in cells], dtype=np.int64)
        except (ValueError, OverflowError):
            return array  # not whole, or beyond any clock: floats are as good
    return array


def _read_csv(path: Path, column: str | None, progress: Progress | None) -> Iterator[Chunk]:
    for cells in _csv_cells(path, column, progress):
        yield _parse_cells(path, cells)


def _csv_cells(path: Path, column: str | None, progress: Progress | None) -> Iterator[list[tuple[int, str]]]:
    """The cells of a column with the numbers of their lines."""
    with io.TextIOWrapper(open_bytes(path, progress), encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file)
        header = next(rows, None)
        if header is None:
            return
        at = _column_of(path, header, column)
        # A first row whose cell is a number or a timestamp is data: the table has no header.
        pending = [(1, header)] if _is_number(header[at]) or is_timestamp(header[at]) else []
        while True:
            pending += [(rows.line_num, row) for row in islice(rows, _CHUNK_ROWS)]
            if not pending:
                return
            yield [(place, row[at] if at < len(row) else "") for place, row in pending if row]
            pending = []


def _column_of(path: Path, header: list[str], column: str | None) -> int:
    names = [name.strip() for name in header]
    if column is None and len(names) == 1:
        return 0
    if column is not None and column in names:
        return names.index(column)
    if column is not None and column.isdecimal() and int(column) < len(names):
        return int(column)
    has_names = not any(_is_number(name) or is_timestamp(name) for name in names)
    known = f"columns: {', '.join(names)}" if has_names else f"columns: 0 to {len(names) - 1}"
    problem = "column: not given" if column is None else f"column: no column {column!r}"
    raise ConfigurationError(f"{problem} for {path}; {known}", field="column")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _read_npy(path: Path, column: str | None, progress: Progress | None) -> Iterator[Chunk]:
    if column is not None:
        raise ConfigurationError(f"column: {path} is one array without columns; leave column out", field="column")
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    if array.ndim != 1 or array.dtype.kind not in "iuf":
        raise ConfigurationError(
            f"trace: {path} has an array of shape {array.shape} and type {array.dtype}; give one dimension of numbers",
            field="trace",
        )
    for start in range(0, len(array), _CHUNK_ROWS):
        values = np.array(array[start : start + _CHUNK_ROWS])
        yield Chunk(values, range(start, start + len(values)), "index")
        if progress is not None:
            progress((start + len(values)) / len(array))


def _read_parquet(path: Path, column: str | None, progress: Progress | None) -> Iterator[Chunk]:
    try:
        import pyarrow.parquet  # imported late: only this format needs it
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
                    f"trace: {path}: column {names[at]!r} contains {array.type}, not numbers; "
                    "cast it to numbers and give their unit",
                    field="trace",
                )
            yield Chunk(values, range(start, start + len(values)), "row")
            start += len(values)
            if progress is not None:
                progress(start / file.metadata.num_rows)


FORMATS: dict[str, Callable[[Path, str | None, Progress | None], Iterator[Chunk]]] = {
    ".csv": _read_csv,
    ".npy": _read_npy,
    ".parquet": _read_parquet,
}
