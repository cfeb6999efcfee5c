# SPDX-License-Identifier: Apache-2.0
"""A knowledge store in PostgreSQL, by psycopg."""

from penstock.adaptors.postgresql.address import StoreAddress
from penstock.adaptors.postgresql.store import PostgresqlStore

__all__ = ["PostgresqlStore", "StoreAddress"]
