# SPDX-License-Identifier: Apache-2.0
"""Where masters are, and what opens them for agents."""

from __future__ import annotations

import ipaddress
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from penstock.adaptors.agent.handshake import checked_token
from penstock.errors import ConfigurationError

TOKEN_VARIABLE, TOKEN_FILE_VARIABLE, CA_VARIABLE, PLAIN_VARIABLE = (
    "PENSTOCK_AGENT_TOKEN", "PENSTOCK_AGENT_TOKEN_FILE", "PENSTOCK_MASTER_CA", "PENSTOCK_MASTER_WITHOUT_TLS"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class MasterAddress:
    """The masters that share a store, in the order in which they are tried.

    Attributes
    ----------
    places
        Host and port of each.
    token
        What agent and master prove to each other that they know.
    ca
        Certificates that the masters' certificates are checked against; None: the connection is not encrypted.
    """

    places: tuple[tuple[str, int], ...]
    token: bytes = field(repr=False)
    ca: Path | None = None

    def __str__(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.places)

    def encryption(self) -> ssl.SSLContext | None:
        """How connections are encrypted; None: they are not.

        Raises
        ------
        ConfigurationError
            In the file of `ca` are no certificates.
        """
        if self.ca is None:
            return None
        try:
            return ssl.create_default_context(cafile=str(self.ca))
        except OSError as fault:  # ssl.SSLError is one
            raise ConfigurationError(
                f"master: {self.ca} cannot be read as certificates ({fault}); give a file in PEM format, as by "
                f"{CA_VARIABLE}",
                field="master",
            ) from fault


def master_address(
    text: str,
    *,
    token_file: str | Path | None = None,
    ca: str | Path | None = None,
    without_tls: bool = False,
    environment: Mapping[str, str] | None = None,
) -> MasterAddress:
    """Read ``host:port``, or several joined by commas; what is not given is taken from the environment.

    Raises
    ------
    ConfigurationError
        With the field and the fix.
    """
    known = os.environ if environment is None else environment
    places = tuple(_place(part.strip()) for part in text.split(",") if part.strip())
    if not places:
        raise ConfigurationError('master: it is empty; write "host:port"', field="master")
    ca = ca or known.get(CA_VARIABLE) or None
    if ca is not None and not Path(ca).is_file():
        raise ConfigurationError(f"master: there is no file {ca} with certificates", field="master")
    if ca is None and not without_tls and known.get(PLAIN_VARIABLE) != "1":
        for host, _ in places:
            if not is_loopback(host):
                raise ConfigurationError(
                    f"master: {host} is another machine, and what is sent there can be read and changed on the way; "
                    f"name the masters' certificates by {CA_VARIABLE}, or set {PLAIN_VARIABLE}=1",
                    field="master",
                )
    return MasterAddress(places, token_of(token_file, known), None if ca is None else Path(ca))


def is_loopback(host: str) -> bool:
    """Whether only this machine is meant."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _place(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigurationError(f'master: {text!r} is no address; write "host:port", such as "127.0.0.1:7071"',
                                 field="master")  # fmt: skip
    return host.strip("[]"), int(port)


def token_of(file: str | Path | None, known: Mapping[str, str]) -> bytes:
    """The token in a file, or as an environment has it; raises ConfigurationError."""
    given = known.get(TOKEN_VARIABLE)
    file = file or known.get(TOKEN_FILE_VARIABLE) or None
    if file is None and given is not None:
        return checked_token(given.strip(), TOKEN_VARIABLE)
    if file is None:
        raise ConfigurationError(
            f"master: the token is missing; set {TOKEN_FILE_VARIABLE} to the file agent-token in the master's store, "
            f"or {TOKEN_VARIABLE} to its content",
            field="master",
        )
    try:
        return checked_token(Path(file).read_text(encoding="utf-8").strip(), str(file))
    except (OSError, UnicodeDecodeError) as fault:
        raise ConfigurationError(f"master: the token in {file} cannot be read: {fault}", field="master") from fault
