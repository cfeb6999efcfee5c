# SPDX-License-Identifier: Apache-2.0
"""A knowledge store in one SQLite file. It survives the process, and others can read it while it is written.

It uses write-ahead logging with synchronous=NORMAL. A transaction is in the kernel's page cache when `add_...` returns,
so the end of the process by any signal loses nothing that was acknowledged. Only a power cut can cost the newest
records, and never the file's integrity.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.crash_points import crash_point
from penstock.errors import AdaptorError, ConfigurationError
from penstock.knowledge.opened_file import OpenedFile
from penstock.record_tables import AUDIT, KINDS, NO_BOUND, SCHEMA_VERSION, RecordTables, Row

_APPLICATION_ID = 0x50454E53  # "PENS" in the file's header: distinguishes our files from other SQLite files

_FIRST_KINDS = tuple(kind for kind in KINDS if kind != AUDIT)
"""Those of the first files, which had no orders."""


def _tables(*kinds: str) -> list[str]:
    return [
        statement
        for kind in kinds
        for statement in (
            f"CREATE TABLE {kind} (seq INTEGER PRIMARY KEY, at REAL NOT NULL, operator TEXT NOT NULL,"
            " is_change INTEGER NOT NULL, payload TEXT NOT NULL)",
            f"CREATE INDEX {kind}_by_operator ON {kind} (operator, at)",
            f"CREATE INDEX {kind}_by_time ON {kind} (at)",
        )
    ]


_SCHEMA = [
    *_tables(*_FIRST_KINDS),
    # Queried in every cycle, and rare among the holds.
    "CREATE INDEX decisions_changes ON decisions (operator) WHERE is_change = 1",
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
]


class SqliteStore(RecordTables):
    """Keeps the newest records of each kind in an SQLite file (a `ports.KnowledgeStore`).

    Parameters
    ----------
    path
        The file. It is created if missing; its folder is not.
    bound_rows
        How many records of each kind are kept. Beyond it, the oldest are dropped, some at a time.
    busy_timeout_seconds
        How long a call waits for another process that is writing.

    Raises
    ------
    ConfigurationError
        The file cannot be opened, is locked or damaged, is not Penstock's, or has another schema version.
        Later failures are AdaptorErrors, `retryable` if the file was only locked. One of them is that the file was
        deleted or replaced: nothing is written where nobody would find it.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, bound_rows: int = 100_000, busy_timeout_seconds: float = 5.0
    ) -> None:
        if bound_rows < 1:
            raise ConfigurationError(f"bound_rows: {bound_rows} is too few; keep at least 1 record", field="bound_rows")
        self._open(Path(path), "rwc", bound_rows, busy_timeout_seconds)

    @classmethod
    def open_readonly(cls, path: str | os.PathLike[str], *, busy_timeout_seconds: float = 5.0) -> SqliteStore:
        """Open an existing file for reading, also while another process writes to it."""
        store, file = cls.__new__(cls), Path(path)
        if not file.is_file():
            raise ConfigurationError(
                f"{file}: this knowledge file does not exist; give the file of an existing run", field=str(file)
            )
        if os.access(file, os.W_OK) and os.access(file.resolve().parent, os.W_OK):
            # With write permission, opening merges the write-ahead log of a killed process, and no side file stays.
            mode = "rw"
        else:
            # Without write permission, and without a log, the file alone has everything.
            mode = "ro" if Path(f"{file.resolve()}-wal").exists() else "ro&immutable=1"
        store._open(file, mode, None, busy_timeout_seconds)
        return store

    def _open(self, path: Path, mode: str, bound_rows: int | None, busy_timeout_seconds: float) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._bound = NO_BOUND if bound_rows is None else bound_rows
        # Trimming a tenth at a time costs one range delete instead of one delete per record.
        self._trim_every = max(1, self._bound // 10)
        self._untrimmed = dict.fromkeys(KINDS, 0)
        self._has_audit = True
        self._connection: sqlite3.Connection | None = None
        if not path.resolve().parent.is_dir():
            raise ConfigurationError(
                f"{path}: the folder {path.parent} does not exist; create it first", field=str(path)
            )
        connection: sqlite3.Connection | None = None
        self._file: OpenedFile | None = None
        try:
            connection = sqlite3.connect(
                f"{path.resolve().as_uri()}?mode={mode}",
                uri=True,
                timeout=busy_timeout_seconds,
                isolation_level=None,
                check_same_thread=False,
            )
            self._connection = connection
            self._check_identity(may_create=bound_rows is not None)
            if bound_rows is None:
                connection.execute("PRAGMA query_only = ON")
            else:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")
                connection.execute(f"PRAGMA journal_size_limit = {16 << 20}")
                self._create_if_new()
                self._add_audit_table()
                with self._transaction() as transaction:
                    for kind in KINDS:
                        self._trim(transaction, kind)
                self._file = OpenedFile(path)
            self._has_audit = self._table_is_there(AUDIT)
        except sqlite3.Error as fault:
            self.close()
            raise ConfigurationError(f"{path}: {meaning(fault)}", field=str(path)) from fault
        except BaseException:
            self.close()
            raise

    def set_fact(self, name: str, value: str) -> None:
        """Store a text under a name."""
        with self._in_use(), self._transaction() as transaction:
            transaction.execute("INSERT OR REPLACE INTO facts (name, value) VALUES (?, ?)", (name, value))

    def fact(self, name: str) -> str | None:
        """Return the text under a name."""
        with self._in_use() as connection:
            row = connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def close(self) -> None:
        """Fold the write-ahead log into the file and close it. May be called twice."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    # --- inside ---------------------------------------------------------------------------------------------

    def _insert(self, kind: str, rows: Sequence[Row]) -> None:
        with self._in_use(), self._transaction() as transaction:
            transaction.executemany(f"INSERT INTO {kind} (at, operator, is_change, payload) VALUES (?, ?, ?, ?)", rows)
            self._untrimmed[kind] += len(rows)
            if self._untrimmed[kind] >= self._trim_every:
                self._trim(transaction, kind)

    def _trim(self, transaction: sqlite3.Connection, kind: str) -> None:
        transaction.execute(f"DELETE FROM {kind} WHERE seq <= (SELECT MAX(seq) FROM {kind}) - ?", (self._bound,))
        self._untrimmed[kind] = 0

    def _select(self, kind: str, conditions: Sequence[str], values: Sequence[Any], limit: int) -> list[str]:
        if kind == AUDIT and not self._has_audit:
            return []  # the file was written before there were orders
        # Records past the bound may still wait for the next trimming: they are not returned.
        wanted = " AND ".join([*conditions, f"seq > (SELECT MAX(seq) FROM {kind}) - ?"])
        with self._in_use() as connection:
            # Numbers are sorted first, out of an index: sorting a day of payloads takes seconds.
            rows = connection.execute(
                f"SELECT payload FROM {kind} WHERE seq IN "
                f"(SELECT seq FROM {kind} WHERE {wanted} ORDER BY seq DESC LIMIT ?) ORDER BY seq DESC",
                (*values, self._bound, limit),
            ).fetchall()
        return [payload for (payload,) in rows]

    @contextmanager
    def _in_use(self) -> Iterator[sqlite3.Connection]:
        """Hold the connection for one thread at a time, and report failures with the file's name."""
        with self._lock:
            if self._connection is None:
                raise AdaptorError(f"{self.path}: the store is closed", target=str(self.path))
            try:
                yield self._connection
            except sqlite3.Error as fault:
                raise AdaptorError(
                    f"{self.path}: {meaning(fault)}", target=str(self.path), retryable=_is_locked(fault)
                ) from fault

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        connection = self._connection
        assert connection is not None  # all callers hold an open store
        if self._file is not None and not self._file.is_in_place:
            raise AdaptorError(
                f"{self.path}: the file was deleted or replaced while it was used; start this process again",
                target=str(self.path),
            )
        connection.execute("BEGIN IMMEDIATE")
        try:
            crash_point("record-begun")
            yield connection
            crash_point("record-written")
            connection.execute("COMMIT")
            crash_point("record-committed")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _check_identity(self, *, may_create: bool) -> None:
        """Refuse a file that is not ours before anything is written to it."""
        identity, version, tables = self._identity()
        if identity == 0 and tables == 0 and may_create:
            return
        if identity != _APPLICATION_ID:
            raise ConfigurationError(
                f"{self.path}: this is an SQLite file, but not one of Penstock's; choose another file",
                field=str(self.path),
            )
        if version != SCHEMA_VERSION:
            raise ConfigurationError(
                f"{self.path}: written with schema version {version}, this Penstock reads version "
                f"{SCHEMA_VERSION}; read it with the Penstock that wrote it, or choose another file",
                field=str(self.path),
            )

    def _identity(self) -> tuple[int, int, int]:
        assert self._connection is not None
        asked = ("PRAGMA application_id", "PRAGMA user_version", "SELECT COUNT(*) FROM sqlite_master")
        identity, version, tables = (int(self._connection.execute(q).fetchone()[0]) for q in asked)
        return identity, version, tables

    def _table_is_there(self, name: str) -> bool:
        assert self._connection is not None
        asked = "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = ?"
        return bool(self._connection.execute(asked, (name,)).fetchone()[0])

    def _add_audit_table(self) -> None:
        """Let a file from before there were orders keep them too; who reads files of that time can read it still."""
        with self._transaction() as transaction:
            if not self._table_is_there(AUDIT):
                for statement in _tables(AUDIT):
                    transaction.execute(statement)

    def _create_if_new(self) -> None:
        # In one transaction, and checked again inside it: of two processes that start together one creates, and
        # a process killed meanwhile leaves an empty file, not half a schema.
        with self._transaction() as transaction:
            if self._identity()[2] == 0:
                transaction.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                transaction.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
                for statement in _SCHEMA:
                    transaction.execute(statement)


def _is_locked(fault: sqlite3.Error) -> bool:
    return getattr(fault, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def meaning(fault: sqlite3.Error) -> str:
    """Explain an SQLite failure and what to do. The low byte of the extended code is the kind of failure."""
    advice = {
        sqlite3.SQLITE_BUSY: "another process has locked the file; end it, or choose another file",
        sqlite3.SQLITE_LOCKED: "another process has locked the file; end it, or choose another file",
        sqlite3.SQLITE_NOTADB: "this is not an SQLite file; choose another file",
        sqlite3.SQLITE_CORRUPT: "the file is damaged; move it away and start with a new one",
        sqlite3.SQLITE_CANTOPEN: "the file cannot be opened; check that its folder is writable",
        sqlite3.SQLITE_READONLY: "the file is not writable; check its permissions, or how it was opened",
        sqlite3.SQLITE_PERM: "permission to use the file is missing; check its permissions",
        sqlite3.SQLITE_FULL: "the disk is full; free some space",
    }.get(getattr(fault, "sqlite_errorcode", 0) & 0xFF)
    return f"{advice} ({fault})" if advice else str(fault)
