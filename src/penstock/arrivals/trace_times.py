# SPDX-License-Identifier: Apache-2.0
"""From the numbers of a file to arrival times in seconds: unit, kind and origin applied, every fault named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.arrivals.trace_files import Chunk, read_chunks
from penstock.errors import ConfigurationError
from penstock.ports import FloatArray
from penstock.units import parse_seconds

KINDS = ("arrivals", "iats")
ORIGINS = ("zero", "first")
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Reading:
    """How the numbers of a trace file are to be understood; the fields are those of `load_trace`."""

    column: str | None = None
    unit: str = "s"
    kind: str = "arrivals"
    origin: str = "zero"

    def __post_init__(self) -> None:
        parse_seconds(f"1{self.unit}", field="unit")
        for field, value, known in (("kind", self.kind, KINDS), ("origin", self.origin, ORIGINS)):
            if value not in known:
                raise ConfigurationError(f"{field}: unknown {value!r}; known: {', '.join(known)}", field=field)

    def seconds(self, values: NDArray[Any]) -> FloatArray:
        """The file's numbers in seconds."""
        per_unit = parse_seconds(f"1{self.unit}", field="unit")
        # Dividing by a whole number rounds once; multiplying by 1e-6 would round twice.
        scaled: FloatArray = values / round(1 / per_unit) if per_unit < 1 else values * per_unit
        return scaled


def read_times(path: Path, reading: Reading) -> Iterator[FloatArray]:
    """Give the arrival times of a file in seconds, checked, in chunks of bounded size."""
    read = _read_iats if reading.kind == "iats" else _read_arrivals
    first, last = None, 0.0
    for times in read(path, reading):
        first = float(times[0]) if first is None else first
        last = float(times[-1])
        yield times
    if first is not None and first > max(86400.0, last - first):
        raise ConfigurationError(
            f"trace: {path}: the first arrival is {first:.6g} s after the start, the rest takes only "
            f"{last - first:.6g} s; give origin=first where the times are absolute, or another unit",
            field="origin",
        )


def _read_arrivals(path: Path, reading: Reading) -> Iterator[FloatArray]:
    zero, last = None, 0.0
    for chunk in read_chunks(path, reading.column):
        values = chunk.values.astype(np.int64) if chunk.values.dtype.kind == "u" else chunk.values
        if len(values):
            if zero is None:
                zero = values[0] if reading.origin == "first" else values.dtype.type(0)
            # Subtracted before the scaling: whole numbers keep all their digits.
            times = reading.seconds(values - zero)
            check_times(str(path), times, last, chunk)
            last = float(times[-1])
            yield times


def _read_iats(path: Path, reading: Reading) -> Iterator[FloatArray]:
    last = None
    for chunk in read_chunks(path, reading.column):
        if len(chunk.values):
            gaps = reading.seconds(chunk.values)
            check_times(str(path), gaps, None, chunk)
            if last is None:
                last = -float(gaps[0]) if reading.origin == "first" else 0.0
            times = last + np.cumsum(gaps)
            last = float(times[-1])
            yield times


def check_times(name: str, seconds: FloatArray, last: float | None, chunk: Chunk) -> None:
    """Raise ConfigurationError where times are not finite, negative or (after `last`) falling, with their places.

    Parameters
    ----------
    last
        The time before the first; None: these are gaps, which may rise and fall.
    chunk
        The numbers as they stand in the file, for the message.
    """
    with np.errstate(invalid="ignore"):  # inf - inf: told as not finite
        steps = seconds if last is None else np.diff(seconds, prepend=last)
    faults: tuple[tuple[NDArray[np.bool_], str], ...] = (
        (~np.isfinite(seconds), "not a finite number; remove or replace it"),
        (seconds < 0, "negative; times count from the trace's start (origin=first makes the first one zero)"),
        (steps < 0, "smaller than the one before; sort the trace, or give kind=iats for inter-arrival times"),
    )
    for wrong, text in faults:
        where = np.flatnonzero(wrong)
        if len(where):
            shown = [f"{chunk.word} {chunk.places[i]}: {chunk.values[i]}" for i in where[:_SHOWN].tolist()]
            more = ", ..." if len(where) > _SHOWN else ""
            raise ConfigurationError(f"trace: {name}: {', '.join(shown)}{more}: {text}", field="trace")
