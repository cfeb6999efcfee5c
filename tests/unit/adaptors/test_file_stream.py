# SPDX-License-Identifier: Apache-2.0
"""Arrival times of a file stream, from logs laid out on disk as Spark lays them out."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.adaptors.spark import file_stream
from penstock.adaptors.spark.file_stream import FileStreamArrivals
from penstock.errors import ConfigurationError, MetricSourceError
from penstock.records import SourceProgress


class Upstream:
    """A folder as a streaming Parquet sink writes it, and the log of a query that reads it."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "a stream"  # the space must come through the logs' URL encoding
        self.checkpoint = root / "checkpoint"
        (self.folder / "_spark_metadata").mkdir(parents=True)
        (self.checkpoint / "sources" / "0").mkdir(parents=True)
        self.paths: list[Path] = []
        self.read: list[tuple[Path, int]] = []

    def commit(self, batch: int, rows: list[int], at: float, *, compact: bool = False) -> list[Path]:
        """Write the files of one batch and its log entry, committed `at`."""
        new = []
        for place, count in enumerate(rows):
            path = self.folder / f"part-{batch:05d}-{place}.parquet"
            pq.write_table(pa.table({"value": pa.array(range(count))}), path)
            new.append(path)
        self.paths += new
        shown = self.paths if compact else new
        entry = self.folder / "_spark_metadata" / (f"{batch}.compact" if compact else str(batch))
        lines = [json.dumps({"path": "file://" + quote(str(path)), "action": "add"}) for path in shown]
        entry.write_text("\n".join(["v1", *lines]))
        os.utime(entry, (at, at))
        (entry.parent / f".{entry.name}.crc").write_bytes(b"crc")
        return new

    def take(self, offset: int, paths: list[Path], *, compact: bool = False) -> None:
        """Write the reader's log entry for one offset."""
        new = [(path, offset) for path in paths]
        self.read += new
        name = f"{offset}.compact" if compact else str(offset)
        lines = [
            json.dumps({"path": "file://" + quote(str(path)), "timestamp": 1, "batchId": at})
            for path, at in (self.read if compact else new)
        ]
        (self.checkpoint / "sources" / "0" / name).write_text("\n".join(["v1", *lines]))

    def progress(self, start: int | None, end: int | None, rows: int = 0) -> SourceProgress:
        """A batch's progress over these offsets."""
        return SourceProgress(
            description=f"FileStreamSource[file:{self.folder}]",
            start_offset=None if start is None else json.dumps({"logOffset": start}),
            end_offset=None if end is None else json.dumps({"logOffset": end}),
            latest_offset=None,
            rows=rows,
        )


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    """An empty folder with its reader's empty log."""
    return Upstream(tmp_path)


def _times(arrivals: FileStreamArrivals, source: SourceProgress) -> list[float] | None:
    times = arrivals.of(source)
    return None if times is None else times.tolist()


def test_records_arrive_when_their_upstream_batch_is_committed(upstream: Upstream) -> None:
    """Each record of a file has the commit time of the upstream batch, in rising order."""
    first = upstream.commit(0, [2, 1], at=100.0)
    second = upstream.commit(1, [2], at=101.5)
    third = upstream.commit(2, [1], at=103.0)
    upstream.take(0, [*second, *first])
    upstream.take(1, third)
    arrivals = FileStreamArrivals(upstream.checkpoint)
    assert _times(arrivals, upstream.progress(None, 0)) == [100.0, 100.0, 100.0, 101.5, 101.5]
    assert _times(arrivals, upstream.progress(0, 1)) == [103.0]
    assert _times(arrivals, upstream.progress(None, 1)) == [100.0, 100.0, 100.0, 101.5, 101.5, 103.0]


def test_upstream_batches_of_a_batch_are_named(upstream: Upstream) -> None:
    """A batch knows the ids of the upstream batches it carried."""
    first, second = upstream.commit(0, [1], at=1.0), upstream.commit(1, [1, 1], at=2.0)
    upstream.take(0, [*first, *second])
    arrivals = FileStreamArrivals(upstream.checkpoint)
    assert arrivals.upstream_batches(upstream.progress(None, 0)) == [0, 1]


