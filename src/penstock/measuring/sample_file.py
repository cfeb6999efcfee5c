# SPDX-License-Identifier: Apache-2.0
"""The folder of a measurement: its plan, a line for each sample, and the same as a table for other programs.

A sample is on the disk before the next one is begun. A last line that a crash cut off is dropped when the file is
opened again.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from pathlib import Path

from penstock.errors import ConfigurationError
from penstock.measuring.plan import MeasurePlan
from penstock.measuring.sample import Sample
from penstock.measuring.summary import kept_samples
from penstock.records import decode, encode

PLAN, SAMPLES, TABLE = "plan.json", "samples.jsonl", "samples.csv"
COLUMNS = (
    "application", "executors", "cpu_share", "throughput", "bytes_per_second", "repeat", "parallelism", "cap",
    "seconds", "batches", "batch_seconds", "cpu_used_cores", "utilisation", "source_limit", "marks",
)  # fmt: skip
"""Of the table. `penstock predict` reads the first four."""


class SampleFile:
    """The samples of a measurement on disk.

    Parameters
    ----------
    folder
        Of the measurement; made where it is not there.
    plan
        What is measured.
    resume
        Go on with the samples that are there. Otherwise there must be none.

    Raises
    ------
    ConfigurationError
        There are samples and `resume` was not asked for, or they were taken otherwise, or cannot be read.
    """

    def __init__(self, folder: Path, plan: MeasurePlan, *, resume: bool = False) -> None:
        self.folder, self._app = folder, plan.app
        self._lines = folder / SAMPLES
        before = folder / PLAN
        if resume and not before.is_file():
            raise ConfigurationError(
                f"--resume: {folder} has no measurement ({PLAN}); name its folder with --folder", field="--resume"
            )
        if resume:
            decode(MeasurePlan, before.read_text(encoding="utf-8")).check_same(plan)
        elif before.exists() or self._lines.exists():
            raise ConfigurationError(
                f"--folder: {folder} holds a measurement; go on with it by --resume, or give another folder",
                field="--folder",
            )
        self.samples = self._read() if resume else []
        folder.mkdir(parents=True, exist_ok=True)
        _write_whole(before, encode(plan) + "\n")
        self._write_table()

    def add(self, sample: Sample) -> None:
        """Keep a sample; on the disk when this returns."""
        with self._lines.open("a", encoding="utf-8") as file:
            file.write(encode(sample) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.samples.append(sample)
        self._write_table()

    @property
    def table(self) -> Path:
        """The table of the samples that count."""
        return self.folder / TABLE

    def _read(self) -> list[Sample]:
        if not self._lines.exists():
            return []
        data = self._lines.read_bytes()
        whole, newline, rest = data.rpartition(b"\n")
        if rest:  # cut off in the middle of a line, which was no sample yet
            self._lines.write_bytes(whole + newline)
        found = []
        for number, line in enumerate(whole.splitlines(), start=1):
            try:
                found.append(decode(Sample, line))
            except ConfigurationError as fault:
                raise ConfigurationError(
                    f"--resume: line {number} of {self._lines} is not a sample; remove it: {fault}", field="--resume"
                ) from fault
        return found

    def _write_table(self) -> None:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(table_rows(self._app, self.samples))
        _write_whole(self.table, text.getvalue())


def table_rows(app: str, samples: Sequence[Sample]) -> list[tuple[object, ...]]:
    """The samples of the application that count, one row each; an unknown value is an empty cell.

    A CPU that was left alone is a share of 1: all of an executor's cores.
    """
    return [
        (
            app, s.executors, s.cpu_share or 1.0, s.throughput.mean, s.bytes_per_second, s.repeat, s.parallelism, s.cap,
            s.seconds, s.throughput.batches, s.batch_seconds, s.cpu_used_cores, s.utilisation, s.source_limit, " ".join(
                mark.replace(" ", "-") for mark in s.marks
            ),
        )
        for s in kept_samples(samples)
        if not s.is_source
    ]  # fmt: skip


def _write_whole(path: Path, text: str) -> None:
    draft = path.with_name(path.name + ".draft")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
