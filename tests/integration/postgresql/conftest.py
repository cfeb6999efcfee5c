# SPDX-License-Identifier: Apache-2.0
"""A real PostgreSQL for the tests of its store."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from penstock.adaptors.process.children import Warden
from penstock.errors import ConfigurationError
from penstock.testing.postgresql_server import PostgresqlServer, find_postgresql

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresqlServer]:
    """One server for all tests; those that stop it start it again."""
    try:
        find_postgresql()
    except ConfigurationError as fault:
        pytest.skip(str(fault))
    with Warden() as warden, PostgresqlServer(warden) as made:
        yield made


@pytest.fixture
def new_address(server: PostgresqlServer) -> Callable[[], str]:
    """Gives the address of an empty place."""
    return lambda: server.address(f"test_{next(_NUMBERS)}")
