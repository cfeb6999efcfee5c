# SPDX-License-Identifier: Apache-2.0
"""Turns the numbers of a file into arrival times in seconds, by its format, unit, kind and origin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.arrivals.count_series import SPREADS
from penstock.arrivals.trace_files import Chunk, Progress, has_dates, read_chunks
from penstock.arrivals.trace_formats import TraceFormat, find_format, recognise
from penstock.errors import ConfigurationError
from penstock.ports import FloatArray
from penstock.units import parse_seconds

KINDS = ("arrivals", "iats", "counts")
ORIGINS = ("zero", "first")
_MOST_FAULTS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Reading:
    """How to interpret a trace file, as far as the user says. The fields are those of `load_trace`."""

    column: str | None = None
    unit: str | None = None
    kind: str | None = None
    origin: str | None = None
    format: str = "auto"
    period_seconds: float | None = None
    spread: str = "random"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.unit is not None:
            parse_seconds(f"1{self.unit}", field="unit")
        for field, value, known in (
            ("kind", self.kind or KINDS[0], KINDS),
            ("origin", self.origin or ORIGINS[0], ORIGINS),
            ("spread", self.spread, SPREADS),
        ):
            if value not in known:
                raise ConfigurationError(f"{field}: unknown {value!r}; known: {', '.join(known)}", field=field)
        if self.format != "auto":
            find_format(self.format)

    def of(self, path: Path) -> TraceSource:
        """Return the file with every open choice made: by its format if it has one, or else by default."""
        format = recognise(path) if self.format == "auto" else find_format(self.format)
        if format is not None and (faults := self._against(format)):
            if self.format != "auto":
                raise ConfigurationError.of_all("format", faults)
            format = None  # a user who names a column or another unit knows the file better
        kind = format.kind if format is not None else self.kind or "arrivals"
        if self.period_seconds is not None and (
            kind != "counts" or (format is not None and format.period_at is not None)
        ):
            why = "the file contains its periods" if kind == "counts" else f"{path} is read as {kind}"
            raise ConfigurationError(f"period: {why}; leave it out, or give kind=counts", field="period")
        if format is None and has_dates(path, self.column):
            return self._of_dates(path, kind)
        return TraceSource(
            path=path,
            format=format,
            column=self.column,
            unit=format.unit if format is not None else self.unit or "s",
            kind=kind,
            origin=self.origin or (format.origin if format is not None else "zero"),
            period_seconds=self.period_seconds,
            spread=self.spread,
            seed=self.seed,
        )

    def _of_dates(self, path: Path, kind: str) -> TraceSource:
        """A file of ISO timestamps: they are arrivals, have no unit, and count from the first."""
        given = (
            ("kind", kind != "arrivals"),
            ("unit", self.unit is not None),
            ("origin", self.origin == "zero"),
        )
        faults = [f"{field}: {path} holds timestamps; leave {field} out" for field, is_wrong in given if is_wrong]
        if faults:
            raise ConfigurationError.of_all("trace", faults)
        return TraceSource(
            path=path,
            format=None,
            column=self.column,
            unit="ns",
            kind=kind,
            origin="first",
            period_seconds=None,
            spread=self.spread,
            seed=self.seed,
            are_dates=True,
        )

    def _against(self, format: TraceFormat) -> list[str]:
        own = (("column", self.column, None), ("unit", self.unit, format.unit), ("kind", self.kind, format.kind))
        return [
            f"{field}: {given!r} contradicts the format {format.name}; leave it out, or give format=plain"
            for field, given, has in own
            if given is not None and given != has
        ]


@dataclass(frozen=True, slots=True)
class TraceSource:
    """A trace file and how it is read."""

    path: Path
    format: TraceFormat | None
    column: str | None
    unit: str
    kind: str
    origin: str
    period_seconds: float | None
    spread: str
    seed: int
    are_dates: bool = False

    def chunks(self, progress: Progress | None = None) -> Iterator[Chunk]:
        """Yield the file's numbers as they stand."""
        if self.format is not None and self.format.columns is not None:
            return self.format.read(self.path, progress)
        return read_chunks(self.path, self.column, progress, are_dates=self.are_dates)

    def seconds(self, values: NDArray[Any]) -> FloatArray:
        """Yield the file's numbers in seconds."""
        per_unit = parse_seconds(f"1{self.unit}", field="unit")
        # Dividing by a whole number rounds once. Multiplying by 1e-6 would round twice.
        scaled: FloatArray = values / round(1 / per_unit) if per_unit < 1 else values * per_unit
        return scaled


