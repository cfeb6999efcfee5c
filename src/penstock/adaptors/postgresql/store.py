# SPDX-License-Identifier: Apache-2.0
"""A knowledge store in a schema of a PostgreSQL database: several hosts can use it, and each may die.

What `add_...` has acknowledged is committed. A call on a lost connection fails with an AdaptorError that may be tried
again, and the next call connects anew; `knowledge.EnduringStore` keeps records in memory meanwhile. A record whose
connection was lost while it was written may be there all the same, and twice when it is written again.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from penstock.adaptors.postgresql.address import StoreAddress
from penstock.errors import AdaptorError, ConfigurationError
from penstock.record_tables import KINDS, NO_BOUND, SCHEMA_VERSION, RecordTables, Row
from penstock.secrets import without_secrets

if TYPE_CHECKING:
    import psycopg

_CREATION_LOCK = 0x50454E53
"""Of two processes that start together one creates the tables."""
_SECONDS_BEFORE_CONNECTION_COUNTS_AS_LOST = 10
_SECONDS_TO_ANSWER = 2.0
"""How much longer than a statement may take its answer is waited for."""


class PostgresqlStore(RecordTables):
    """Keeps the newest records of each kind in PostgreSQL (a `ports.KnowledgeStore`).

    Parameters
    ----------
    address
        Such as ``postgresql://user@host/database?schema=logs``. The schema is created if missing, the database is not.
        Passwords are better given by ``~/.pgpass`` or ``PGPASSWORD`` than in the address.
    bound_rows
        How many records of each kind are kept. Beyond it, the oldest are dropped, some at a time.
    patience_seconds
        How long connecting may take, and any statement.

    Raises
    ------
    ConfigurationError
        The database cannot be reached or used, the schema is not Penstock's, or has another version. Later failures
        are AdaptorErrors, `retryable` if the connection was lost or another process was in the way.
    """

    def __init__(
        self, address: str | StoreAddress, *, bound_rows: int = 100_000, patience_seconds: float = 5.0
    ) -> None:
        if bound_rows < 1:
            raise ConfigurationError(f"bound_rows: {bound_rows} is too few; keep at least 1 record", field="bound_rows")
        self._open(address, bound_rows, patience_seconds)

    @classmethod
    def open_readonly(cls, address: str | StoreAddress, *, patience_seconds: float = 5.0) -> PostgresqlStore:
        """Open an existing store for reading, also while another process writes to it."""
        store = cls.__new__(cls)
        store._open(address, None, patience_seconds)
        return store

    def _open(self, address: str | StoreAddress, bound_rows: int | None, patience_seconds: float) -> None:
        if find_spec("psycopg") is None:
            raise ConfigurationError(
                "store: the Python package 'psycopg' is missing; install Penstock with the extra `postgresql`, such as "
                "pip install 'penstock[postgresql]'",
                field="store",
            )
        import psycopg

        self.address = address if isinstance(address, StoreAddress) else StoreAddress.parse(address)
        self._bound, self._is_readonly = NO_BOUND if bound_rows is None else bound_rows, bound_rows is None
        self._patience_seconds = patience_seconds
        # Trimming a tenth at a time costs one range delete instead of one delete per record.
        self._trim_every = max(1, self._bound // 10)
        self._untrimmed = dict.fromkeys(KINDS, 0)
        self._lock = threading.RLock()
        self._connection: psycopg.Connection[Any] | None = None
        self._is_closed = False
        try:
            self._connect()
        except psycopg.Error as fault:
            self.close()
            raise ConfigurationError(f"store: {self.address.shown}: {self._meaning(fault)}", field="store") from None
        except BaseException:
            self.close()
            raise

    def set_fact(self, name: str, value: str) -> None:
        """Store a text under a name."""
        with self._in_use() as connection:
            self._run(
                connection,
                "INSERT INTO facts (name, value) VALUES (%s, %s) "
                "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                (name, value),
            )

    def fact(self, name: str) -> str | None:
        """Return the text under a name."""
        with self._in_use() as connection:
            row = self._run(connection, "SELECT value FROM facts WHERE name = %s", (name,)).fetchone()
        return None if row is None else str(row[0])

    def close(self) -> None:
        """Close the connection. May be called twice."""
        with self._lock:
            self._is_closed = True
            self._drop_connection()

    # --- inside ---------------------------------------------------------------------------------------------

    def _insert(self, kind: str, rows: Sequence[Row]) -> None:
        with self._in_use() as connection, connection.transaction():
            with connection.cursor() as cursor:
                cursor.executemany(
                    f"INSERT INTO {kind} (at, operator, is_change, payload) VALUES (%s, %s, %s, %s)",
                    [(at, operator, int(is_change), payload) for at, operator, is_change, payload in rows],
                )
            self._untrimmed[kind] += len(rows)
            if self._untrimmed[kind] >= self._trim_every:
                self._trim(connection, kind)

    def _trim(self, connection: psycopg.Connection[Any], kind: str) -> None:
        self._run(connection, f"DELETE FROM {kind} WHERE seq <= (SELECT MAX(seq) FROM {kind}) - %s", (self._bound,))
        self._untrimmed[kind] = 0

    def _select(self, kind: str, conditions: Sequence[str], values: Sequence[Any], limit: int) -> list[str]:
        # Records past the bound may still wait for the next trimming: they are not returned.
        wanted = " AND ".join([*conditions, f"seq > (SELECT MAX(seq) FROM {kind}) - ?"]).replace("?", "%s")
        with self._in_use() as connection:
            rows = self._run(
                connection,
                f"SELECT payload FROM {kind} WHERE {wanted} ORDER BY seq DESC LIMIT %s",
                (*values, self._bound, limit),
            ).fetchall()
        return [payload for (payload,) in rows]

    @staticmethod
    def _run(connection: psycopg.Connection[Any], statement: str, values: Sequence[Any] = ()) -> psycopg.Cursor[Any]:
        # Names in statements are those of this module, or were checked by `StoreAddress`; values are never part of one.
        return connection.execute(statement, values or None)

    @contextmanager
    def _in_use(self) -> Iterator[psycopg.Connection[Any]]:
        """Hold a connection for one thread at a time, and report failures with the store's address."""
        import psycopg

        with self._lock:
            if self._is_closed:
                raise AdaptorError(f"{self.address.shown}: the store is closed", target=self.address.shown)
            try:
                connection = self._connection or self._connect()
                with self._bounded(connection):
                    yield connection
            except ConfigurationError as fault:  # it was well at the start: somebody has changed it since
                self._drop_connection()
                raise AdaptorError(str(fault), target=self.address.shown) from None
            except psycopg.Error as fault:
                is_lost = self._connection is None or self._connection.broken or self._connection.closed
                if is_lost:
                    self._drop_connection()
                was_in_the_way = isinstance(fault, (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled))
                raise AdaptorError(
                    f"{self.address.shown}: {self._meaning(fault)}",
                    target=self.address.shown,
                    retryable=is_lost or was_in_the_way,
                ) from None  # what psycopg says besides may name what was sent

    def _connect(self) -> psycopg.Connection[Any]:
        import psycopg

        connection = psycopg.connect(
            self.address.conninfo,
            autocommit=True,
            connect_timeout=max(2, round(self._patience_seconds)),  # libpq takes no less
            keepalives_idle=_SECONDS_BEFORE_CONNECTION_COUNTS_AS_LOST,
            keepalives_interval=2,
            keepalives_count=2,
            tcp_user_timeout=1000 * _SECONDS_BEFORE_CONNECTION_COUNTS_AS_LOST,
            application_name="penstock",
        )
        try:
            with self._bounded(connection):
                self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _prepare(self, connection: psycopg.Connection[Any]) -> None:
        milliseconds = str(int(1000 * self._patience_seconds))
        for name, value in (
            ("search_path", self.address.schema),
            ("statement_timeout", milliseconds),
            ("lock_timeout", milliseconds),
            ("default_transaction_read_only", "on" if self._is_readonly else "off"),
            ("synchronous_commit", "on"),
        ):
            self._run(connection, "SELECT set_config(%s, %s, false)", (name, value))
        if not self._is_readonly:
            self._create_if_new(connection)
        self._check_identity(connection)

    @contextmanager
    def _bounded(self, connection: psycopg.Connection[Any]) -> Iterator[None]:
        """Cut the connection where nothing comes back: the server's own limits do not help where it stands still."""
        with socket.socket(fileno=os.dup(connection.fileno())) as line:  # another number for it: ours may be reused
            timer = threading.Timer(self._patience_seconds + _SECONDS_TO_ANSWER, _cut, (line,))
            timer.daemon = True
            timer.start()
            try:
                yield
            finally:
                timer.cancel()

    def _create_if_new(self, connection: psycopg.Connection[Any]) -> None:
        # In one transaction: a process killed meanwhile leaves nothing, not half a schema.
        with connection.transaction():
            self._run(connection, "SELECT pg_advisory_xact_lock(%s)", (_CREATION_LOCK,))
            if self._tables(connection):
                return
            known = self._run(
                connection, "SELECT 1 FROM information_schema.schemata WHERE schema_name = %s", (self.address.schema,)
            ).fetchone()
            if known is None:
                self._run(connection, f"CREATE SCHEMA {self.address.schema}")
            for kind in KINDS:
                self._run(
                    connection,
                    f"CREATE TABLE {kind} (seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
                    "at DOUBLE PRECISION NOT NULL, operator TEXT NOT NULL, is_change SMALLINT NOT NULL, "
                    "payload TEXT NOT NULL)",
                )
                self._run(connection, f"CREATE INDEX {kind}_by_operator ON {kind} (operator, at)")
                self._run(connection, f"CREATE INDEX {kind}_by_time ON {kind} (at)")
            # Queried in every cycle, and rare among the holds.
            self._run(connection, "CREATE INDEX decisions_changes ON decisions (operator) WHERE is_change = 1")
            self._run(connection, "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)")
            self._run(connection, "CREATE TABLE penstock_version (version INTEGER NOT NULL)")
            self._run(connection, "INSERT INTO penstock_version (version) VALUES (%s)", (SCHEMA_VERSION,))

    def _check_identity(self, connection: psycopg.Connection[Any]) -> None:
        tables = self._tables(connection)
        place = f"store: {self.address.shown}: the schema {self.address.schema}"
        if not tables:
            raise ConfigurationError(f"{place} has no run; give that of an existing one", field="store")
        if not tables >= {*KINDS, "facts", "penstock_version"}:
            raise ConfigurationError(f"{place} is not one of Penstock's; choose another by ?schema=...", field="store")
        row = self._run(connection, "SELECT version FROM penstock_version").fetchone()
        version = None if row is None else int(row[0])
        if version != SCHEMA_VERSION:
            raise ConfigurationError(
                f"{place} was written with version {version}, this Penstock reads version {SCHEMA_VERSION}; read it "
                "with the Penstock that wrote it, or choose another by ?schema=...",
                field="store",
            )

    def _tables(self, connection: psycopg.Connection[Any]) -> set[str]:
        asked = "SELECT table_name FROM information_schema.tables WHERE table_schema = %s"
        return {str(name) for (name,) in self._run(connection, asked, (self.address.schema,)).fetchall()}

    def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # what is lost cannot say good-bye
                connection.close()

    def _meaning(self, fault: psycopg.Error) -> str:
        """Explain a failure and what to do, without a word of what was sent."""
        import psycopg

        text = without_secrets(str(fault).strip().partition("\n")[0])
        advice = (
            (psycopg.errors.ReadOnlySqlTransaction, "the store was opened for reading, or the server is a copy"),
            (psycopg.errors.InsufficientPrivilege, "the user may not do this; grant it the schema"),
            (psycopg.errors.QueryCanceled, "the server took too long; try again"),
            (psycopg.errors.LockNotAvailable, "another process is in the way; try again"),
            (psycopg.errors.DiskFull, "the server's disk is full; free some space"),
            (psycopg.OperationalError, "the database cannot be reached or used; check address, user and password"),
        )
        for kind, said in advice:
            if isinstance(fault, kind):
                return f"{said} ({text})"
        return text


def _cut(line: socket.socket) -> None:
    with suppress(OSError):  # it is closed already
        line.shutdown(socket.SHUT_RDWR)
