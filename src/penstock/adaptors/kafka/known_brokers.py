# SPDX-License-Identifier: Apache-2.0
"""Remembers the folders of brokers that were started, so that one can be found by its address, or without a folder."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from penstock.adaptors.kafka.connection import KafkaConnection
from penstock.adaptors.kafka.detached_broker import DetachedBroker
from penstock.adaptors.process.state_folder import state_folder
from penstock.errors import ConfigurationError

_FIELD = "--folder"
_LOOPBACK = ("127.0.0.1", "localhost")


def connection_to(servers: str, options: Mapping[str, str] | None = None) -> KafkaConnection:
    """How to reach a broker; without a login among the options, one of `penstock kafka start` is reached with its own.

    Raises
    ------
    ConfigurationError
        An address or option is wrong.
    """
    given = dict(options or {})
    if any(name.startswith("sasl.") or name == "security.protocol" for name in given):
        return KafkaConnection(servers, given)
    return KafkaConnection(servers, {**KnownBrokers().login_of(servers), **given})


class KnownBrokers:
    """The brokers of one user.

    Parameters
    ----------
    default
        Folder of the broker whose folder nobody named; the list is kept beside it.
    """

    def __init__(self, default: Path | None = None) -> None:
        self.default = (default or state_folder("kafka")).absolute()
        self._file = self.default.parent / "kafka-brokers.json"

    def remember(self, folder: Path) -> None:
        """Add a broker's folder to the list."""
        self._change(lambda known: [*known, str(folder.absolute())])

    def running(self) -> list[DetachedBroker]:
        """The brokers that run, the one of the default folder first. Folders whose broker has ended are forgotten."""
        folders = dict.fromkeys([self.default, *(Path(folder) for folder in self._read())])
        brokers = [DetachedBroker(folder) for folder in folders]
        running = [broker for broker in brokers if broker.is_running]
        # One of another container may run there: it is not to be used from here, and not to be forgotten.
        ended = {str(broker.folder) for broker in brokers if broker not in running and not broker.is_elsewhere}
        if ended.intersection(self._read()):
            self._change(lambda known: [folder for folder in known if folder not in ended])
        return running

    def find(self, folder: Path | None) -> DetachedBroker | None:
        """The broker of a folder; without one the broker that runs, or None if none does.

        Raises
        ------
        ConfigurationError
            No folder is given and several brokers run.
        """
        if folder is not None:
            return DetachedBroker(folder)
        found = self.running()
        if len(found) > 1:
            listed = ", ".join(str(broker.folder) for broker in found)
            raise ConfigurationError(
                f"--folder: {len(found)} brokers run; name the folder of one: {listed}", field=_FIELD
            )
        return found[0] if found else None

    def login_of(self, servers: str) -> Mapping[str, str]:
        """The login of the broker that runs at an address, as client options. Empty: none of this user's runs there."""
        host, _, port = servers.rpartition(":")
        if host not in _LOOPBACK:
            return {}
        for broker in self.running():
            connection = broker.connection
            if connection is not None and connection.bootstrap_servers.rpartition(":")[2] == port:
                return connection.options
        return {}

    def _read(self) -> list[str]:
        try:
            known = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return []
        return [folder for folder in known if isinstance(folder, str)] if isinstance(known, list) else []

    def _change(self, change: Callable[[list[str]], list[str]]) -> None:
        with self._alone():
            new = self._file.with_suffix(".new")
            new.write_text(json.dumps(list(dict.fromkeys(change(self._read())))), encoding="utf-8")
            new.replace(self._file)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let two commands at once both change the list."""
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            lock = self._file.with_suffix(".lock").open("w")
        except OSError as fault:
            raise ConfigurationError(
                f"XDG_STATE_HOME: {self._file.parent} cannot be used: {fault.strerror}; name a folder that may be "
                "written to",
                field="XDG_STATE_HOME",
            ) from fault
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