def read_times(source: TraceSource, progress: Progress | None = None) -> Iterator[FloatArray]:
    """Yield the arrival times of a file in seconds, checked, in chunks of bounded size."""
    read = _times_of_gaps if source.kind == "iats" else _times_of_arrivals
    first, last = None, 0.0
    for times in read(source, progress):
        first = float(times[0]) if first is None else first
        last = float(times[-1])
        yield times
    if first is not None and first > max(86400.0, last - first):
        raise ConfigurationError(
            f"trace: {source.path}: the first arrival is {first:.6g} s after the start, the rest takes only "
            f"{last - first:.6g} s; give origin=first if the times are absolute, or another unit",
            field="origin",
        )


def read_gaps(source: TraceSource, progress: Progress | None = None) -> Iterator[FloatArray]:
    """Yield the times between the arrivals of a file in seconds, checked, in chunks of bounded size.

    n arrivals have n - 1. Differences are computed before the scaling, so whole numbers keep all their digits.
    """
    last: NDArray[Any] | None = None
    for chunk in source.chunks(progress):
        if not len(chunk.values):
            continue
        values = _signed(chunk.values)
        if source.kind == "iats":
            gaps = source.seconds(values)
            check_times(str(source.path), gaps, None, chunk)
        else:
            before = values[:1] if last is None else last
            check_times(str(source.path), source.seconds(values), float(source.seconds(before)[0]), chunk)
            gaps = source.seconds(np.diff(values, prepend=before))[0 if last is not None else 1 :]
            last = values[-1:]
        if len(gaps):
            yield gaps


def _times_of_arrivals(source: TraceSource, progress: Progress | None) -> Iterator[FloatArray]:
    zero, last = None, 0.0
    for chunk in source.chunks(progress):
        values = _signed(chunk.values)
        if len(values):
            if zero is None:
                zero = values[0] if source.origin == "first" else values.dtype.type(0)
            # Subtracted before the scaling: whole numbers keep all their digits.
            times = source.seconds(values - zero)
            check_times(str(source.path), times, last, chunk, since_first=source.origin == "first")
            last = float(times[-1])
            yield times


def _times_of_gaps(source: TraceSource, progress: Progress | None) -> Iterator[FloatArray]:
    last: Any = None
    for chunk in source.chunks(progress):
        values = _signed(chunk.values)
        if len(values):
            check_times(str(source.path), source.seconds(values), None, chunk)
            if last is None:
                last = -values[0] if source.origin == "first" else values.dtype.type(0)
            # Summed before the scaling: the sums of whole numbers are whole.
            sums = last + np.cumsum(values)
            last = sums[-1]
            yield source.seconds(sums)


def _signed(values: NDArray[Any]) -> NDArray[Any]:
    return values.astype(np.int64) if values.dtype.kind == "u" else values


def check_times(name: str, seconds: FloatArray, last: float | None, chunk: Chunk, *, since_first: bool = False) -> None:
    """Raise ConfigurationError, with their places, for times that are not finite, negative or (after `last`) falling.

    Parameters
    ----------
    last
        The time before the first. None: these are gaps, which may rise and fall.
    chunk
        The numbers as they stand in the file, for the message.
    since_first
        The times count from the first. Times smaller than it are below 0.
    """
    with np.errstate(invalid="ignore"):  # inf - inf: reported as not finite
        steps = seconds if last is None else np.diff(seconds, prepend=last)
    gaps_or_times = (
        "a time between arrivals is never below 0"
        if last is None
        else ("times count from the trace's start (origin=first makes the first one zero)")
    )
    faults: tuple[tuple[NDArray[np.bool_], str], ...] = (
        (~np.isfinite(seconds), "not a finite number; remove or replace it"),
        ((seconds < 0) & (not since_first), f"negative; {gaps_or_times}"),
        (steps < 0, "smaller than the one before; sort the trace, or give kind=iats for inter-arrival times"),
    )
    for wrong, text in faults:
        where = np.flatnonzero(wrong)
        if len(where):
            shown = [f"{chunk.word} {chunk.places[i]}: {chunk.values[i]}" for i in where[:_MOST_FAULTS_SHOWN].tolist()]
            more = ", ..." if len(where) > _MOST_FAULTS_SHOWN else ""
            raise ConfigurationError(f"trace: {name}: {', '.join(shown)}{more}: {text}", field="trace")
