# SPDX-License-Identifier: Apache-2.0
"""Arrival times by record number, written beside the spool, for computing latency, and which rows are copies.

Each file holds a million 8-byte instants (microseconds since 1970), and the newest files are kept. They outlive the
segments, which are deleted as soon as their batch is done. They are not synced to disk: an instant lost in a crash is
unknown, not zero.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from penstock.errors import ConfigurationError
from penstock.ports import FloatArray
from penstock.records import SourceProgress

PER_FILE = 1_000_000
KEPT_FILES = 16
_BYTES_PER_INSTANT = 8
_COPIES = "copies.bin"


def write_times(folder: Path, first: int, times_us: NDArray[np.int64]) -> None:
    """Store the instants of the records from number `first` on."""
    while len(times_us):
        file_number, place = divmod(first, PER_FILE)
        part, times_us = times_us[: PER_FILE - place], times_us[PER_FILE - place :]
        path = _path(folder, file_number)
        is_new = not path.exists()
        with path.open("r+b" if not is_new else "w+b") as file:
            file.seek(place * _BYTES_PER_INSTANT)
            file.write(part.astype("<i8").tobytes())
        first += len(part)
        if is_new and file_number >= KEPT_FILES:
            _path(folder, file_number - KEPT_FILES).unlink(missing_ok=True)


def cut_times(folder: Path, number: int) -> None:
    """Delete the instants of the records from `number` on."""
    file_number, place = divmod(number, PER_FILE)
    for path in folder.glob("times-*.bin"):
        if path == _path(folder, file_number) and place:
            with path.open("r+b") as file:
                file.truncate(min(place * _BYTES_PER_INSTANT, path.stat().st_size))
        elif path >= _path(folder, file_number):
            path.unlink()


def read_times(folder: Path, start: int, stop: int) -> NDArray[np.int64] | None:
    """Return the instants of the records `start` to `stop`, or None if one is not known (any more)."""
    parts = []
    while start < stop:
        file_number, place = divmod(start, PER_FILE)
        count = min(stop - start, PER_FILE - place)
        try:
            part = np.fromfile(_path(folder, file_number), "<i8", count, offset=place * _BYTES_PER_INSTANT)
        except FileNotFoundError:
            return None
        if len(part) < count or not part.all():
            return None
        parts.append(part)
        start += count
    return np.concatenate(parts).astype(np.int64) if parts else np.empty(0, np.int64)


def times_held(folder: Path) -> int:
    """Return one more than the number of the newest record whose instant is known."""
    newest = max(folder.glob("times-*.bin"), default=None)
    if newest is None:
        return 0
    return int(newest.stem.removeprefix("times-")) * PER_FILE + newest.stat().st_size // _BYTES_PER_INSTANT


def write_copies(folder: Path, numbers: Sequence[int]) -> None:
    """Note rows that repeat others. Who counts records leaves them out."""
    if numbers:
        with (folder / _COPIES).open("ab") as file:
            file.write(np.array(numbers, "<i8").tobytes())


def cut_copies(folder: Path, number: int) -> None:
    """Forget the copies among the rows from `number` on."""
    known = read_copies(folder)
    if len(known) and known[-1] >= number:
        (folder / _COPIES).write_bytes(known[known < number].astype("<i8").tobytes())


def read_copies(folder: Path) -> NDArray[np.int64]:
    """Return the numbers of the rows that repeat others, rising."""
    try:
        return np.fromfile(folder / _COPIES, "<i8").astype(np.int64)
    except FileNotFoundError:
        return np.empty(0, np.int64)


def _path(folder: Path, file_number: int) -> Path:
    return folder / f"times-{file_number:09d}.bin"


class SpoolArrivals:
    """When the records of a ``penstock_rabbitmq`` source arrived (`penstock.ports.ArrivalTimes`).

    A record's arrival is when its producer says it was due (header ``penstock-due-us``), or else when the source
    received it. In the latter case, a message that waited in a queue longer than the source's prefetch looks younger
    than it is. Rows that repeat others (`duplicate_of`) do not count.

    Parameters
    ----------
    spool_dir
        The source's option ``spoolDir``.
    """

    def __init__(self, spool_dir: str | Path) -> None:
        self._folder = Path(spool_dir)
        if not str(spool_dir):
            raise ConfigurationError("spool_dir: is empty; give the source's spoolDir", field="spool_dir")

    def of(self, source: SourceProgress) -> FloatArray | None:
        """Return the arrival times of a batch's records, in seconds since the epoch, or None if not known."""
        end = row_number(source.end_offset)
        if end is None:
            return None
        first = row_number(source.start_offset) or 0  # the first batch has no start offset
        if first > end:
            return None
        times = read_times(self._folder, first, end)
        if times is not None:
            copies = read_copies(self._folder)
            times = np.delete(times, copies[(copies >= first) & (copies < end)] - first)
        # One producer's record may overtake another's. The port promises times that never fall.
        return None if times is None else np.maximum.accumulate(times / 1e6) if len(times) else times / 1e6

    def arrived_by(self, at: float) -> int | None:
        """Return how many received records had arrived up to `at`. Those still in the broker do not count."""
        files = sorted(self._folder.glob("times-*.bin"))
        if not files:
            return None
        newest = int(files[-1].stem.removeprefix("times-"))
        times = np.fromfile(files[-1], "<i8")
        return newest * PER_FILE + int(np.count_nonzero((times > 0) & (times <= at * 1e6)))

    def done_index(self, source: SourceProgress) -> int | None:
        """Return how many records are done when this batch is."""
        return self.records_before(source.end_offset)

    def records_before(self, offset: str | None) -> int | None:
        """Return how many records lie before an offset of the source, or None if it is of another kind."""
        number = row_number(offset)
        return None if number is None else number - int(np.searchsorted(read_copies(self._folder), number))

    def received(self) -> int:
        """Return how many records the source has received."""
        return times_held(self._folder) - len(read_copies(self._folder))


def row_number(offset: str | None) -> int | None:
    """Return how many rows lie before an offset of the source, or None if it is of another kind."""
    try:
        fields = json.loads(offset) if offset else None
    except (ValueError, RecursionError):  # no JSON, a number of thousands of digits, or nested without end
        return None
    number = fields.get("number") if isinstance(fields, dict) and "spool" in fields else None
    return number if isinstance(number, int) and not isinstance(number, bool) and number >= 0 else None
