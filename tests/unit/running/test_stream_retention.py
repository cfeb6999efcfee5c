# SPDX-License-Identifier: Apache-2.0
"""Files between operators go when every reader has done with them, and not before."""

from __future__ import annotations

import json
from pathlib import Path

from penstock.running.stream_retention import StreamRetention


class Reader:
    """The checkpoint of a query that reads a folder, as Spark lays it out."""

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        for name in ("commits", "offsets", "sources/0"):
            (checkpoint / name).mkdir(parents=True)
        self._lines: list[str] = ["v1"]

    def log(self, offset: int, paths: list[Path], *, is_compact: bool = False) -> None:
        """The query found files: an entry of its source's log, which may repeat all before."""
        new = [json.dumps({"path": f"file://{path}", "timestamp": 1, "batchId": offset}) for path in paths]
        self._lines += new
        name, lines = (f"{offset}.compact", self._lines) if is_compact else (str(offset), ["v1", *new])
        (self.checkpoint / "sources" / "0" / name).write_text("\n".join(lines))

    def commit(self, offset: int) -> None:
        """The query has done the batch with that offset."""
        (self.checkpoint / "offsets" / str(offset)).write_text("v1\n{}\n" + json.dumps({"logOffset": offset}))
        (self.checkpoint / "commits" / str(offset)).write_text("v1\n{}")


def files(folder: Path, count: int) -> list[Path]:
    """Files of a stream, one for each offset."""
    folder.mkdir(exist_ok=True)
    made = [folder / f"part-{number}.parquet" for number in range(count)]
    for path in made:
        path.write_bytes(b"x")
        path.with_name(f".{path.name}.crc").write_bytes(b"x")
    return made


def test_a_file_goes_some_time_after_it_was_read(tmp_path: Path) -> None:
    """What was not read stays for ever; what was read stays for as long as was asked."""
    made = files(tmp_path / "stream", 4)
    reader = Reader(tmp_path / "reader")
    retention = StreamRetention({tmp_path / "stream": [reader.checkpoint]}, 100.0)
    assert retention.sweep(0.0) == []
    for offset, path in enumerate(made[:3]):
        reader.log(offset, [path], is_compact=offset == 2)
    reader.commit(1)
    assert retention.sweep(10.0) == []
    reader.commit(2)
    retention.sweep(60.0)
    retention.sweep(109.0)
    assert [path.exists() for path in made] == [True] * 4
    retention.sweep(110.0)  # 100 s after the commit of offset 1 was seen
    assert [path.exists() for path in made] == [False, False, True, True]
    assert not made[0].with_name(f".{made[0].name}.crc").exists()
    retention.sweep(1e9)
    assert [path.exists() for path in made] == [False, False, False, True]


def test_a_later_log_goes_on_where_the_earlier_ended(tmp_path: Path) -> None:
    """Each compact entry repeats the one before; nothing in it is looked at twice."""
    made = files(tmp_path / "stream", 20)
    reader = Reader(tmp_path / "reader")
    retention = StreamRetention({tmp_path / "stream": [reader.checkpoint]}, 1.0)
    for offset, path in enumerate(made):
        reader.log(offset, [path], is_compact=offset % 10 == 9)
        reader.commit(offset)
        retention.sweep(10.0 * offset)
    assert [path.exists() for path in made] == [False] * 19 + [True]


def test_the_slowest_of_several_readers_decides(tmp_path: Path) -> None:
    """A file that one of two has not done stays."""
    made = files(tmp_path / "stream", 2)
    quick, slow = Reader(tmp_path / "quick"), Reader(tmp_path / "slow")
    retention = StreamRetention({tmp_path / "stream": [quick.checkpoint, slow.checkpoint]}, 1.0)
    for reader in (quick, slow):
        reader.log(0, made[:1])
        reader.log(1, made[1:], is_compact=True)
    quick.commit(1)
    slow.commit(0)
    retention.sweep(0.0)
    retention.sweep(10.0)
    assert [path.exists() for path in made] == [False, True]
    slow.commit(1)
    retention.sweep(20.0)
    retention.sweep(30.0)
    assert [path.exists() for path in made] == [False, False]


def test_nothing_outside_the_folder_is_touched(tmp_path: Path) -> None:
    """Whatever a log says; and a folder without a reader is a result, which stays."""
    made, (other,) = files(tmp_path / "stream", 1), files(tmp_path / "other", 1)
    reader = Reader(tmp_path / "reader")
    reader.log(0, [other, made[0].parent / ".." / "other" / other.name], is_compact=True)
    reader.commit(0)
    retention = StreamRetention({tmp_path / "stream": [reader.checkpoint], tmp_path / "other": []}, 1.0)
    retention.sweep(0.0)
    retention.sweep(10.0)
    assert made[0].exists()
    assert other.exists()


def test_a_broken_log_is_said_and_removes_nothing(tmp_path: Path) -> None:
    """The line names the folder."""
    made = files(tmp_path / "stream", 1)
    reader = Reader(tmp_path / "reader")
    (reader.checkpoint / "sources" / "0" / "9.compact").write_text('v1\n{"no": "path"}\n')
    reader.commit(0)
    retention = StreamRetention({tmp_path / "stream": [reader.checkpoint]}, 1.0)
    retention.sweep(0.0)
    (line,) = retention.sweep(10.0)
    assert str(tmp_path / "stream") in line
    assert made[0].exists()
