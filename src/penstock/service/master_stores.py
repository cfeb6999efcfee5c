# SPDX-License-Identifier: Apache-2.0
"""What masters share: the leases, a history for each pipeline, and the token of their agents."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from penstock.adaptors.agent.handshake import checked_token
from penstock.adaptors.agent.master_address import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE, token_of
from penstock.adaptors.postgresql.address import StoreAddress, is_address
from penstock.adaptors.private_file import make_private_folder, write_private_once
from penstock.errors import ConfigurationError
from penstock.knowledge.leases import SqliteLeases
from penstock.knowledge.sqlite import SqliteStore
from penstock.ports import KnowledgeStore, LeaseStore
from penstock.service.access import Access
from penstock.stores import open_store, open_store_readonly

SCHEME = "sqlite:"
TOKEN_FILE, LEASES_FILE, ACCESS_FILE = "agent-token", "leases.sqlite", "page-tokens"
_PIPELINES = "pipelines"


class MasterStores(Protocol):
    """What masters share."""

    @property
    def leases(self) -> LeaseStore:
        """Who leads."""
        ...

    def open(self, pipeline: str) -> KnowledgeStore:
        """The history of a pipeline, to write; it is created if missing."""
        ...

    def open_readonly(self, pipeline: str) -> KnowledgeStore:
        """The history of a pipeline, to read while it is written."""
        ...

    def token(self) -> bytes:
        """The agents' token; raises ConfigurationError where there is none."""
        ...

    def access(self) -> Access:
        """The tokens of the pages; raises ConfigurationError where they cannot be read."""
        ...

    def close(self) -> None:
        """Let go of the leases' file or connection; histories are closed by those who opened them."""
        ...


class StoreFolder:
    """A folder on one host that several masters of this host can share (`MasterStores`).

    Parameters
    ----------
    folder
        It is created if missing, for this user alone.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            make_private_folder(folder)
            (folder / _PIPELINES).mkdir(mode=0o700, exist_ok=True)
        except OSError as fault:
            raise ConfigurationError(f"--store: {folder} cannot be used: {fault}", field="--store") from fault
        self._leases = SqliteLeases(folder / LEASES_FILE)

    @property
    def leases(self) -> LeaseStore:
        """Who leads."""
        return self._leases

    def open(self, pipeline: str) -> KnowledgeStore:
        """The history of a pipeline, to write."""
        return SqliteStore(self._file(pipeline))

    def open_readonly(self, pipeline: str) -> KnowledgeStore:
        """The history of a pipeline, to read."""
        return SqliteStore.open_readonly(self._file(pipeline))

    def token(self) -> bytes:
        """The agents' token: that of the environment, else that of the folder, which is made if missing."""
        file, named = self.folder / TOKEN_FILE, os.environ.get(TOKEN_FILE_VARIABLE)
        is_own = bool(named) and Path(str(named)).absolute() == file.absolute()  # what agents on this host are given
        if not is_own and (named or os.environ.get(TOKEN_VARIABLE)):
            return token_of(None, os.environ)
        if not file.exists():
            write_private_once(file, f"{secrets.token_urlsafe(32)}\n")
        try:
            return checked_token(file.read_text(encoding="utf-8").strip(), str(file))
        except (OSError, UnicodeDecodeError) as fault:
            raise ConfigurationError(f"{file}: the token cannot be read: {fault}", field="--store") from fault

    def access(self) -> Access:
        """The tokens of the pages: the same for all masters of the folder, so that a page can go on at another one."""
        file = self.folder / ACCESS_FILE
        if not file.exists():
            made = Access()
            write_private_once(file, f"{made.read_token}\n{made.operate_token}\n")
        try:
            read, operate = file.read_text(encoding="utf-8").split()
        except (OSError, ValueError) as fault:
            raise ConfigurationError(
                f"{file}: the page's tokens cannot be read: {fault}; delete the file to get new ones", field="--store"
            ) from fault
        for token in (read, operate):
            checked_token(token, str(file))
        return Access(read, operate)

    def close(self) -> None:
        """Let go of the leases' file."""
        self._leases.close()

    def _file(self, pipeline: str) -> Path:
        return history_file(self.folder, pipeline)


def history_file(folder: Path, pipeline: str) -> Path:
    """Where masters that share a folder keep the history of a pipeline."""
    return folder / _PIPELINES / f"{_file_name(pipeline)}.sqlite"


def is_history_file(file: Path) -> bool:
    """Whether masters keep the history of a pipeline there."""
    return file.parent.name == _PIPELINES and (file.parent.parent / LEASES_FILE).is_file()


def is_history_schema(schema: str) -> bool:
    """Whether a schema is called as masters call that of a pipeline: with a digest at its end."""
    return re.search(r"_[0-9a-f]{8}$", schema) is not None


def _file_name(pipeline: str) -> str:
    # Names are anybody's: what cannot stand in the name of a file is left out, and a digest keeps them apart.
    digest = hashlib.sha256(pipeline.encode()).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9_.-]+', '_', pipeline)[:30]}-{digest}"


class StoreDatabase:
    """A PostgreSQL database that masters of several hosts can share (`MasterStores`).

    The leases are in the schema of the address, and each pipeline's history is in one of its own. The agents' token is
    not kept there: every master takes it from its environment.

    Parameters
    ----------
    address
        The database and the schema.
    """

    def __init__(self, address: StoreAddress) -> None:
        from penstock.adaptors.postgresql.leases import PostgresqlLeases

        self._address = address
        self._leases = PostgresqlLeases(address)

    @property
    def leases(self) -> LeaseStore:
        """Who leads."""
        return self._leases

    def open(self, pipeline: str) -> KnowledgeStore:
        """The history of a pipeline, to write."""
        return open_store(self._of(pipeline))

    def open_readonly(self, pipeline: str) -> KnowledgeStore:
        """The history of a pipeline, to read."""
        return open_store_readonly(self._of(pipeline))

    def token(self) -> bytes:
        """The agents' token."""
        return token_of(None, os.environ)

    def access(self) -> Access:
        """The tokens of the page: of this master alone, since nothing secret is kept in the database."""
        return Access()

    def close(self) -> None:
        """Let go of the leases' connection."""
        self._leases.close()

    def _of(self, pipeline: str) -> StoreAddress:
        name = f"{self._address.schema[:20]}_{_file_name(pipeline).replace('-', '_').replace('.', '_').lower()[:40]}"
        return replace(self._address, schema=name, shown=f"{self._address.shown} ({pipeline})")


def stores_at(url: str) -> MasterStores:
    """The stores at ``sqlite:FOLDER``, or in a PostgreSQL database."""
    if is_address(url):
        return StoreDatabase(StoreAddress.parse(url))
    if not url.startswith(SCHEME) or not url.removeprefix(SCHEME):
        raise ConfigurationError(
            f"--store: {url!r} is none for a master; write sqlite:FOLDER, or the address of a PostgreSQL database",
            field="--store",
        )
    return StoreFolder(Path(url.removeprefix(SCHEME)))
