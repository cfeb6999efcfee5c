# SPDX-License-Identifier: Apache-2.0
"""Leases in a PostgreSQL database, for masters on several hosts. Time is the server's clock, the same for all."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from penstock.adaptors.postgresql.address import StoreAddress
from penstock.errors import AdaptorError, ConfigurationError
from penstock.ports import Lease
from penstock.secrets import without_secrets

if TYPE_CHECKING:
    import psycopg

_TABLE = (
    "CREATE TABLE IF NOT EXISTS leases (name text PRIMARY KEY, holder text NOT NULL, fence bigint NOT NULL,"
    " until timestamptz NOT NULL)"
)
# One statement, so that two who ask at once are put in order by the row's lock. The second one sees what the first did.
# The first number is above those of a schema that was dropped: agents have heard these, and refuse smaller ones.
_TAKE = (
    "INSERT INTO leases AS kept (name, holder, fence, until)"
    " VALUES (%(name)s, %(holder)s, extract(epoch FROM clock_timestamp())::bigint,"
    " clock_timestamp() + %(seconds)s * interval '1 second')"
    " ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until,"
    " fence = kept.fence + CASE WHEN kept.until <= clock_timestamp() THEN 1 ELSE 0 END"
    " WHERE kept.until <= clock_timestamp() OR kept.holder = excluded.holder RETURNING fence"
)
_CREATION_LOCK = 0x50454E54


class PostgresqlLeases:
    """Leases in a schema of a database (a `ports.LeaseStore`).

    Parameters
    ----------
    address
        The schema is created if missing, the database is not.
    patience_seconds
        How long connecting may take, and any statement; a lease has to be longer.

    Raises
    ------
    ConfigurationError
        The database cannot be reached or used. Later failures are AdaptorErrors that may be tried again.
    """

    def __init__(self, address: StoreAddress, *, patience_seconds: float = 2.0) -> None:
        self._address, self._patience = address, patience_seconds
        self._lock = threading.Lock()
        self._connection: psycopg.Connection[Any] | None = None
        try:
            with self._in_use() as connection, connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_CREATION_LOCK,))
                connection.execute(f"CREATE SCHEMA IF NOT EXISTS {address.schema}")
                connection.execute(_TABLE)
        except AdaptorError as fault:
            raise ConfigurationError(f"--store: {fault}", field="--store") from None

    def take_lease(self, name: str, holder: str, seconds: float) -> Lease | None:
        """Take a lease that is free or one's own."""
        with self._in_use() as connection:
            row = connection.execute(_TAKE, {"name": name, "holder": holder, "seconds": seconds}).fetchone()
        return None if row is None else Lease(holder, int(row[0]), seconds)

    def release_lease(self, name: str, holder: str) -> None:
        """Give a lease back."""
        with self._in_use() as connection:
            connection.execute(
                "UPDATE leases SET until = '-infinity' WHERE name = %s AND holder = %s", (name, holder)
            )  # fmt: skip

    def lease(self, name: str) -> Lease | None:
        """Return who has a lease now."""
        with self._in_use() as connection:
            row = connection.execute(
                "SELECT holder, fence, extract(epoch FROM until - clock_timestamp()) FROM leases"
                " WHERE name = %s AND until > clock_timestamp()",
                (name,),
            ).fetchone()
        return None if row is None else Lease(str(row[0]), int(row[1]), float(row[2]))

    def close(self) -> None:
        """Close the connection. Leases stay as they are."""
        with self._lock:
            self._drop()

    @contextmanager
    def _in_use(self) -> Iterator[psycopg.Connection[Any]]:
        import psycopg

        with self._lock:
            try:
                if self._connection is None or self._connection.closed:
                    self._connection = self._connect()
                yield self._connection
            except psycopg.Error as fault:
                self._drop()  # also where a statement took too long: the next one begins with a new connection
                text = without_secrets(" ".join(str(fault).split()))
                raise AdaptorError(
                    f"{self._address.shown}: the lease cannot be read or written: {text}",
                    target=self._address.shown,
                    retryable=True,
                ) from None

    def _connect(self) -> psycopg.Connection[Any]:
        import psycopg

        most = f"-c statement_timeout={int(1000 * self._patience)} -c search_path={self._address.schema}"
        return psycopg.connect(
            self._address.conninfo,
            autocommit=True,
            connect_timeout=max(2, int(self._patience)),
            options=most,
            tcp_user_timeout=int(1000 * self._patience),
        )

    def _drop(self) -> None:
        import psycopg

        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()
