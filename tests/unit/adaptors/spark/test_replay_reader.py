# SPDX-License-Identifier: Apache-2.0
"""The replay reader under a virtual clock: what is due, how it is split, what is read."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows
from pyspark.sql.types import StructType

from penstock.adaptors.spark.replay import (
    ReplayDataSource,
    ReplayOptions,
    ReplayPartition,
    ReplayStreamReader,
)
from penstock.clock import VirtualClock
from penstock.errors import ConfigurationError

NOW = 1_790_000_000.5
NOW_US = 1_790_000_000_500_000
ALL = ReadAllAvailable()


def _reader(clock: VirtualClock, **options: object) -> ReplayStreamReader:
    return ReplayStreamReader(ReplayOptions.parse({"shape": "constant:rate=10,duration=3s", **options}), clock)


def test_time_zero_is_the_first_call() -> None:
    """The first initial offset sets time zero; asked again later it is the same."""
    clock = VirtualClock(NOW)
    reader = _reader(clock)
    assert reader.initialOffset() == {"epoch_us": NOW_US, "index": 0}
    clock.advance(5)
    assert reader.initialOffset() == {"epoch_us": NOW_US, "index": 0}
    assert _reader(clock, startAt=100).initialOffset() == {"epoch_us": 100_000_000, "index": 0}


def test_records_are_due_whatever_was_read() -> None:
    """The load is open: the latest offset follows the clock and the speed up to the end of the trace."""
    clock = VirtualClock(NOW)
    reader = _reader(clock, speed=2)
    start = reader.initialOffset()
    due = []
    for _ in range(5):
        due.append(reader.latestOffset(start, ALL)["index"])
        clock.advance(0.5)
    # 10 per second at double speed: 10 in half a second, all 30 after one and a half.
    assert due == [0, 10, 20, 30, 30]


def test_a_checkpoint_keeps_its_time_zero() -> None:
    """After a restart the start offset's time zero counts, in the latest offset and in the report."""
    clock = VirtualClock(NOW + 1)
    reader = _reader(clock)
    assert reader.reportLatestOffset() is None
    reader.initialOffset()
    start = {"epoch_us": NOW_US, "index": 4}
    assert reader.latestOffset(start, ALL) == {"epoch_us": NOW_US, "index": 10}
    assert reader.reportLatestOffset() == {"epoch_us": NOW_US, "index": 10}


def test_the_limit_holds_back_but_the_report_does_not() -> None:
    """A batch takes at most maxRowsPerBatch while the report shows everything due: the queue."""
    clock = VirtualClock(NOW)
    reader = _reader(clock, maxRowsPerBatch=7)
    start = reader.initialOffset()
    clock.advance(2)
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(7)
    assert reader.latestOffset(start, limit)["index"] == 7
    assert reader.latestOffset(start, ALL)["index"] == 20
    report = reader.reportLatestOffset()
    assert report is not None
    assert report["index"] == 20
    assert isinstance(_reader(clock).getDefaultReadLimit(), ReadAllAvailable)


def test_a_limit_in_a_file_can_be_changed(tmp_path: Path) -> None:
    """Each batch takes what the file says when it is planned."""
    clock = VirtualClock(NOW)
    file = tmp_path / "cap.txt"
    file.write_text("7")
    reader = _reader(clock, maxRowsFile=str(file))
    start = reader.initialOffset()
    clock.advance(2)
    limit = reader.getDefaultReadLimit()
    assert reader.latestOffset(start, limit)["index"] == 7
    file.write_text("12")
    assert reader.latestOffset(start, limit)["index"] == 12


def test_a_minimum_waits_until_the_end() -> None:
    """With a minimum nothing is offered until enough is due, except for the rest at the end of the trace."""
    clock = VirtualClock(NOW)
    reader = _reader(clock)
    start = reader.initialOffset()
    clock.advance(1)
    assert reader.latestOffset(start, ReadMinRows(11))["index"] == 0
    assert reader.latestOffset(start, ReadMinRows(10))["index"] == 10
    clock.advance(9)
    assert reader.latestOffset(start, ReadMinRows(100))["index"] == 30


def test_available_now_ends() -> None:
    """With the trigger availableNow, records due later than its start are left."""
    clock = VirtualClock(NOW)
    reader = _reader(clock)
    start = reader.initialOffset()
    clock.advance(1)
    reader.prepareForTriggerAvailableNow()
    clock.advance(1)
    assert reader.latestOffset(start, ALL)["index"] == 10


