# SPDX-License-Identifier: Apache-2.0
"""A private PostgreSQL server from the Debian package, for tests and trying out: own folder, port and password.

It listens on the loopback alone, never runs as root, and ends with Penstock."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from penstock.adaptors.loopback import reserve_port
from penstock.adaptors.process.children import Child, Warden
from penstock.errors import ClusterError, ConfigurationError

_INSTALLED = Path("/usr/lib/postgresql")
_HOST, _USER = "127.0.0.1", "penstock"
_ACCOUNTS = ("postgres", "nobody")
"""Who runs the server where we are root, which it refuses to be."""
_POLL_SECONDS = 0.05
_START_SECONDS = 60.0
_STOP_SECONDS = 20.0


def find_postgresql() -> Path:
    """Find the folder with ``postgres`` and ``initdb``: that of the newest version.

    Raises
    ------
    ConfigurationError
        They are not installed. The message says how to install them.
    """
    versions = [path.parent for path in _INSTALLED.glob("*/bin/postgres") if os.access(path, os.X_OK)]
    versions = [path for path in versions if os.access(path / "initdb", os.X_OK) and path.parent.name.isdecimal()]
    if not versions:
        raise ConfigurationError(
            "postgresql: the server is not installed; run: apt-get install postgresql, or give the address of one "
            "that runs elsewhere",
            field="postgresql",
        )
    return max(versions, key=lambda path: int(path.parent.name))


class PostgresqlServer:
    """One PostgreSQL server on the loopback. `start` returns when it accepts connections.

    Use as a context manager, or call `start` and `stop`. A server stopped and started again has its data back, on the
    same port.

    Parameters
    ----------
    warden
        Keeps the process, and removes the server's folder at its end.
    """

    def __init__(self, warden: Warden) -> None:
        self._programs = find_postgresql()
        self._warden = warden
        self._as_user: list[str] = []
        self.folder = warden.temporary_folder()
        """Everything the server writes."""
        self._password = secrets.token_hex(16)
        with reserve_port(_HOST, 0, "postgresql.port") as reserved:
            self.port = int(reserved.getsockname()[1])
        self._server: Child | None = None
        if os.geteuid() == 0:
            account = _account()
            setpriv = shutil.which("setpriv") or "setpriv"
            self._as_user = [setpriv, f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
            os.chown(self.folder, account.pw_uid, account.pw_gid)
        self._make_cluster()

    def address(self, schema: str = "penstock") -> str:
        """Where a store is, with user and password."""
        return f"postgresql://{_USER}:{self._password}@{_HOST}:{self.port}/postgres?schema={schema}"

    @property
    def password(self) -> str:
        """Must not be seen anywhere."""
        return self._password

    @property
    def pid(self) -> int | None:
        """The server's process; None: it does not run."""
        return None if self._server is None or self._server.poll() is not None else self._server.pid

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        if self.pid is not None:
            return
        settings = {
            "listen_addresses": _HOST, "port": self.port, "unix_socket_directories": "", "fsync": "off",
            "max_connections": 40, "shared_buffers": "16MB", "dynamic_shared_memory_type": "mmap",
        }  # fmt: skip
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self._server = self._warden.start(
            "PostgreSQL server",
            [*self._as_user, str(self._programs / "postgres"), "-D", str(self.folder / "data"), *words],
            log=self.folder / "postgresql.log",
            env=_environment(),
            cwd=self.folder,
        )
        self._wait(self._server)

    def stop(self) -> None:
        """Shut the server down; open connections end. Data stay. May be called twice."""
        server, self._server = self._server, None
        if server is not None:
            with contextlib.suppress(ClusterError):  # the warden is closed or gone, and its children with it
                os.kill(server.pid, 2)  # fast shutdown: it does not wait until clients leave
                self._warden.stop(server, grace_seconds=_STOP_SECONDS)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _make_cluster(self) -> None:
        word = self.folder / "password"
        word.write_text(self._password)
        word.chmod(0o600)
        if self._as_user:
            shutil.chown(word, self.folder.stat().st_uid, self.folder.stat().st_gid)
        argv = [
            str(self._programs / "initdb"), "-D", str(self.folder / "data"), "-U", _USER, "--auth=scram-sha-256",
            f"--pwfile={word}", "--no-sync", "--encoding=UTF8", "--locale=C",
        ]  # fmt: skip
        made = subprocess.run(
            [*self._as_user, *argv], capture_output=True, text=True, cwd=self.folder, env=_environment(), check=False,
            timeout=120,
        )  # fmt: skip
        word.unlink()
        if made.returncode != 0:
            raise ClusterError(f"initdb failed: {made.stderr.strip()[-500:]}", target="PostgreSQL")

    def _wait(self, server: Child) -> None:
        import psycopg

        give_up_at = time.monotonic() + _START_SECONDS
        while True:
            self._warden.check()
            server.raise_if_ended()
            try:
                psycopg.connect(self.address().partition("?")[0], connect_timeout=5).close()
                return
            except psycopg.OperationalError as fault:
                if time.monotonic() > give_up_at:
                    raise ClusterError(
                        f"PostgreSQL did not accept connections within {_START_SECONDS:g} s; the end of {server.log}:\n"
                        f"{server.tail()}",
                        target="PostgreSQL",
                    ) from fault
            time.sleep(_POLL_SECONDS)


def _account() -> pwd.struct_passwd:
    for name in _ACCOUNTS:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise ConfigurationError(
        f"postgresql: the server does not run as root, and there is no user {' or '.join(_ACCOUNTS)}; add one",
        field="postgresql",
    )


def _environment() -> dict[str, str]:
    return {**{k: v for k, v in os.environ.items() if not k.startswith("PG")}, "LC_ALL": "C"}
