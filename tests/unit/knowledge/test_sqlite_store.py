# SPDX-License-Identifier: Apache-2.0
"""What is special about the store in a file."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from penstock.errors import AdaptorError, ConfigurationError
from penstock.knowledge import SqliteStore
from penstock.record_tables import SCHEMA_VERSION
from penstock.records import LatencySummary, StageTime
from penstock.testing import a_decision, an_observation


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a store may be made; the name has what a URI would trip over."""
    return tmp_path / "run 100%?#1" / "knowledge.sqlite"


@pytest.fixture(autouse=True)
def folder(file: Path) -> Path:
    """The folder of the file."""
    file.parent.mkdir()
    return file.parent


def test_write_ahead_log_and_synchronous_normal(file: Path) -> None:
    """The file is in WAL mode, which survives the end of the process by any signal."""
    store = SqliteStore(file)
    with store._in_use() as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (1,)  # 1: NORMAL
    store.close()


def test_a_clean_end_leaves_one_file(file: Path) -> None:
    """After closing, and after reading, only the file itself is there."""
    store = SqliteStore(file)
    store.add_decision(a_decision())
    store.close()
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    reader = SqliteStore.open_readonly(file)
    assert len(reader.decisions()) == 1
    reader.close()
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_the_rows_on_disk_are_bounded(file: Path) -> None:
    """Trimming goes in batches: the file never holds more than the bound and a tenth."""
    store = SqliteStore(file, bound_rows=100)
    with closing(sqlite3.connect(file)) as other:
        for at in range(1000):
            store.add_decision(a_decision(at=float(at)))
            (rows,) = other.execute("SELECT COUNT(*) FROM decisions").fetchone()
            assert rows <= 110  # bound 100 + a tenth of it
    store.close()


def test_short_runs_on_one_file_stay_bounded(file: Path) -> None:
    """Runs too short to trim while they write are trimmed at the next start."""
    for start in range(0, 90, 9):  # 9 a run, one below the batch of 10
        store = SqliteStore(file, bound_rows=100)
        store.add_stage_times([StageTime(float(start + i), "plan", 0.1) for i in range(9)])
        store.close()
    SqliteStore(file, bound_rows=30).close()
    with closing(sqlite3.connect(file)) as other:
        assert other.execute("SELECT COUNT(*), MIN(at) FROM stage_times").fetchone() == (30, 60.0)  # 60 to 89


def test_a_second_connection_reads_while_the_first_writes(file: Path) -> None:
    """A read-only store sees each decision as soon as it was added, and cannot write."""
    writer = SqliteStore(file)
    reader = SqliteStore.open_readonly(file)
    for at in range(5):
        writer.add_decision(a_decision(at=float(at)))
        assert [d.at for d in reader.decisions()][-1] == at
    with pytest.raises(AdaptorError, match="not writable") as caught:
        reader.add_decision(a_decision())
    assert not caught.value.retryable
    assert str(file) in str(caught.value)
    reader.close()
    writer.add_decision(a_decision(at=9.0))
    writer.close()


@pytest.mark.parametrize("leftover", [False, True])
def test_reading_without_the_right_to_write(file: Path, monkeypatch: pytest.MonkeyPatch, leftover: bool) -> None:
    """Where nothing may be written a finished file is read as it is, and one with a log left over with its log."""
    store = SqliteStore(file)
    store.add_decision(a_decision(at=5.0))
    if not leftover:
        store.close()
    monkeypatch.setattr("penstock.knowledge.sqlite.os.access", lambda path, mode: False)
    reader = SqliteStore.open_readonly(file)
    assert [d.at for d in reader.decisions()] == [5.0]
    reader.close()
    store.close()


def test_reading_what_is_not_there_makes_nothing(file: Path) -> None:
    """Opening a missing file to read is an error that names it, and no file appears."""
    with pytest.raises(ConfigurationError, match="knowledge file does not exist"):
        SqliteStore.open_readonly(file)
    assert not file.exists()


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    """The folder is not made behind the user's back: the error names file and folder."""
    file = tmp_path / "nowhere" / "knowledge.sqlite"
    with pytest.raises(ConfigurationError, match="create it first") as caught:
        SqliteStore(file)
    assert str(file) in str(caught.value)
    assert not file.parent.exists()


def test_a_folder_that_cannot_be_written_to_is_named() -> None:
    """Where no file can be made (here /proc, closed even to root) the error names the file and the fix."""
    with pytest.raises(ConfigurationError, match=r"/proc/knowledge\.sqlite: the file cannot be opened; check"):
        SqliteStore("/proc/knowledge.sqlite")


