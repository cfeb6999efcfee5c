# SPDX-License-Identifier: Apache-2.0
"""The text of replayed records, as Arrow arrays: none, generated lines, or the repeated lines of a file."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.adaptors.replay.options import ReplayOptions
from penstock.arrivals.feature_lines import FeatureLines
from penstock.arrivals.file_cache import cached_file, fingerprint
from penstock.arrivals.generated_lines import GeneratedLines
from penstock.arrivals.log_lines import LogLines
from penstock.arrivals.taxi_ride_lines import TaxiRideLines
from penstock.arrivals.text_lines import TextLines
from penstock.arrivals.trace_files import open_bytes
from penstock.arrivals.web_log_lines import WebLogLines
from penstock.errors import ConfigurationError

_CHUNK_BYTES = 1 << 20
_GENERATORS: dict[str, Callable[[int], GeneratedLines]] = {
    "text": TextLines,
    "web-log": WebLogLines,
    "features": FeatureLines,
    "taxi-ride": TaxiRideLines,
}
"""Payloads that a seed determines."""


class Payload(Protocol):
    """Generates the text of records. The same record always has the same text."""

    def column(self, start: int, arrival_us: NDArray[np.int64]) -> Any:
        """Return an Arrow array of strings for the records from `start` on, one for each arrival time."""
        ...


def open_payload(options: ReplayOptions) -> Payload:
    """Return the payload that the options name."""
    if options.payload == "none":
        return NoPayload()
    if options.payload == "log":
        return LinesPayload(LogLines(options.seed, options.malformed))
    if options.payload in _GENERATORS:
        return LinesPayload(_GENERATORS[options.payload](options.seed))
    return _open_file(options, fingerprint(Path(options.payload.removeprefix("file:")), "payload"))


class NoPayload:
    """No text: every value is null."""

    def column(self, start: int, arrival_us: NDArray[np.int64]) -> Any:  # noqa: ARG002 - any record is the same
        """Return nulls."""
        return pa.nulls(len(arrival_us), pa.string())


class LinesPayload:
    """Generated lines."""

    def __init__(self, lines: GeneratedLines) -> None:
        self._lines = lines

    def column(self, start: int, arrival_us: NDArray[np.int64]) -> Any:
        """Return one line for each record."""
        offsets, text = self._lines.encode(start, arrival_us)
        return pa.StringArray.from_buffers(len(arrival_us), pa.py_buffer(offsets), pa.py_buffer(text))


class FilePayload:
    """The lines of a UTF-8 file, which may be compressed (``.gz``, ``.xz``). After the last line comes the first again.

    Parameters
    ----------
    path, cache_dir
        The file, and where the positions of its lines (and its unpacked text) are kept for the next call.
    """

    def __init__(self, path: Path, cache_dir: Path) -> None:
        state = fingerprint(path, "payload")
        if path.suffix in (".gz", ".xz"):
            plain = cached_file(cache_dir, "payload.txt", state, partial(_unpack, path))
        else:
            plain = path
        index = cached_file(cache_dir, "payload.lines", state, partial(_write_line_starts, plain, path))
        starts = np.memmap(index, dtype=np.int64, mode="r")
        self._count = len(starts) - 1
        text = np.memmap(plain, dtype=np.uint8, mode="r")
        self._lines = pa.LargeStringArray.from_buffers(self._count, pa.py_buffer(starts), pa.py_buffer(text))

    def column(self, start: int, arrival_us: NDArray[np.int64]) -> Any:
        """Return one line for each record, without its line end."""
        places = np.arange(start, start + len(arrival_us), dtype=np.int64) % self._count
        return pc.ascii_rtrim(self._lines.take(pa.array(places)).cast(pa.string()), characters="\r\n")


@lru_cache(maxsize=4)
def _open_file(options: ReplayOptions, state: tuple[str, int, int]) -> FilePayload:
    return FilePayload(Path(state[0]), options.cache_path)


def _unpack(path: Path, out: BinaryIO) -> None:
    try:
        with open_bytes(path) as packed:
            while chunk := packed.read(_CHUNK_BYTES):
                out.write(chunk)
    except (OSError, EOFError, ValueError) as fault:
        raise ConfigurationError(f"payload: {path} cannot be decompressed: {fault}", field="payload") from fault


def _write_line_starts(plain: Path, path: Path, out: BinaryIO) -> None:
    """Write where each line of `plain` starts, and where the last one ends, as 64-bit numbers."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    out.write(np.zeros(1, dtype=np.int64).data)
    position, ends_line = 0, True
    with plain.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            _check_utf8(decoder, chunk, path, position)
            starts = np.flatnonzero(np.frombuffer(chunk, dtype=np.uint8) == ord("\n")) + position + 1
            out.write(starts.astype(np.int64).data)
            position += len(chunk)
            ends_line = chunk.endswith(b"\n")
    _check_utf8(decoder, b"", path, position)
    if position == 0:
        raise ConfigurationError(f"payload: {path} is empty; give a file with at least one line", field="payload")
    if not ends_line:
        out.write(np.array([position], dtype=np.int64).data)


def _check_utf8(decoder: codecs.IncrementalDecoder, chunk: bytes, path: Path, position: int) -> None:
    try:
        decoder.decode(chunk, final=not chunk)
    except UnicodeDecodeError as fault:
        raise ConfigurationError(
            f"payload: {path} is not UTF-8 near byte {position + fault.start}; convert it, for example with iconv",
            field="payload",
        ) from fault