def test_a_clock_that_goes_back_takes_nothing_back() -> None:
    """The latest offset is never before the start."""
    clock = VirtualClock(NOW - 100)
    start = {"epoch_us": NOW_US, "index": 9}
    assert _reader(clock).latestOffset(start, ALL) == start


@pytest.mark.parametrize(("rows", "parts"), [(0, 0), (1, 1), (2, 2), (3, 3), (10, 3), (11, 3)])
def test_partitions_cover_each_record_once(rows: int, parts: int) -> None:
    """Partitions are even, in order, without gap or overlap, and none is empty."""
    reader = _reader(VirtualClock(NOW), partitions=3)
    # The start's time zero is another one: so it is when the first batch is run again after a crash.
    split = reader.partitions({"epoch_us": 1, "index": 5}, {"epoch_us": NOW_US, "index": 5 + rows})
    assert len(split) == parts
    records: list[int] = []
    for part in split:
        assert isinstance(part, ReplayPartition)
        assert part.epoch_us == NOW_US
        assert rows // parts <= part.stop - part.start <= rows // parts + 1
        records += range(part.start, part.stop)
    assert records == list(range(5, 5 + rows))


def test_rows_have_number_arrival_and_text() -> None:
    """What is read is the record's number, its due time to the microsecond, and its payload."""
    reader = _reader(VirtualClock(NOW), speed=4, payload="log", malformed=0)
    (batch,) = reader.read(ReplayPartition(NOW_US, 2, 5))
    assert batch.column("index").to_pylist() == [2, 3, 4]
    # Due at 0.3, 0.4 and 0.5 s of the trace, four times faster.
    assert batch.column("arrival").cast("int64").to_pylist() == [
        NOW_US + 75_000,
        NOW_US + 100_000,
        NOW_US + 125_000,
    ]
    assert batch.column("value").to_pylist()[0].startswith("2026-09-21T14:13:20.575 ")


def test_batches_are_bounded() -> None:
    """A large partition comes in Arrow batches of at most ten thousand rows that join without a seam."""
    options = ReplayOptions.parse({"shape": "sampled:constant:rate=50000,duration=1s", "startAt": 1})
    batches = list(ReplayStreamReader(options).read(ReplayPartition(1_000_000, 123, 45_678)))
    assert max(batch.num_rows for batch in batches) == 10_000
    index = np.concatenate([batch.column("index").to_numpy() for batch in batches])
    assert np.array_equal(index, np.arange(123, 45_678))
    arrival = np.concatenate([batch.column("arrival").cast("int64").to_numpy() for batch in batches])
    assert np.all(np.diff(arrival) >= 0)


def test_readers_are_small_when_copied(tmp_path: Path) -> None:
    """A reader that has opened a large trace is still copied into tasks as options alone."""
    trace = tmp_path / "t.npy"
    np.save(trace, np.arange(200_000, dtype=np.float64))
    options = {"trace": str(trace), "cacheDir": str(tmp_path / "cache")}
    reader = ReplayStreamReader(ReplayOptions.parse(options))
    start = reader.initialOffset()
    reader.latestOffset(start, ALL)
    assert len(pickle.dumps(reader)) < 2000
    (batch,) = pickle.loads(pickle.dumps(reader)).read(ReplayPartition(0, 199_999, 200_000))
    assert batch.column("arrival").cast("int64").to_pylist() == [199_999_000_000]


def test_a_bad_trace_fails_before_time_zero(tmp_path: Path) -> None:
    """The trace and the payload are looked through before the query starts counting time."""
    trace = tmp_path / "t.txt"
    trace.write_text("2\n1\n")
    cache = str(tmp_path / "cache")
    reader = ReplayStreamReader(ReplayOptions.parse({"trace": str(trace), "cacheDir": cache}))
    with pytest.raises(ConfigurationError, match=r"line 2: 1\.0: smaller"):
        reader.initialOffset()
    with pytest.raises(ConfigurationError, match="payload"):
        _reader(VirtualClock(NOW), payload=f"file:{tmp_path / 'none'}").initialOffset()


def test_the_source_checks_options_and_schema() -> None:
    """The data source refuses bad options when it is made, and a schema that is not its own."""
    assert ReplayDataSource.name() == "penstock_replay"
    with pytest.raises(ConfigurationError, match="unknown option"):
        ReplayDataSource({"shape": "constant:rate=10,duration=3s", "colour": "red"})
    source = ReplayDataSource({"shape": "constant:rate=10,duration=3s"})
    assert source.schema() == "index BIGINT, arrival TIMESTAMP, value STRING"
    with pytest.raises(ConfigurationError, match="schema"):
        source.streamReader(StructType())
