# SPDX-License-Identifier: Apache-2.0
"""Leases of processes that share a file, or a process: who leads, and with which fencing number."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.errors import AdaptorError, ConfigurationError
from penstock.knowledge.opened_file import OpenedFile
from penstock.knowledge.sqlite import meaning
from penstock.ports import Lease

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_LOG_PAGES = 16
_TABLE = (
    "CREATE TABLE IF NOT EXISTS leases (name TEXT PRIMARY KEY, holder TEXT NOT NULL, fence INTEGER NOT NULL,"
    " until REAL NOT NULL, boot TEXT NOT NULL)"
)


class MemoryLeases:
    """Leases of one process (a `ports.LeaseStore`): for tests, and for a master that is alone."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[str, int, float]] = {}

    def take_lease(self, name: str, holder: str, seconds: float) -> Lease | None:
        """Take a lease that is free or one's own."""
        with self._lock:
            before, now = self._kept.get(name), self._monotonic()
            is_held = before is not None and before[2] > now
            if before is not None and is_held and before[0] != holder:
                return None
            fence = (0 if before is None else before[1]) + (not is_held)
            self._kept[name] = (holder, fence, now + seconds)
            return Lease(holder, fence, seconds)

    def release_lease(self, name: str, holder: str) -> None:
        """Give a lease back."""
        with self._lock:
            before = self._kept.get(name)
            if before is not None and before[0] == holder:
                self._kept[name] = (holder, before[1], float("-inf"))

    def lease(self, name: str) -> Lease | None:
        """Return who has a lease now."""
        with self._lock:
            before = self._kept.get(name)
            left = float("-inf") if before is None else before[2] - self._monotonic()
            return Lease(before[0], before[1], left) if before is not None and left > 0 else None


class SqliteLeases:
    """Leases in a file of one host, for the processes of that host (a `ports.LeaseStore`).

    Time is the kernel's monotonic clock, which all processes of a host share and nobody sets. After a restart of the
    host every lease is free.

    A lease of a new file begins with a number above those of a file that was there before: agents have heard these, and
    would refuse a smaller one. Where the file is deleted or replaced while it is used, every call fails: two processes
    with a file each would both lead.

    Parameters
    ----------
    path
        The file. It is created if missing; its folder is not.
    busy_timeout_seconds
        How long a call waits for another process that is writing.
    now
        The wall clock: seconds since the epoch are the first number of a new file.
    """

    def __init__(
        self,
        path: Path,
        *,
        busy_timeout_seconds: float = 1.0,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        boot: str | None = None,
    ) -> None:
        self._path, self._monotonic, self._now = path, monotonic, now
        self._boot = _BOOT_ID.read_text(encoding="ascii").strip() if boot is None else boot
        self._lock = threading.Lock()
        try:
            self._connection = sqlite3.connect(
                path, timeout=busy_timeout_seconds, isolation_level=None, check_same_thread=False
            )
            self._connection.execute("PRAGMA journal_mode = WAL")
            # The log is begun anew after so few pages: it soon has its full size, and a full disk deposes nobody.
            self._connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
            self._connection.execute(_TABLE)
        except sqlite3.Error as fault:
            raise ConfigurationError(
                f"{path}: leases cannot be kept there ({fault}); move the file away, or give another folder",
                field=str(path),
            ) from fault
        self._file = OpenedFile(path)

    def take_lease(self, name: str, holder: str, seconds: float) -> Lease | None:
        """Take a lease that is free or one's own."""
        with self._transaction() as transaction:
            before, now = self._read(name), self._monotonic()
            is_held = before is not None and before[2] > now
            if before is not None and is_held and before[0] != holder:
                return None
            fence = int(self._now()) if before is None else before[1] + (not is_held)
            transaction.execute(
                "INSERT OR REPLACE INTO leases (name, holder, fence, until, boot) VALUES (?, ?, ?, ?, ?)",
                (name, holder, fence, now + seconds, self._boot),
            )
            return Lease(holder, fence, seconds)

    def release_lease(self, name: str, holder: str) -> None:
        """Give a lease back."""
        with self._transaction() as transaction:
            transaction.execute("UPDATE leases SET until = -1 WHERE name = ? AND holder = ?", (name, holder))

    def lease(self, name: str) -> Lease | None:
        """Return who has a lease now."""
        with self._transaction():
            before = self._read(name)
            left = float("-inf") if before is None else before[2] - self._monotonic()
            return Lease(before[0], before[1], left) if before is not None and left > 0 else None

    def close(self) -> None:
        """Let go of the file. Leases stay as they are."""
        with self._lock:
            self._connection.close()

    def _read(self, name: str) -> tuple[str, int, float] | None:
        row = self._connection.execute(
            "SELECT holder, fence, until, boot FROM leases WHERE name = ?", (name,)
        ).fetchone()
        if row is None:
            return None
        # The clock of another boot says nothing: whoever held it then is not there any more.
        return str(row[0]), int(row[1]), float(row[2]) if row[3] == self._boot else float("-inf")

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if not self._file.is_in_place:
                raise self._failed("the file was deleted or replaced while it was used; start this master again")
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                try:
                    yield self._connection
                    self._connection.execute("COMMIT")
                except BaseException:
                    if self._connection.in_transaction:  # a full disk has ended it already
                        self._connection.execute("ROLLBACK")
                    raise
            except sqlite3.Error as fault:
                raise self._failed(meaning(fault)) from fault

    def _failed(self, why: str) -> AdaptorError:
        text = f"{self._path}: the lease cannot be read or written: {why}"
        return AdaptorError(text, target=str(self._path), retryable=True)