def test_a_text_file_is_refused_and_left_alone(file: Path) -> None:
    """A file that is no SQLite file is refused by name and not touched."""
    file.write_text("operator: parser\n" * 200)
    before = file.read_bytes()
    for open_it in (SqliteStore, SqliteStore.open_readonly):
        with pytest.raises(ConfigurationError, match="not an SQLite file") as caught:
            open_it(file)
        assert str(file) in str(caught.value)
    assert file.read_bytes() == before


def test_a_foreign_database_is_refused_and_left_alone(file: Path) -> None:
    """Somebody else's SQLite file is refused before anything is written to it."""
    with closing(sqlite3.connect(file)) as other:
        other.execute("CREATE TABLE customers (name TEXT)")
        other.commit()
    before = file.read_bytes()
    for open_it in (SqliteStore, SqliteStore.open_readonly):
        with pytest.raises(ConfigurationError, match="not one of Penstock's"):
            open_it(file)
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_another_schema_version_is_refused(file: Path) -> None:
    """A file of another version says both versions and what to do."""
    SqliteStore(file).close()
    with closing(sqlite3.connect(file)) as other:
        other.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 6}")
    for open_it in (SqliteStore, SqliteStore.open_readonly):
        with pytest.raises(ConfigurationError, match="schema version 7, this Penstock reads version 1"):
            open_it(file)


def test_a_damaged_file_is_reported(file: Path) -> None:
    """A file whose pages were overwritten is reported as damaged, with its name."""
    store = SqliteStore(file)
    for at in range(200):
        store.add_decision(a_decision(at=float(at)))
    store.close()
    with file.open("r+b") as raw:  # the header says it is ours; every page behind it is noise
        raw.seek(4096)
        raw.write(b"\xa5" * (file.stat().st_size - 4096))
    with pytest.raises(ConfigurationError, match="damaged") as caught:
        SqliteStore(file)
    assert str(file) in str(caught.value)


def test_a_locked_file_is_reported_and_may_be_tried_again(file: Path) -> None:
    """While another process holds the lock, opening and writing fail with errors that name the file."""
    store = SqliteStore(file, busy_timeout_seconds=0.01)
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(AdaptorError, match="locked") as caught:
            store.add_decision(a_decision())
        assert caught.value.retryable
        assert str(file) in str(caught.value)
        with pytest.raises(ConfigurationError, match="locked"):
            SqliteStore(file, busy_timeout_seconds=0.01)
        other.execute("ROLLBACK")
    store.add_decision(a_decision(at=7.0))
    assert [d.at for d in store.decisions()] == [7.0], "the failed one left nothing behind"
    store.close()


def test_a_closed_store_says_so(file: Path) -> None:
    """Using a closed store is an error that names the file."""
    store = SqliteStore(file)
    store.close()
    with pytest.raises(AdaptorError, match="the store is closed"):
        store.decisions()
    with pytest.raises(AdaptorError, match="the store is closed"):
        store.add_decision(a_decision())


def test_a_record_that_json_cannot_hold_is_refused_at_the_door(file: Path) -> None:
    """Infinity is not written as nothing: the record is refused by field, and the others stay readable."""
    store = SqliteStore(file)
    store.add_observation(an_observation())
    endless = LatencySummary(1, float("inf"), 1.0, 1.0, 1.0, 1.0)
    with pytest.raises(ConfigurationError, match="latency"):
        store.add_observation(an_observation(latency=endless))
    assert store.observations() == [an_observation()]
    store.close()


def test_a_bound_below_one_is_refused(file: Path) -> None:
    """A store that may keep nothing is refused, and no file is made."""
    with pytest.raises(ConfigurationError, match="bound_rows"):
        SqliteStore(file, bound_rows=0)
    assert not file.exists()


def test_the_changes_of_an_operator_are_found_by_index(file: Path) -> None:
    """The question asked in every cycle reads an index, not the whole history."""
    store = SqliteStore(file)
    with store._in_use() as connection:
        plan = connection.execute(
            "EXPLAIN QUERY PLAN SELECT payload FROM decisions WHERE at >= 0 AND seq > 0 AND operator = 'x'"
            " AND is_change = 1 ORDER BY seq DESC LIMIT 10"
        ).fetchall()
    store.close()
    assert any("decisions_changes" in row[3] for row in plan), plan


@pytest.mark.parametrize("comes_back", [False, True])
def test_nothing_is_written_into_a_file_that_was_deleted(file: Path, comes_back: bool) -> None:
    """SQLite itself would go on, and what it takes is gone at the end of the process."""
    store = SqliteStore(file)
    store.add_decision(a_decision())
    for part in file.parent.iterdir():
        part.unlink()
    if comes_back:
        SqliteStore(file).close()
    with pytest.raises(AdaptorError, match="deleted or replaced"):
        store.add_decision(a_decision())
    with pytest.raises(AdaptorError, match="deleted or replaced"):
        store.set_fact("a", "b")
    assert len(store.decisions()) == 1
    store.close()