def test_arrived_by_counts_committed_records_only(upstream: Upstream) -> None:
    """Records count from their commit on, whether or not anybody has read them; uncommitted files never do."""
    arrivals = FileStreamArrivals(upstream.checkpoint, folder=upstream.folder)
    assert arrivals.arrived_by(99.0) == 0
    upstream.commit(0, [3], at=100.0)
    upstream.commit(1, [0], at=101.0)
    upstream.commit(2, [4], at=102.0)
    pq.write_table(pa.table({"value": [1, 2]}), upstream.folder / "part-99999-0.parquet")
    assert [arrivals.arrived_by(at) for at in (99.9, 100.0, 101.0, 102.0, 500.0)] == [0, 3, 3, 7, 7]
    upstream.commit(3, [5], at=103.0)
    assert arrivals.arrived_by(500.0) == 12


def test_nothing_is_said_before_the_folder_is_known(upstream: Upstream) -> None:
    """Without a folder given or seen the number of arrivals is unknown, not zero."""
    upstream.take(0, upstream.commit(0, [3], at=100.0))
    arrivals = FileStreamArrivals(upstream.checkpoint)
    assert arrivals.arrived_by(200.0) is None
    assert arrivals.of(upstream.progress(None, 0)) is not None
    assert arrivals.arrived_by(200.0) == 3


def test_records_that_an_earlier_run_did_count_as_done(upstream: Upstream) -> None:
    """After a resume the first batch seen is not the first: what was done before it is no backlog."""
    for batch in range(12):
        files = upstream.commit(batch, [batch + 1], at=100.0 + batch, compact=batch == 9)
        upstream.take(batch, files, compact=batch == 9)
    resumed = FileStreamArrivals(upstream.checkpoint, folder=upstream.folder)
    assert resumed.done_index(upstream.progress(10, 11, rows=12)) == sum(range(1, 13))
    assert resumed.arrived_by(500.0) == sum(range(1, 13))
    upstream.take(12, upstream.commit(12, [2, 3], at=113.0))
    assert resumed.done_index(upstream.progress(11, 12, rows=5)) == sum(range(1, 13)) + 5
    assert resumed.done_index(upstream.progress(12, 12)) == sum(range(1, 13)) + 5
    assert resumed.done_index(upstream.progress(3, 4, rows=5)) == 15  # the reader was set back


def test_records_done_are_unknown_where_a_file_is_gone(upstream: Upstream) -> None:
    """A file that was removed before anybody looked makes the count unknown, not smaller."""
    first = upstream.commit(0, [4], at=100.0)
    upstream.take(0, first)
    first[0].unlink()
    assert FileStreamArrivals(upstream.checkpoint).done_index(upstream.progress(None, 0)) is None


