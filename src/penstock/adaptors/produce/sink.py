# SPDX-License-Identifier: Apache-2.0
"""What the pacing loop asks of a broker's client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

SEQUENCE_HEADER = "penstock-sequence"
PRODUCER_HEADER = "penstock-producer"
DUE_HEADER = "penstock-due-us"
"""Microseconds since 1970 at which a record was due; the brokers' own timestamps are coarser."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """How far a sink has come, in records."""

    confirmed: int
    failed: int
    resent: int = 0
    faults: tuple[str, ...] = ()
    """Why records failed, each reason once with its count."""


class Sink(Protocol):
    """A broker to send to.

    Promises: `prepare` does all work that can be done before a record is due; `send` hands prepared records to the
    network and returns how many it took, fewer only where too many are unconfirmed; `turn` serves the network for
    about so long; none of them waits for the broker's answer. AdaptorError when the broker is lost for good.
    """

    def prepare(self, first: int, due_us: NDArray[np.int64], bodies: Sequence[bytes]) -> list[Any]:
        """Make records, numbered from `first` on, ready to go."""
        ...

    def send(self, records: Sequence[Any]) -> int:
        """Hand records to the network; how many were taken."""
        ...

    def turn(self, seconds: float) -> None:
        """Serve the network, and wait, for about so long."""
        ...

    def delivery(self) -> Delivery:
        """What the broker has confirmed and refused by now."""
        ...

    def close(self) -> None:
        """Let go of the broker."""
        ...
