# SPDX-License-Identifier: Apache-2.0
"""Where a store in PostgreSQL is: an address as libpq has it, and the schema in that database."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from penstock.errors import ConfigurationError
from penstock.secrets import without_secrets

SCHEMES = ("postgresql", "postgres")
DEFAULT_SCHEMA = "penstock"
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}\Z")
_EXAMPLE = "postgresql://user@host:5432/database?schema=logs"


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """A database and a schema in it. What is shown of it has no password.

    Attributes
    ----------
    conninfo
        As libpq takes it; may hold a password.
    schema
        The tables of one run are there; every run has its own.
    shown
        The address for people.
    """

    conninfo: str = field(repr=False)
    schema: str
    shown: str

    @classmethod
    def parse(cls, text: str) -> StoreAddress:
        """Read ``postgresql://user@host:port/database?schema=name``, with further parameters of libpq.

        Raises
        ------
        ConfigurationError
            It is no such address.

        Examples
        --------
        >>> StoreAddress.parse("postgresql://ada:abra@db/streams?schema=logs&sslmode=require")
        StoreAddress(schema='logs', shown='postgresql://ada:***@db/streams?sslmode=require&schema=logs')
        """
        try:
            parts = urlsplit(text)
            asked = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        except ValueError as fault:
            # Python quotes user, password and host of one with characters that no host has, without the "://" before.
            why = "its host has characters that no host has" if "@" in str(fault) else without_secrets(str(fault))
            raise _refused(text, why) from None
        if parts.scheme not in SCHEMES:
            raise _refused(text, f"it does not begin with {SCHEMES[0]}://")
        schemas = [value for name, value in asked if name == "schema"]
        schema = schemas[-1] if schemas else DEFAULT_SCHEMA
        if not _NAME.match(schema) or schema.startswith("pg_"):
            raise _refused(text, f"schema {schema[:80]!r} is no name; use small letters, digits and '_'")
        rest = [(name, value) for name, value in asked if name != "schema"]
        conninfo = urlunsplit(parts._replace(query=urlencode(rest), fragment=""))
        shown = urlunsplit(parts._replace(query=urlencode([*rest, ("schema", schema)], safe="/*"), fragment=""))
        return cls(conninfo, schema, without_secrets(shown))


def is_address(place: Any) -> bool:
    """Whether a store is named by an address and not by a file."""
    return isinstance(place, str) and place.partition("://")[0] in SCHEMES and "://" in place


def _refused(text: str, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"store: {without_secrets(text)!r} is no address of PostgreSQL: {why}; write it like {_EXAMPLE}", field="store"
    )
