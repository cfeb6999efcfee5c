# SPDX-License-Identifier: Apache-2.0
"""What masters share: the leases, a history for each pipeline, and the token of their agents."""

from __future__ import annotations

import hashlib
import re
import secrets
from pathlib import Path
from typing import Protocol

from penstock.adaptors.agent.handshake import checked_token
from penstock.adaptors.private_file import make_private_folder, write_private
from penstock.errors import ConfigurationError
from penstock.knowledge.leases import SqliteLeases
from penstock.knowledge.sqlite import SqliteStore
from penstock.ports import KnowledgeStore, LeaseStore

SCHEME = "sqlite:"
TOKEN_FILE, LEASES_FILE = "agent-token", "leases.sqlite"


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
        """The agents' token; it is made if missing."""
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
            (folder / "pipelines").mkdir(mode=0o700, exist_ok=True)
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
        """The agents' token."""
        file = self.folder / TOKEN_FILE
        if not file.exists():
            write_private(file, f"{secrets.token_urlsafe(32)}\n")
        try:
            return checked_token(file.read_text(encoding="utf-8").strip(), str(file))
        except (OSError, UnicodeDecodeError) as fault:
            raise ConfigurationError(f"{file}: the token cannot be read: {fault}", field="--store") from fault

    def _file(self, pipeline: str) -> Path:
        # Names are anybody's: what cannot stand in the name of a file is left out, and a digest keeps them apart.
        plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", pipeline)[:60]
        digest = hashlib.sha256(pipeline.encode()).hexdigest()[:8]
        return self.folder / "pipelines" / f"{plain}-{digest}.sqlite"


def stores_at(url: str) -> MasterStores:
    """The stores at ``sqlite:FOLDER``."""
    if not url.startswith(SCHEME) or not url.removeprefix(SCHEME):
        raise ConfigurationError(f"--store: {url!r} is none for a master; write sqlite:FOLDER", field="--store")
    return StoreFolder(Path(url.removeprefix(SCHEME)))
