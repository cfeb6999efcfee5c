# SPDX-License-Identifier: Apache-2.0
"""How far a query has come, from its checkpoint."""

from __future__ import annotations

from pathlib import Path

from penstock.running.arrival_load import ReplayLoad
from penstock.running.checkpoint_files import batch_under_way, committed_offsets, newest_offsets
from penstock.running.topic_load import records_before


def a_checkpoint(folder: Path, planned: dict[int, str], done: tuple[int, ...]) -> Path:
    """The files that Spark writes for each batch."""
    (folder / "offsets").mkdir(parents=True)
    (folder / "commits").mkdir()
    for number, offsets in planned.items():
        (folder / "offsets" / str(number)).write_text(f"v1\n{{}}\n{offsets}")
        (folder / "offsets" / f".{number}.crc").touch()
    for number in done:
        (folder / "commits" / str(number)).write_text("v1\n{}")
    return folder


def test_the_batch_under_way_is_planned_and_not_done(tmp_path: Path) -> None:
    """What was planned lies ahead of what was done by the batch that was cut off; batch 10 is newer than batch 9."""
    planned = {9: '{"t": {"0": 40, "1": 2}}', 10: '{"t": {"0": 50, "1": 5}}'}
    checkpoint = a_checkpoint(tmp_path, planned, done=(8, 9))
    assert batch_under_way(checkpoint) == 10
    assert records_before(newest_offsets(checkpoint)) == 55
    assert records_before(committed_offsets(checkpoint)) == 42


def test_a_query_that_has_not_begun_has_done_nothing(tmp_path: Path) -> None:
    """Its first batch is under way, and how many records it has done is not known."""
    assert batch_under_way(tmp_path) == 0
    assert newest_offsets(tmp_path) is None
    assert committed_offsets(tmp_path) is None
    assert records_before(None) is None


def test_a_replay_knows_what_is_done_by_its_index(tmp_path: Path) -> None:
    """The offset of a replay holds the number of records; that of an operator below is of another kind."""
    from penstock.arrivals import parse_shape
    from penstock.arrivals.due import ReplayArrivals

    load = ReplayLoad(ReplayArrivals(parse_shape("constant:rate=10,duration=10s")))
    first = a_checkpoint(tmp_path / "first", {0: '{"epoch_us": 1, "index": 30}'}, done=(0,))
    below = a_checkpoint(tmp_path / "below", {0: '{"logOffset": 3}'}, done=(0,))
    assert load.done(first) == load.read(first) == 30
    assert load.done(below) is None
