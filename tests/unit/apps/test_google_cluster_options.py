# SPDX-License-Identifier: Apache-2.0
"""The Google cluster query's options, playback, results file and command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.adaptors.replay.options import ReplayOptions, open_arrivals
from penstock.apps.google_cluster import check_options, read_results
from penstock.apps.google_cluster.__main__ import main
from penstock.apps.google_cluster.generated_trace import generated_rows, write_generated
from penstock.apps.google_cluster.playback import playback_speed, replayed
from penstock.apps.google_cluster.results import add_results
from penstock.errors import ConfigurationError


def test_every_mistake_in_the_options_is_reported() -> None:
    """Unknown names, wrong values and a missing folder are listed at once."""
    wrong = {"shedding": "maybe", "groups": "0", "every": "0s", "lateness": "soon", "windows": "3"}
    with pytest.raises(ConfigurationError) as fault:
        check_options("google_cluster", wrong)
    assert [line.split(":")[0] for line in fault.value.faults] == [
        "windows", "output", "shedding", "groups", "every", "lateness",
    ]  # fmt: skip
    with pytest.raises(ConfigurationError, match="there is no 'racks' here; there are machines"):
        check_options("racks", {})


def test_sensible_options_are_accepted() -> None:
    """All that is documented may be given."""
    check_options("machines", {"shedding": "off", "groups": "64", "output": "unused"})
    check_options("cluster", {"output": "here", "every": "30m", "lateness": "10s"})


def test_playback_is_real_time_faster_or_as_fast_as_it_is_taken() -> None:
    """A factor goes from 1 to 100; everything else has to be one of two words."""
    assert playback_speed("real-time") == 1.0
    assert playback_speed(100) == 100.0
    assert playback_speed("fast") > 1e6
    for wrong in ("0.5", "101", "quick"):
        with pytest.raises(ConfigurationError, match=r"playback: .*or say real-time or fast"):
            playback_speed(wrong)
    with pytest.raises(ConfigurationError, match="rows_per_batch: is missing"):
        replayed(Path("trace.csv"), "fast")


def test_a_replay_plays_every_row_at_its_time(tmp_path: Path) -> None:
    """The arrivals of a trace file are all its rows, the snapshot at time zero, in the order of the file."""
    trace = write_generated(tmp_path / "trace.csv.gz", machines=5, tasks=60, seconds=1000)
    arrivals = replayed(trace, 20)
    options = ReplayOptions.parse({"trace": arrivals["trace"], **arrivals["options"], "cacheDir": str(tmp_path)})
    played = open_arrivals(options)
    stamps = [int(row.split(",")[0]) / 1e6 for row in generated_rows(5, 60, 1000)]
    assert played.times(0, played.total).tolist() == stamps
    assert options.speed == 20.0


def test_results_are_added_once(tmp_path: Path) -> None:
    """A batch that is run again changes nothing; results are in the order of trace time."""
    assert read_results(tmp_path) is None
    add_results(tmp_path, [{"time_seconds": 900.0, "late_events": 2}])
    for _ in range(2):
        add_results(tmp_path, [{"time_seconds": 0.0, "late_events": 0}])
    found = read_results(tmp_path)
    assert found is not None
    assert [result["time_seconds"] for result in found.results] == [0.0, 900.0]
    assert found.late_events == 2
    assert found.at(900.0) == {"time_seconds": 900.0, "late_events": 2}
    assert found.at(1800.0) is None


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    """What is not a result file is named, not half read."""
    (tmp_path / "results.json").write_text('{"counts": {}}', encoding="utf-8")
    with pytest.raises(ConfigurationError, match="does not contain results"):
        read_results(tmp_path)


def test_the_command_writes_a_trace_and_checks_results(tmp_path: Path, capsys: Any) -> None:
    """Results that differ end with code 1 and say where, equal ones with code 0."""
    from penstock.apps.google_cluster.check import expected_results

    trace = tmp_path / "trace.csv"
    assert main(["generate", str(trace), "--machines", "5", "--tasks", "60", "--seconds", "1000"]) == 0
    expected = expected_results(trace)
    add_results(tmp_path / "out", [{**expected[0], "tasks_total": -1.0}, *expected[1:]])
    assert main(["check", str(tmp_path / "out"), str(trace)]) == 1
    assert "at 0 s: tasks_total is -1.0 instead of" in capsys.readouterr().out
    add_results(tmp_path / "out", expected)
    assert main(["check", str(tmp_path / "out"), str(trace)]) == 0
    assert "all 2 results are as pandas computes them" in capsys.readouterr().out
