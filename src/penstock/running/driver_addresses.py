# SPDX-License-Identifier: Apache-2.0
"""Keeps a driver's web page, which shows and can end its jobs without a password, on the loopback.

Spark's page listens on `SPARK_LOCAL_IP`, and on every address of the machine where that is not set. The driver itself
must be reachable for executors on other machines, so it gets its address apart.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

_LOOPBACK = "127.0.0.1"
_STANDALONE = re.compile(r"^spark://(?P<host>[^,:/\[\]]+|\[[0-9a-fA-F:]+\]):(?P<port>\d+)")


@dataclass(frozen=True, slots=True)
class DriverAddresses:
    """What a driver's process needs, so that its page is on the loopback and its executors reach it."""

    environment: Mapping[str, str] = field(default_factory=dict)
    configuration: Mapping[str, str] = field(default_factory=dict)


def is_local_master(master: str) -> bool:
    """Return whether a master and its workers are on this machine, by its address."""
    return master.startswith(("local", "spark://127.", "spark://localhost"))


def own_address(host: str, port: int) -> str | None:
    """Return the address of this machine that packets to `host` carry; None if there is no way to it."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(address)  # sends nothing
            found: str = probe.getsockname()[0]
    except OSError:
        return None
    return found


def driver_addresses(
    master: str,
    environment: Mapping[str, str],
    *,
    is_local: bool,
    address_towards: Callable[[str, int], str | None] = own_address,
) -> DriverAddresses:
    """Return what keeps the page of a driver of `master` on the loopback.

    Nothing for YARN and Kubernetes, which show the page through a proxy of theirs, and nothing where the user has set
    `SPARK_LOCAL_IP`.
    """
    if "SPARK_LOCAL_IP" in environment:
        return DriverAddresses()
    if is_local:
        return DriverAddresses({"SPARK_LOCAL_IP": _LOOPBACK})
    found = _STANDALONE.match(master)
    own = None if found is None else address_towards(found["host"].strip("[]"), int(found["port"]))
    if own is None:
        return DriverAddresses()
    # SPARK_PUBLIC_DNS: the page is asked for where it listens, by us and from the master's page.
    return DriverAddresses(
        {"SPARK_LOCAL_IP": _LOOPBACK, "SPARK_PUBLIC_DNS": _LOOPBACK},
        {"spark.driver.host": own, "spark.driver.bindAddress": own},
    )
