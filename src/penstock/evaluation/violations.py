# SPDX-License-Identifier: Apache-2.0
"""In which part of the time an objective was broken, as an operator's looks show it: stalls count too."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from penstock.clock import PassedTime
from penstock.records import Objective, Observation

_MAY_BE_LATE = {"p50": 0.50, "p95": 0.05, "p99": 0.01}
"""The part of the records that may be above a bound that is kept; any of them may where the mean is bounded."""


def broken_time_share(
    looks: Iterable[Observation], objective: Objective, *, since: float = 0.0, counts_waiting: bool = True
) -> float | None:
    """The share of the time in which an objective was broken, of that in which it is known whether it was; None: none.

    `counts_waiting` and the rest: see `are_broken`. Each look stands for the time since the one before; those before
    `since` say what waited at the first that counts.
    """
    broken = known = 0.0
    clock = PassedTime()
    for look, is_so in are_broken(looks, objective, counts_waiting=counts_waiting):
        passed = clock.take(look.at)
        if is_so is not None and look.at >= since:
            known += passed
            broken += passed if is_so else 0.0
    return broken / known if known > 0 else None


def are_broken(
    looks: Iterable[Observation], objective: Objective, *, counts_waiting: bool = True
) -> Iterator[tuple[Observation, bool | None]]:
    """Give each look with whether the objective was broken then; None: that is not known.

    The records that were done in its window say so, and those that have waited longer than the bound and are not done.
    The latter count like records that were late: where so many have waited that the statistic is above the bound
    already, it is broken, also before they are done. Where nothing was done, one is enough.

    Parameters
    ----------
    looks
        Of one operator, oldest first.
    objective
        What was wanted; that to keep up is never known.
    counts_waiting
        False for a query in real-time mode: it shows what it has read only now and then.
    """
    seen: deque[tuple[float, int]] = deque()
    """When how many records had arrived; the first of them is old enough to judge by, if any is."""
    clock, at = PassedTime(), 0.0
    for look in looks:
        at += clock.take(look.at)
        is_met = objective.is_met_by(look.latency)
        is_so = None if is_met is None else not is_met
        if counts_waiting and objective.seconds is not None and not is_so:
            late = _waited_longer(seen, at, look, objective.seconds)
            done = 0 if look.latency is None else look.latency.records
            if late and (not done or late > _MAY_BE_LATE.get(str(objective.statistic), 1.0) * (done + late)):
                is_so = True
        yield look, is_so


def _waited_longer(seen: deque[tuple[float, int]], now: float, look: Observation, bound: float) -> int | None:
    """Records that wait, or are in the running batch, and came longer ago than the bound; None: nobody knows.

    `now` and the instants in `seen` are by time that passed.
    """
    arrived, waiting = look.records_arrived, look.backlog_records
    if arrived is None or waiting is None:
        return None
    if seen and arrived < seen[-1][1]:
        seen.clear()  # another run counts anew
    seen.append((now, arrived))
    while len(seen) > 1 and seen[1][0] <= now - bound:
        seen.popleft()
    at, arrived_then = seen[0]
    return max(0, waiting - (arrived - arrived_then)) if at <= now - bound else None
