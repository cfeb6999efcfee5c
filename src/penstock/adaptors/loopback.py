# SPDX-License-Identifier: Apache-2.0
"""Ports on the loopback: the only place where Penstock and its embedded cluster listen."""

from __future__ import annotations

import ipaddress
import os
import socket

from penstock.errors import ConfigurationError


def check_loopback(host: str) -> None:
    """Refuse a host that other machines can reach."""
    try:
        is_loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise ConfigurationError(
            f"cluster.host: {host!r} is not a loopback address; what is embedded does not encrypt and "
            'listens on "127.0.0.1" only',
            field="cluster.host",
        )


def reserve_port(host: str, port: int, field: str) -> socket.socket:
    """Return a bound socket that does not listen. While it is open, nobody else gets the port."""
    reserved = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind((host, port))
    except OSError as fault:
        reserved.close()
        raise ConfigurationError(
            f"{field}: port {port} on {host} is not available ({os.strerror(fault.errno or 0)}); choose another, or "
            "leave it out to use a free one",
            field=field,
        ) from fault
    return reserved
