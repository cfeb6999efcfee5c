# SPDX-License-Identifier: Apache-2.0
"""Ports on the loopback: the only place where Penstock and its embedded cluster listen."""

from __future__ import annotations

import ipaddress
import os
import socket

from penstock.errors import ConfigurationError


def check_loopback(host: str) -> None:
    """Refuse a host that others than this machine can reach."""
    try:
        is_loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise ConfigurationError(
            f"cluster.host: {host!r} is not a loopback address; the embedded cluster has no access control and "
            'listens on "127.0.0.1" only',
            field="cluster.host",
        )


def reserve_port(host: str, port: int, field: str) -> socket.socket:
    """A bound socket that does not listen: nobody else is given the port while it is open."""
    reserved = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind((host, port))
    except OSError as fault:
        reserved.close()
        raise ConfigurationError(
            f"{field}: port {port} on {host} cannot be used ({os.strerror(fault.errno or 0)}); choose another, or "
            "leave it out and a free one is taken",
            field=field,
        ) from fault
    return reserved
