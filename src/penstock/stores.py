# SPDX-License-Identifier: Apache-2.0
"""Opens a knowledge store by what a user calls it: a file is SQLite, an address is PostgreSQL."""

from __future__ import annotations

from pathlib import Path

from penstock.adaptors.postgresql.address import StoreAddress, is_address
from penstock.knowledge.sqlite import SqliteStore
from penstock.ports import KnowledgeStore

StorePlace = Path | StoreAddress
"""Where a store is."""


def store_place(text: str | Path) -> StorePlace:
    """Read what a user calls a store.

    Raises
    ------
    ConfigurationError
        It is a wrong address.
    """
    return StoreAddress.parse(str(text)) if is_address(text) else Path(text)


def shown_place(place: StorePlace) -> str:
    """Where a store is, for people: without a password."""
    return place.shown if isinstance(place, StoreAddress) else str(place)


def open_store(place: StorePlace) -> KnowledgeStore:
    """Open a store to read and write; it is created if missing."""
    if isinstance(place, StoreAddress):
        from penstock.adaptors.postgresql.store import PostgresqlStore

        return PostgresqlStore(place)
    return SqliteStore(place)


def open_store_readonly(place: StorePlace) -> KnowledgeStore:
    """Open an existing store to read, also while another process writes to it."""
    if isinstance(place, StoreAddress):
        from penstock.adaptors.postgresql.store import PostgresqlStore

        return PostgresqlStore.open_readonly(place)
    return SqliteStore.open_readonly(place)
