# SPDX-License-Identifier: Apache-2.0
"""What a measured application reads, and the short names of applications."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from penstock.adaptors.replay.max_rows_file import read_max_rows
from penstock.adaptors.replay.options import ReplayOptions, replay_arrivals
from penstock.errors import ConfigurationError
from penstock.measuring.plan import MeasurePlan
from penstock.running.app_names import app_path, short_names
from penstock.running.measured_source import ReplayedAtOnce, source_of
from penstock.running.operator_process import load_app

SHAPE = {"shape": "constant:rate=100,duration=1h"}


def test_every_record_is_due_at_once(tmp_path: Path) -> None:
    """Time zero lies so far back that the last record of an hour's shape is due now; the cap is in the file."""
    reads = ReplayedAtOnce(SHAPE).reads(3, 500, tmp_path / "cap.txt")
    assert reads.replay is not None
    assert reads.replay["partitions"] == "3"
    assert read_max_rows(ReplayOptions.parse(reads.replay)) == 500
    replay = replay_arrivals(reads.replay)
    assert replay.arrived_by(time.time()) == replay.arrivals.total == 360_000


def test_bytes_are_those_of_the_text(tmp_path: Path) -> None:
    """The mean over lines of 1, 2 and 3 bytes is two; a letter beyond ASCII counts its bytes; no text is not zero."""
    lines = tmp_path / "lines.txt"
    lines.write_text("a\né\nabc\n", encoding="utf-8")
    options = {**SHAPE, "payload": f"file:{lines}", "cacheDir": str(tmp_path)}
    assert ReplayedAtOnce(options).bytes_per_record(3) == pytest.approx(2.0)
    assert ReplayedAtOnce(SHAPE).bytes_per_record(1000) is None
    generated = ReplayedAtOnce({**SHAPE, "payload": "log"}).bytes_per_record(100_000)
    assert generated is not None
    assert 40 < generated < 400


@pytest.mark.parametrize("option", ["startAt", "maxrowsperbatch", "maxRowsFile", "partitions"])
def test_what_the_measurement_sets_is_refused(option: str) -> None:
    """A cap or a time zero of the user's own would change what is measured behind its back."""
    with pytest.raises(ConfigurationError, match="is set by the measurement"):
        ReplayedAtOnce({**SHAPE, option: "1"})


def test_a_plan_without_a_topic_is_replayed() -> None:
    """The plan's source options are those of the replay."""
    source = source_of(MeasurePlan("a:b", (1,), source=SHAPE), {}, lambda _: None)
    assert isinstance(source, ReplayedAtOnce)
    assert source.spark == {}


def test_short_names_lead_to_applications() -> None:
    """Every name that is listed can be loaded; others are refused with the list."""
    assert "log-analysis" in short_names()
    for name in short_names():
        assert callable(load_app(app_path(name)))
    assert app_path("mine:f") == "mine:f"
    with pytest.raises(ConfigurationError, match=r"called 'nothing'; there are .*log-analysis"):
        app_path("nothing")
