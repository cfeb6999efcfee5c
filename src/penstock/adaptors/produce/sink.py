# SPDX-License-Identifier: Apache-2.0
"""The interface between the pacing loop and a broker's client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

SEQUENCE_HEADER = "penstock-sequence"
PRODUCER_HEADER = "penstock-producer"
DUE_HEADER = "penstock-due-us"
"""When a record was due, in microseconds since 1970. The brokers' own timestamps are coarser."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """Delivery so far, in records."""

    confirmed: int
    failed: int
    resent: int = 0
    faults: tuple[str, ...] = ()
    """Why records failed, each reason once with its count."""


class Sink(Protocol):
    """A broker to send to.

    `prepare` does all work that can be done before a record is due. `send` passes prepared records to the network and
    returns how many it took: fewer only if too many are unconfirmed. `turn` serves the network for about the given
    time. None of them waits for the broker's answer. They raise AdaptorError if the broker is lost for good.
    """

    def prepare(self, first: int, due_us: NDArray[np.int64], bodies: Sequence[bytes]) -> list[Any]:
        """Prepare records, numbered from `first` on."""
        ...

    def send(self, records: Sequence[Any]) -> int:
        """Pass records to the network and return how many were taken."""
        ...

    def turn(self, seconds: float) -> None:
        """Serve the network, and wait, for about `seconds`."""
        ...

    def delivery(self) -> Delivery:
        """Return what the broker has confirmed and refused so far."""
        ...

    def close(self) -> None:
        """Close the connection to the broker."""
        ...