def test_a_file_that_is_gone_is_not_looked_for_again(upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    """The count stays unknown, and no later batch reads the whole log anew."""
    first = upstream.commit(0, [4], at=100.0)
    upstream.take(0, first)
    first[0].unlink()
    arrivals = FileStreamArrivals(upstream.checkpoint)
    assert arrivals.done_index(upstream.progress(None, 0)) is None
    upstream.take(1, upstream.commit(1, [2], at=101.0))
    real, read = file_stream.entries_from_end, list[str]()

    def recorded(file: Path, *conditions: Any) -> Any:
        read.append(file.name)
        return real(file, *conditions)

    monkeypatch.setattr(file_stream, "entries_from_end", recorded)
    assert arrivals.done_index(upstream.progress(0, 1)) is None
    assert read == ["1"]


def test_who_asks_for_the_same_batches_later_gets_the_same_answers(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop and an agent ask one after the other; for the second, the log is not counted from its start again."""
    for batch in range(3):
        upstream.take(batch, upstream.commit(batch, [batch + 1], at=100.0 + batch))
    arrivals = FileStreamArrivals(upstream.checkpoint, folder=upstream.folder)
    asked = [upstream.progress(None if batch == 0 else batch - 1, batch, rows=batch + 1) for batch in range(3)]
    first = [arrivals.done_index(one) for one in asked]
    monkeypatch.setattr(file_stream, "entries_from_end", lambda *_: pytest.fail("the log was read again"))
    assert [arrivals.done_index(one) for one in asked] == first == [1, 3, 6]


def test_missing_upstream_log_is_unknown(tmp_path: Path) -> None:
    """A folder no streaming query writes gives None, not zero."""
    (tmp_path / "plain").mkdir()
    assert FileStreamArrivals(tmp_path / "checkpoint", folder=tmp_path / "plain").arrived_by(1.0) is None


def test_a_followed_log_survives_compaction(upstream: Upstream) -> None:
    """Compact entries are read as the one new batch in them while the log is followed, on both sides."""
    arrivals = FileStreamArrivals(upstream.checkpoint, folder=upstream.folder)
    total = 0
    for batch in range(25):
        is_tenth = batch % 10 == 9
        files = upstream.commit(batch, [batch + 1], at=100.0 + batch, compact=is_tenth)
        upstream.take(batch, files, compact=is_tenth)
        total += batch + 1
        source = upstream.progress(batch - 1 if batch else None, batch)
        assert _times(arrivals, source) == [100.0 + batch] * (batch + 1)
        assert arrivals.upstream_batches(source) == [batch]
        assert arrivals.arrived_by(1000.0) == total
        if is_tenth:
            for old in range(batch):
                (upstream.folder / "_spark_metadata" / str(old)).unlink(missing_ok=True)
                (upstream.checkpoint / "sources" / "0" / str(old)).unlink(missing_ok=True)
    # The reader's compact entries keep the offset of each file: old batches are still answered.
    assert _times(arrivals, upstream.progress(2, 4)) == [103.0] * 4 + [104.0] * 5


def test_history_compacted_before_the_first_look_is_unknown_but_counted(upstream: Upstream) -> None:
    """Files whose batch was compacted away have no arrival time; their records count, new ones are exact."""
    for batch in range(12):
        is_tenth = batch == 9
        upstream.take(batch, upstream.commit(batch, [2], at=100.0 + batch, compact=is_tenth), compact=is_tenth)
    for old in range(9):
        (upstream.folder / "_spark_metadata" / str(old)).unlink()
    arrivals = FileStreamArrivals(upstream.checkpoint, folder=upstream.folder)
    assert arrivals.of(upstream.progress(2, 3)) is None
    assert arrivals.upstream_batches(upstream.progress(2, 3)) is None
    assert _times(arrivals, upstream.progress(9, 11)) == [110.0, 110.0, 111.0, 111.0]
    assert [arrivals.arrived_by(at) for at in (105.0, 109.0, 111.0)] == [None, 20, 24]


def test_a_gap_in_the_log_makes_the_count_unknown_until_it_is_repeated(upstream: Upstream) -> None:
    """Without the entries before it a count cannot be right; the next compact entry gives it again."""
    for batch in range(8):
        upstream.commit(batch, [1], at=100.0 + batch)
    for old in range(6):
        (upstream.folder / "_spark_metadata" / str(old)).unlink()
    arrivals = FileStreamArrivals(upstream.checkpoint, folder=upstream.folder)
    assert arrivals.arrived_by(200.0) is None
    upstream.commit(8, [1], at=108.0)
    upstream.commit(9, [1], at=109.0, compact=True)
    upstream.commit(10, [1], at=110.0)
    assert [arrivals.arrived_by(at) for at in (108.0, 109.0, 200.0)] == [None, 10, 11]


def test_a_lost_data_file_is_unknown(upstream: Upstream) -> None:
    """A file that is gone has no known number of records: no answer is made up."""
    files = upstream.commit(0, [3], at=100.0)
    upstream.take(0, files)
    files[0].unlink()
    arrivals = FileStreamArrivals(upstream.checkpoint)
    assert arrivals.of(upstream.progress(None, 0)) is None
    assert arrivals.arrived_by(200.0) is None


@pytest.mark.parametrize(
    "source",
    [
        SourceProgress("RateStreamV2[rowsPerSecond=1]", None, '{"logOffset": 0}', None, 1),
        SourceProgress("FileStreamSource[file:/another/folder]", None, '{"logOffset": 0}', None, 1),
    ],
)
def test_other_sources_are_not_answered(upstream: Upstream, source: SourceProgress) -> None:
    """A progress of a source that is not this folder gives None."""
    upstream.take(0, upstream.commit(0, [1], at=1.0))
    arrivals = FileStreamArrivals(upstream.checkpoint, folder=upstream.folder)
    assert arrivals.of(source) is None
    assert arrivals.upstream_batches(source) is None


@pytest.mark.parametrize("end", [None, "17", '{"index": 4}', "not json"])
def test_offsets_of_another_shape_are_not_answered(upstream: Upstream, end: str | None) -> None:
    """An offset that is no log offset gives None."""
    upstream.take(0, upstream.commit(0, [1], at=1.0))
    source = SourceProgress(f"FileStreamSource[file:{upstream.folder}]", None, end, None, 1)
    assert FileStreamArrivals(upstream.checkpoint).of(source) is None


def test_offsets_the_log_does_not_hold_are_not_answered(upstream: Upstream) -> None:
    """A range past the end of the reader's log gives None."""
    upstream.take(0, upstream.commit(0, [1], at=1.0))
    assert FileStreamArrivals(upstream.checkpoint).of(upstream.progress(0, 1)) is None


def test_a_broken_log_is_an_error_that_names_the_file(upstream: Upstream) -> None:
    """A log entry of an unknown version raises, with its path."""
    (upstream.folder / "_spark_metadata" / "0").write_text("v7\n{}")
    with pytest.raises(MetricSourceError, match=r"_spark_metadata/0.*'v7'"):
        FileStreamArrivals(upstream.checkpoint, folder=upstream.folder).arrived_by(1.0)


def test_only_local_folders_are_taken() -> None:
    """A checkpoint on another file system is refused with the field's name."""
    with pytest.raises(ConfigurationError, match="checkpoint: 'hdfs://host/cp'") as caught:
        FileStreamArrivals("hdfs://host/cp")
    assert caught.value.field == "checkpoint"


def test_memory_is_bounded(upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old files and batches are forgotten: their times become unknown, the newest stay exact."""
    monkeypatch.setattr(file_stream, "_REMEMBERED_FILES", 5)
    monkeypatch.setattr(file_stream, "_REMEMBERED_BATCHES", 5)
    arrivals = FileStreamArrivals(upstream.checkpoint, folder=upstream.folder)
    for batch in range(12):
        upstream.take(batch, upstream.commit(batch, [1], at=100.0 + batch))
        assert arrivals.arrived_by(1000.0) == batch + 1
    assert arrivals.of(upstream.progress(0, 1)) is None
    assert _times(arrivals, upstream.progress(10, 11)) == [111.0]
    assert arrivals.arrived_by(101.0) is None
    assert arrivals.arrived_by(108.5) == 9


def test_of_a_long_compact_entry_only_the_end_is_read(upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of weeks costs a pass no more than a log of minutes; its lines are parsed once."""
    monkeypatch.setattr(file_stream, "_BLOCK_BYTES", 300)  # some three lines
    arrivals = FileStreamArrivals(upstream.checkpoint, folder=upstream.folder)
    for batch in range(9):
        upstream.commit(batch, [1], at=100.0 + batch)
        upstream.take(batch, upstream.paths[-1:])
        assert arrivals.arrived_by(1000.0) == batch + 1
    upstream.commit(9, [1, 2], at=109.0, compact=True)
    upstream.take(9, upstream.paths[-2:], compact=True)
    parsed: list[str] = []
    real = json.loads

    def loads(text: str | bytes) -> object:
        parsed.append(str(text))
        return real(text)

    monkeypatch.setattr("penstock.adaptors.spark.file_stream.json.loads", loads)
    assert arrivals.arrived_by(1000.0) == 12
    assert len(parsed) == 3  # two new lines, and the one that was known
    parsed.clear()
    found = arrivals.of(upstream.progress(8, 9, rows=3))
    assert found is not None
    assert found.tolist() == [109.0] * 3
    assert len([line for line in parsed if "batchId" in line]) == 3
