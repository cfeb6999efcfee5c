# SPDX-License-Identifier: Apache-2.0
"""Addresses of stores in PostgreSQL: what is read, refused, and shown."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from penstock.adaptors.postgresql import address as module
from penstock.adaptors.postgresql.address import StoreAddress, is_address
from penstock.errors import ConfigurationError
from penstock.stores import shown_place, store_place


def test_the_examples_hold() -> None:
    """Those in the module's own words."""
    assert doctest.testmod(module).failed == 0


def test_the_schema_is_ours_and_the_rest_libpqs() -> None:
    """`schema` is taken out; other parameters and the password stay."""
    read = StoreAddress.parse("postgres://ada:a%40b@h:1/db?sslmode=require&schema=logs")
    assert read.schema == "logs"
    assert read.conninfo == "postgres://ada:a%40b@h:1/db?sslmode=require"
    assert StoreAddress.parse("postgresql:///db").schema == "penstock"


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://h/db?schema=",
        "postgresql://h/db?schema=pg_catalog",
        'postgresql://h/db?schema=a"; DROP TABLE x; --',
        "postgresql://h/db?schema=Logs",
        "postgresql://h/db?schema=" + "a" * 64,
        "postgresql://h/db?nonsense",
        "postgresql://[h/db",
    ],
)
def test_wrong_addresses_are_refused_with_an_example(text: str) -> None:
    """A schema goes into statements: it is a plain name, or refused."""
    with pytest.raises(ConfigurationError, match=r"write it like postgresql://"):
        StoreAddress.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://ada:abra@h/db",
        "postgresql://ada:abra@h/db?schema=Bad",
        "postgresql://h/db?password=abra",
        "postgresql://h/db?user=ada&password=abra&schema=x",
        "postgresql://ada:abra@h/db?nonsense",
        "postgresql://ada:abra@[h/db",
    ],
)
def test_passwords_are_never_shown(text: str) -> None:
    """Neither by a right address nor by what refuses a wrong one."""
    try:
        said = repr(StoreAddress.parse(text)) + shown_place(store_place(text))
    except ConfigurationError as fault:
        said = f"{fault!r} {fault}"
    assert "abra" not in said


def test_files_are_no_addresses() -> None:
    """A path stays a path, whatever it is called."""
    for text in ("scaler.sqlite", "postgresql/x.sqlite", "/tmp/postgresql:", "mysql://h/db"):
        assert not is_address(text)
        assert store_place(text) == Path(text)
    assert not is_address(Path("postgresql://h/db"))
