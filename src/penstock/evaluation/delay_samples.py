# SPDX-License-Identifier: Apache-2.0
"""Measured throughput at some executors and delays, kept in a file to which each measurement is added at once."""

from __future__ import annotations

import csv
from collections.abc import Collection, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from penstock.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class DelaySample:
    """One measurement.

    Attributes
    ----------
    variant, executors, round_trip_seconds, repeat
        Of what, and the how-manieth of it, from 1.
    records_per_second, batches
        The mean rate over so many full batches.
    load_average
        Of the machine at its end: what else ran on it.
    at
        When it ended, in seconds since the epoch.
    steal
        The part of the machine's CPU that its other guests had meanwhile; None: it is not known.
    """

    variant: str
    executors: int
    round_trip_seconds: float
    repeat: int
    records_per_second: float
    batches: int
    load_average: float
    at: float
    steal: float | None = None

    @property
    def key(self) -> tuple[str, int, float, int]:
        """What it is a measurement of."""
        return self.variant, self.executors, round(self.round_trip_seconds, 6), self.repeat


COLUMNS = tuple(field.name for field in fields(DelaySample))


def read_samples(path: Path) -> list[DelaySample]:
    """Read the file; empty where there is none.

    Raises
    ------
    ConfigurationError
        It has other columns, or a line that cannot be read.
    """
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    if not rows or tuple(rows[0]) != COLUMNS:
        raise ConfigurationError(f"{path}: its first line must be {','.join(COLUMNS)}", field="samples")
    found = []
    for number, row in enumerate(rows[1:], start=2):
        try:
            variant, executors, trip, repeat, rate, batches, load, at, steal = row
            found.append(
                DelaySample(
                    variant, int(executors), float(trip), int(repeat), float(rate), int(batches), float(load),
                    float(at), float(steal) if steal else None,
                )
            )  # fmt: skip
        except ValueError as fault:
            raise ConfigurationError(f"{path}: line {number} cannot be read: {fault}", field="samples") from fault
    return found


def add_sample(path: Path, sample: DelaySample) -> None:
    """Add one measurement, so that what comes after may be interrupted."""
    is_new = not path.is_file()
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if is_new:
            writer.writerow(COLUMNS)
        writer.writerow(astuple(sample))


def set_aside(path: Path, variants: Collection[str]) -> Path:
    """Move all measurements of these variants to a file beside, where they count for nothing; gives that file."""
    aside = path.with_name(f"unfinished-{path.name}")
    samples = read_samples(path)
    for sample in samples:
        if sample.variant in variants:
            add_sample(aside, sample)
    left = path.with_name(f".{path.name}.new")
    left.unlink(missing_ok=True)
    for sample in samples:
        if sample.variant not in variants:
            add_sample(left, sample)
    if left.is_file():
        left.replace(path)
    else:
        path.unlink()
    return aside


def rates_of(samples: Sequence[DelaySample], variant: str, executors: int, round_trip_seconds: float) -> list[float]:
    """The measured rates of one configuration."""
    return [
        sample.records_per_second
        for sample in samples
        if sample.key[:3] == (variant, executors, round(round_trip_seconds, 6))
    ]
