# SPDX-License-Identifier: Apache-2.0
"""Which faults come when: drawn from a seed, so that a run that fails can be run again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

KILLED = ("executor", "driver", "worker", "broker", "controller", "warden")
"""What is killed with signal 9, and stopped for some seconds with SIGSTOP."""
KINDS: tuple[str, ...] = (
    *(f"{who} killed" for who in KILLED),
    *(f"{who} stopped" for who in KILLED),
    "disk full",
    "clock stepped",
    "network cut",
)
FIRST_SHARE, LAST_SHARE = 0.04, 0.92
"""Before the first fault records must flow, and after the last one some must be left."""


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault that is due when so many records have come out."""

    number: int
    kind: str
    after_records: int
    draw: float
    """In [0, 1): chooses among several targets, and the way a clock is stepped."""


def plan_faults(kinds: Sequence[str], times: int, records: int, seed: int) -> tuple[PlannedFault, ...]:
    """Every kind so many times, in an order of its own for each round, spread over the records with some jitter.

    Raises
    ------
    ValueError
        A kind is unknown.
    """
    unknown = sorted(set(kinds) - set(KINDS))
    if unknown:
        raise ValueError(f"unknown kinds of faults: {unknown}; known: {', '.join(KINDS)}")
    generator = np.random.default_rng(seed)
    order = [kinds[place] for _ in range(times) for place in generator.permutation(len(kinds))]
    width = (LAST_SHARE - FIRST_SHARE) / max(1, len(order))
    planned = []
    for number, kind in enumerate(order):
        share = FIRST_SHARE + (number + float(generator.uniform(0.0, 0.5))) * width
        planned.append(PlannedFault(number, kind, int(share * records), float(generator.uniform())))
    return tuple(planned)


def share_of(piece: int, whole: int, pieces: int) -> int:
    """What one of several pieces has of a whole number; together they have all of it, and none has two more."""
    return whole // pieces + (piece < whole % pieces)
