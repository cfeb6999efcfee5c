# SPDX-License-Identifier: Apache-2.0
"""Logs of processes that run for weeks have a bound."""

from __future__ import annotations

from pathlib import Path

from penstock.adaptors.process.log_rotation import rotate_logs


def test_a_full_log_is_kept_aside_and_its_writer_goes_on(tmp_path: Path) -> None:
    """The newest is number 1, the oldest goes; the process keeps its file and appends to it."""
    log = tmp_path / "operator.log"
    with log.open("ab", buffering=0) as writer:
        for number in range(5):
            writer.write(b"%d" % number * 100)
            assert rotate_logs([tmp_path], most_bytes=50, kept=3) == []
            assert log.stat().st_size == 0
        writer.write(b"small")
        rotate_logs([tmp_path], most_bytes=50, kept=3)
    assert log.read_bytes() == b"small"
    kept = {path.name: path.read_bytes()[:1] for path in tmp_path.glob("*.log.*")}
    assert kept == {"operator.log.1": b"4", "operator.log.2": b"3", "operator.log.3": b"2"}


def test_the_controllers_own_log_is_left_to_its_writer(tmp_path: Path) -> None:
    """It rotates as it writes."""
    (tmp_path / "controller.log").write_bytes(b"x" * 100)
    rotate_logs([tmp_path, tmp_path / "not there"], most_bytes=50)
    assert (tmp_path / "controller.log").stat().st_size == 100


def test_a_log_that_cannot_be_copied_is_emptied_and_named(tmp_path: Path) -> None:
    """A full disk must not stay full because of it."""
    log = tmp_path / "operator.log"
    log.write_bytes(b"x" * 100)
    (tmp_path / "operator.log.1").mkdir()
    (fault,) = rotate_logs([tmp_path], most_bytes=50, kept=1)
    assert "operator.log cannot be rotated" in fault
    assert log.stat().st_size == 0
