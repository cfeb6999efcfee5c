# SPDX-License-Identifier: Apache-2.0
"""Where a measured operator's records go."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from penstock.records import Limits, Mode
from penstock.running.operator_job import JobInput, JobOutput, OperatorJob
from penstock.running.operator_process import _sink


class RecordingWriter:
    """Keeps the format and the options that it is given."""

    def __init__(self) -> None:
        self.formats: list[str] = []
        self.options: dict[str, str] = {}

    def format(self, name: str) -> RecordingWriter:
        """Keep it."""
        self.formats.append(name)
        return self

    def option(self, name: str, value: str) -> RecordingWriter:
        """Keep it."""
        self.options[name] = value
        return self


class FakeFrame:
    """A stream with a writer."""

    def __init__(self) -> None:
        self.writeStream = RecordingWriter()


def a_sink(writes: JobOutput, folder: Path) -> RecordingWriter:
    """The writer of an operator with this output."""
    limits = Limits(1, 1)
    job = OperatorJob("o", "a:b", "local", limits, Mode.ACT, str(folder), "s.sock", JobInput(), writes)
    return cast("RecordingWriter", _sink(cast("Any", FakeFrame()), job))


def test_dropped_records_touch_no_disk(tmp_path: Path) -> None:
    """A measured operator's records are made and dropped; any other's go to its folder."""
    assert a_sink(JobOutput(is_dropped=True), tmp_path).formats == ["noop"]
    kept = a_sink(JobOutput(), tmp_path)
    assert (kept.formats, kept.options) == (["parquet"], {"path": str(tmp_path / "output")})
