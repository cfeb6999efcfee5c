# SPDX-License-Identifier: Apache-2.0
"""How well supply followed demand: the elasticity metrics of SPEC's cloud group, and what changes and executors cost.

With s(t) executors supplied and d(t) demanded over a time T (Herbst et al., "Ready for Rain? A View from SPEC
Research on the Future of Cloud Metrics", 2016; Arkian et al., Gesscale, ICCCN 2021, Section V-A)

    accuracy_over  = 1/T integral of max(0, s - d)     timeshare_over  = 100/T times the time in which s > d
    accuracy_under = 1/T integral of max(0, d - s)     timeshare_under = 100/T times the time in which s < d
    excess_time    = (end of the last record - end of the arrivals) / T
    cost           = executor-minutes until the end of the last record.

Accuracies are in executors, timeshares in percent, excess time is a part of T. Lower is better in all of them. An
operator that stands still for a change supplies nothing meanwhile, and is paid for all the same. The published
figures say that they were counted so: over the paper's four scalers accuracy_under rises by 0.019 with each change
and timeshare_under by 0.6, and two minutes of 288 without any of about three executors are 0.021 and 0.7.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import inf, isfinite
from typing import TypeAlias

from penstock.errors import ConfigurationError
from penstock.evaluation.history import RunHistory
from penstock.records import Allocation, Observation

Step: TypeAlias = tuple[float, float]
"""From when on there is how much, in seconds from the start and in executors."""


@dataclass(frozen=True, slots=True)
class Elasticity:
    """The figures of one run; the module's formulas explain them."""

    accuracy_over: float
    accuracy_under: float
    timeshare_over: float
    timeshare_under: float
    excess_time: float
    reconfigurations: int
    cost: float

    def to_json(self) -> dict[str, float | int]:
        """Plain data."""
        return asdict(self)

    @property
    def text(self) -> str:
        """The figures that stand beside the accuracies, in words."""
        changes = "1 change" if self.reconfigurations == 1 else f"{self.reconfigurations} changes"
        return (
            f"executors above and below the estimated demand, {self.timeshare_over:.0f} % and "
            f"{self.timeshare_under:.0f} % of the time; excess time {self.excess_time:.3f}, {changes}, cost "
            f"{self.cost:.1f} executor-minutes"
        )

    @property
    def accuracy_text(self) -> str:
        """Executors too many and too few, on average."""
        return f"+{self.accuracy_over:.2f} / -{self.accuracy_under:.2f}"


def elasticity(
    supply: Sequence[Step],
    demand: Sequence[Step],
    seconds: float,
    *,
    ended_at: float | None = None,
    reconfigurations: int | None = None,
    paid: Sequence[Step] | None = None,
) -> Elasticity:
    """Give the figures.

    Parameters
    ----------
    supply, demand
        Executors over time; the first of each begins at or before 0, and each holds until the next.
    seconds
        T: how long records arrived.
    ended_at
        When the last record was done; None: with the arrivals.
    reconfigurations
        How many changes there were; None: as many as steps of `supply` differ from the one before.
    paid
        Executors that are paid for; None: those of `supply`.

    Examples
    --------
    >>> figures = elasticity([(0.0, 1), (30.0, 3)], [(0.0, 2)], 60.0)
    >>> figures.accuracy_over, figures.accuracy_under, figures.timeshare_over, figures.cost
    (0.5, 0.5, 50.0, 2.0)
    """
    if not 0.0 < seconds < inf:
        raise ConfigurationError(f"seconds: {seconds!r} must be a positive time", field="seconds")
    if ended_at is not None and not isfinite(ended_at):
        raise ConfigurationError(f"ended_at: {ended_at!r} is no instant; give seconds from the start", field="ended_at")
    for name, steps in (("supply", supply), ("demand", demand), ("paid", supply if paid is None else paid)):
        if not steps or not steps[0][0] <= 0.0:
            raise ConfigurationError(f"{name}: must say what there is at the start; begin it at 0", field=name)
        if any(not later >= at for (at, _), (later, _) in pairwise(steps)):
            raise ConfigurationError(f"{name}: its steps must follow each other; sort them by time", field=name)
        if any(not 0.0 <= value < inf for _, value in steps):
            raise ConfigurationError(f"{name}: executors must be numbers from 0 on", field=name)
    over = under = over_time = under_time = 0.0
    instants = sorted({0.0, seconds, *(at for at, _ in (*supply, *demand) if 0.0 < at < seconds)})
    have, want = _at(supply), _at(demand)
    for start, end in pairwise(instants):
        gap, lasts = have(start) - want(start), end - start
        over += max(0.0, gap) * lasts
        under += max(0.0, -gap) * lasts
        over_time += lasts if gap > 0.0 else 0.0
        under_time += lasts if gap < 0.0 else 0.0
    last = seconds if ended_at is None else max(seconds, ended_at)
    changes = sum(a != b for (_, a), (_, b) in pairwise(supply)) if reconfigurations is None else reconfigurations
    return Elasticity(
        over / seconds,
        under / seconds,
        100.0 * over_time / seconds,
        100.0 * under_time / seconds,
        (last - seconds) / seconds,
        changes,
        _area(supply if paid is None else paid, last) / 60.0,
    )


