# SPDX-License-Identifier: Apache-2.0
"""The cheapest schedule that would have kept up, had the arrivals and the throughput of every size been known.

A lower bound for any policy, not a policy: it changes at the best instant, and pays for a change only that new
executors take a while before they work. Its throughput does not depend on how large batches are. Found by dynamic
programming (Bellman 1957) over time steps, sizes and backlogs. A backlog is rounded up to the next of evenly spaced
ones, so the schedule found keeps up for certain; it is dearer than the best by no more than what that rounding adds up
to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.errors import ConfigurationError
from penstock.ports import FloatArray
from penstock.records import Allocation

_BACKLOGS = 2000


@dataclass(frozen=True, slots=True)
class HindsightSchedule:
    """The cheapest schedule.

    Attributes
    ----------
    allocations
        What the operator has in each step; as many as it takes until everything is done.
    step_seconds
        Length of a step.
    executor_seconds
        What it costs: capacity over time.
    """

    allocations: tuple[Allocation, ...]
    step_seconds: float
    executor_seconds: float


def cheapest_schedule(
    times: npt.ArrayLike,
    throughput: Mapping[Allocation, float],
    *,
    oldest_seconds: float,
    step_seconds: float = 5.0,
    start_seconds: float = 0.0,
    cap: int | None = None,
    speed: Callable[[FloatArray], FloatArray] | None = None,
) -> HindsightSchedule:
    """Give the cheapest schedule under which no record waits longer than `oldest_seconds`.

    Parameters
    ----------
    times
        When records arrive, rising, counted from the start of the first step.
    throughput
        What each allocation sustains, in records a second.
    oldest_seconds
        How old a record may be when it is done.
    step_seconds
        How often the allocation may change.
    start_seconds
        How long a new executor is paid for before it works; 0: changes cost nothing. It is asked for so much earlier,
        so records do not wait for it.
    cap
        Most records of a batch: those that wait go in batches as large as this, and a record is done when its batch
        ends. None: each is done when its own work is.
    speed
        What every size does at some instants, as a multiple of its `throughput`; None: just that, at all times.

    Raises
    ------
    ConfigurationError
        A time is not positive or not finite, or not even the largest allocation keeps up.

    Examples
    --------
    >>> import numpy as np
    >>> even = np.arange(0.0, 100.0, 0.1)
    >>> sizes = {Allocation(1): 8.0, Allocation(2): 16.0}
    >>> cheapest_schedule(even, sizes, oldest_seconds=30.0).executor_seconds
    130.0
    """
    if not (oldest_seconds > 0.0 and step_seconds > 0.0 and 0.0 <= start_seconds < math.inf and throughput):
        raise ConfigurationError(
            "hindsight: oldest_seconds and step_seconds must be positive, start_seconds must not be negative, "
            "and a throughput is needed",
            field="hindsight",
        )
    at = np.asarray(times, dtype=np.float64)
    steps = math.ceil((float(at[-1]) + oldest_seconds) / step_seconds) + 1
    ends = step_seconds * np.arange(1, steps + 1)
    arrived = np.searchsorted(at, ends, side="right").astype(np.float64)
    due = np.searchsorted(at, ends - oldest_seconds, side="right").astype(np.float64)
    most = float(np.max(arrived - due))
    batch = 0 if cap is None else cap
    unit = max(most / _BACKLOGS, 1e-9)
    sizes = sorted(throughput, key=lambda allocation: allocation.capacity)
    starts = start_seconds * np.array([[_new_capacity(before, after) for before in sizes] for after in sizes])
    cost = np.full((len(sizes), _BACKLOGS + 2), np.inf)
    cost[:, 0] = 0.0
    shape = (steps, len(sizes), _BACKLOGS + 2)
    sizes_before, places_before = np.zeros(shape, dtype=np.int16), np.zeros(shape, dtype=np.int32)
    waiting = unit * np.arange(_BACKLOGS + 2)
    last = int(np.searchsorted(ends, at[-1]))
    speeds = np.ones(steps) if speed is None else speed(np.asarray(ends - 0.5 * step_seconds, dtype=np.float64))
    for step in range(steps):
        came = arrived[step] - (arrived[step - 1] if step else 0.0)
        is_over = (step > last) & (waiting <= 0.0) & (came <= 0.0)
        after = np.full_like(cost, np.inf)
        for number, size in enumerate(sizes):
            rate = throughput[size] * speeds[step]
            ways = cost + starts[number][:, None]
            origin = np.argmin(ways, axis=0)
            begun = ways[origin, np.arange(_BACKLOGS + 2)]
            left = np.maximum(waiting + came - rate * step_seconds, 0.0)
            # A record may be old only so long: what has come too long ago must be done by the end of the step, and
            # what a batch that begins then would bring too late must be done as well.
            rest = np.minimum(left, batch) / rate
            too_old = np.searchsorted(at, ends[step] - oldest_seconds + rest, side="right")
            allowed = left <= arrived[step] - too_old + 1e-9
            places = np.minimum(np.ceil(left / unit - 1e-9).astype(np.int64), _BACKLOGS + 1)
            price = np.where(is_over, 0.0, size.capacity * step_seconds)
            totals = np.where(allowed & (places <= _BACKLOGS), begun + price, np.inf)
            # The cheapest way to each backlog: the first of those that lead there, by rising cost.
            order = np.lexsort((totals, places))
            reached, first = np.unique(places[order], return_index=True)
            from_places = order[first]
            after[number, reached] = totals[from_places]
            sizes_before[step, number, reached] = origin[from_places]
            places_before[step, number, reached] = from_places
        cost = after
    number = int(np.argmin(cost[:, 0]))
    if not np.isfinite(cost[number, 0]):
        raise ConfigurationError(
            f"no schedule keeps every record younger than {oldest_seconds:g} s: the largest size sustains "
            f"{max(throughput.values()):,.0f} records a second; give more executors or more time",
            field="throughput",
        )
    total, place, found = float(cost[number, 0]), 0, list[Allocation]()
    for step in reversed(range(steps)):
        came_from = int(places_before[step, number, place])
        if found or step <= last or came_from > 0 or place > 0:  # after the last record is done nothing runs
            found.append(sizes[number])
        number, place = int(sizes_before[step, number, place]), came_from
    return HindsightSchedule(tuple(reversed(found)), step_seconds, total)


def _new_capacity(before: Allocation, after: Allocation) -> float:
    """What executors that have to start are of the capacity."""
    return max(0, after.executors - before.executors) * after.capacity / after.executors
