# SPDX-License-Identifier: Apache-2.0
"""Where a broker runs: the machine's own loopback, or a network that only its nodes see."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from penstock.adaptors.loopback import check_loopback


class BrokerPlace(Protocol):
    """A place for a broker. No other machine reaches its address: a broker of Penstock's own does not encrypt."""

    @property
    def address(self) -> str:
        """Where the broker listens."""
        ...

    @property
    def java_properties(self) -> Mapping[str, str]:
        """What a JVM there needs."""
        ...

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return the command that runs `argv` there."""
        ...

    def entered(self) -> AbstractContextManager[None]:
        """Have this thread there: sockets and clients made meanwhile reach the broker, also later."""
        ...


class LoopbackPlace:
    """The loopback of this machine.

    Raises
    ------
    ConfigurationError
        The address is none of the loopback.
    """

    def __init__(self, address: str = "127.0.0.1") -> None:
        check_loopback(address)
        self.address = address
        self.java_properties: Mapping[str, str] = {}

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return the command as it is."""
        return list(argv)

    def entered(self) -> AbstractContextManager[None]:
        """Stay."""
        return contextlib.nullcontext()
