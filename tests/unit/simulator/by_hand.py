# SPDX-License-Identifier: Apache-2.0
"""The simulator's recursions done record by record in plain Python, as slowly and plainly as can be."""

from __future__ import annotations

from collections.abc import Sequence


def end_of(start: float, work: float, speeds: Sequence[tuple[float, float]]) -> float:
    """When work begun at `start` ends, under speeds given as (since, speed), rising from time 0."""
    at = start
    for i, (since, speed) in enumerate(speeds):
        until = speeds[i + 1][0] if i + 1 < len(speeds) else float("inf")
        if until <= at:
            continue
        at = max(at, since)
        if work <= (until - at) * speed:
            return at + work / speed
        work -= (until - at) * speed
        at = until
    raise AssertionError("the last speed has no end")


def first_come_first_served(
    arrived: Sequence[float], work: Sequence[float], speeds: Sequence[tuple[float, float]]
) -> list[float]:
    """When each record of a single server is done."""
    done: list[float] = []
    for at, x in zip(arrived, work, strict=True):
        done.append(end_of(max(at, done[-1] if done else 0.0), x, speeds))
    return done