def supply_of(allocations: Sequence[tuple[float, Allocation]]) -> list[Step]:
    """Executors over time out of allocations over time, in executors of the operator's own size."""
    return [(at, had.executors * had.worth) for at, had in allocations]


def interrupted(supply: Sequence[Step], changes: Sequence[float], standstill: float) -> list[Step]:
    """A supply that is nothing for so long after each change.

    Examples
    --------
    >>> interrupted([(0.0, 1.0), (60.0, 2.0)], [60.0], 30.0)
    [(0.0, 1.0), (60.0, 0.0), (90.0, 2.0)]
    """
    if standstill <= 0.0 or not changes:
        return list(supply)
    value = _at(supply)
    instants = sorted({*(at for at, _ in supply), *changes, *(at + standstill for at in changes)})
    stops = [any(at <= instant < at + standstill for at in changes) for instant in instants]
    return [
        (instant, 0.0 if is_stopped else value(instant)) for instant, is_stopped in zip(instants, stops, strict=True)
    ]


def instants_of_changes(allocations: Sequence[tuple[float, Allocation]]) -> list[float]:
    """When executors, their size or their nodes became others."""
    return [
        at
        for (_, a), (at, b) in pairwise(allocations)
        if (a.executors, a.size, a.nodes) != (b.executors, b.size, b.nodes)
    ]


def run_elasticity(history: RunHistory, operator: str) -> Elasticity | None:
    """The figures of an operator in a run that was kept; None where too little is known of it.

    What the operator would have needed is not known afterwards. It is estimated: the CPU that a record took in this
    run, times what arrived, in whole executors, within the limits. Time that batches spend waiting is not in it, so
    demand is rather too low than too high.
    """
    seen = [o for o in history.observations.get(operator, ()) if o.cluster.observed is not None]
    if len(seen) < 2 or seen[-1].at <= seen[0].at or any(later.at < one.at for one, later in pairwise(seen)):
        return None  # where the clock was set back, nobody knows how long anything lasted
    used = done = 0.0
    for before, now in pairwise(seen):
        observed, rate = now.cluster.observed, now.processed_rows_per_second
        if observed is not None and now.utilisation is not None and rate is not None:
            used += now.utilisation * observed.capacity * (now.at - before.at)
            done += rate * (now.at - before.at)
    if not (used > 0.0 and done > 0.0):
        return None
    began, share = seen[0].at, max(o.cluster.observed.cpu_share for o in seen if o.cluster.observed is not None)
    bounds = history.executors_of(operator)
    per_record, demand, supply = used / done, list[Step](), list[Step]()
    arriving_until = began
    for one in seen:
        assert one.cluster.observed is not None
        supply.append((one.at - began, one.cluster.observed.executors * one.cluster.observed.worth))
        rate = one.arrival_rate_rows_per_second
        if rate is not None and isfinite(rate):
            executors = -(-rate * per_record // share)
            demand.append((one.at - began, min(max(executors, bounds[0]), bounds[1])))
            arriving_until = one.at if rate > 0.0 else arriving_until
    if not demand or arriving_until <= began:
        return None
    demand[0] = (0.0, demand[0][1])
    late = [one.at for one in seen if one.backlog_records]
    return elasticity(
        supply, demand, arriving_until - began,
        ended_at=max([*late, arriving_until]) - began,
        reconfigurations=len(changes_seen(seen)),
    )  # fmt: skip


def changes_seen(seen: Sequence[Observation]) -> list[tuple[float, Allocation]]:
    """When what was there began to become another, and what came of it.

    Executors of one change come one by one, and one that dies is replaced: neither is a change of its own. Nor is what
    was only recommended, or asked for and never came.
    """
    settled = list[tuple[float, Allocation]]()
    asked: Allocation | None = None
    is_met = False
    for one in seen:
        there, wanted = one.cluster.observed, one.cluster.requested
        assert there is not None
        if settled and wanted is not None and wanted == asked:
            if is_met:
                continue  # what goes and comes again is what was asked for
            settled[-1] = (settled[-1][0], there)
        else:
            if asked is not None and not is_met:
                settled[-1] = (settled[-1][0], there)  # what had come of the request before when the next one was made
            settled.append((one.at, there))
        asked, is_met = wanted, wanted is not None and there.satisfies(wanted)
    return [(at, after) for (_, before), (at, after) in pairwise(settled) if _is_other(before, after)]


def _is_other(before: Allocation, after: Allocation) -> bool:
    if (before.executors, before.cpu_share, before.size) != (after.executors, after.cpu_share, after.size):
        return True
    return bool(before.nodes and after.nodes) and sorted(before.nodes) != sorted(after.nodes)


def _at(steps: Sequence[Step]) -> Callable[[float], float]:
    starts = [at for at, _ in steps]
    return lambda instant: steps[max(0, bisect_right(starts, instant) - 1)][1]


def _area(steps: Sequence[Step], until: float) -> float:
    ends = [*(at for at, _ in steps[1:]), until]
    return sum(
        value * max(0.0, min(end, until) - max(start, 0.0)) for (start, value), end in zip(steps, ends, strict=True)
    )
