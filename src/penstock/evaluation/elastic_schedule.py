# SPDX-License-Identifier: Apache-2.0
"""Elastic scheduling by predicted throughput, simulated over a sequence of rates (Imai et al., Sec. 6).

At the start of each period a scheduler knows the period's rate and asks for the machines that will do. They come after
a delay, in which those of the period before have to do. Rates and machines are constant in between, so that a period
has few stretches, and every figure is exact: nothing is stepped through minute by minute.

There are two accounts. The paper's counts the time in which the rate is above the throughput (Eq. 12). The second
carries over what was not processed, and catches up where there is throughput to spare (the paper's last paragraph).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.errors import ConfigurationError
from penstock.ports import FloatArray

IntArray = npt.NDArray[np.int64]
HOUR = 3600.0
MOST_OVER_PROVISIONING = 400
"""Percent: where the search for the least that will do gives up."""
_MOST_AT_ONCE = 50_000
"""Periods times percentages that are looked at together; more do not fit a processor's cache."""


@dataclass(frozen=True, eq=False)
class Workload:
    """What has to be processed, and what it costs.

    Parameters
    ----------
    rates
        The rate of each period, in the unit of the throughput.
    period_seconds
        Length of a period: how often the scheduler may change the machines.
    delay_seconds
        From a decision until it is in force.
    cost_per_hour
        Of one machine.
    """

    rates: FloatArray
    period_seconds: float = HOUR
    delay_seconds: float = 60.0
    cost_per_hour: float = 0.10

    def __post_init__(self) -> None:
        faults = []
        if self.rates.ndim != 1 or not len(self.rates):
            faults.append("rates: there is none; give the rate of at least one period")
        elif not (np.isfinite(self.rates).all() and (self.rates >= 0.0).all()):
            faults.append("rates: they must be finite and at least 0")
        if not self.period_seconds > 0.0:
            faults.append(f"period: {self.period_seconds} must be above 0")
        if not 0.0 <= self.delay_seconds <= self.period_seconds:
            faults.append(f"delay: {self.delay_seconds} s must be from 0 to a period ({self.period_seconds:g} s)")
        if not self.cost_per_hour >= 0.0:
            faults.append(f"cost per hour: {self.cost_per_hour} must be at least 0")
        if faults:
            raise ConfigurationError.of_all("schedule", faults)


@dataclass(frozen=True, slots=True)
class ScheduleAccount:
    """What a schedule came to.

    Attributes
    ----------
    cost_per_hour
        Mean cost.
    violation_percent
        The share of the time in which the rate was above the throughput.
    waiting_percent
        The share of the time in which something was waiting that had not been processed in time.
    longest_wait_seconds
        The longest that a record waited for its turn. Infinite: nothing was processed.
    left_over
        What still waited at the end, in seconds of the last period's rate.
    machines_mean, machines_max
        Over the periods.
    changes
        How often the number of machines changed.
    """

    cost_per_hour: float
    violation_percent: float
    waiting_percent: float
    longest_wait_seconds: float
    left_over: float
    machines_mean: float
    machines_max: int
    changes: int

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "cost_per_hour": self.cost_per_hour, "violation_percent": self.violation_percent,
            "waiting_percent": self.waiting_percent, "longest_wait_seconds": self.longest_wait_seconds,
            "left_over_seconds": self.left_over, "machines_mean": self.machines_mean,
            "machines_max": self.machines_max, "changes": self.changes,
        }  # fmt: skip


def least_machines(throughput: FloatArray, rates: npt.ArrayLike) -> IntArray:
    """Return for each rate the fewest machines whose throughput is at least that (Eq. 11); all, where none is enough.

    Parameters
    ----------
    throughput
        Of 1, 2, 3, ... machines. It may fall: the fewest machines count.
    rates
        What has to be processed.

    Examples
    --------
    >>> least_machines(np.array([10.0, 18.0, 24.0]), [5.0, 10.0, 10.1, 99.0]).tolist()
    [1, 1, 2, 3]
    """
    reached = np.maximum.accumulate(throughput)
    enough: IntArray = np.minimum(np.searchsorted(reached, np.asarray(rates), side="left") + 1, len(throughput))
    return enough


def worthwhile_machines(predicted: FloatArray, gain: float = 0.01) -> int:
    """Return the machines after which more are no use: all together they promise less than `gain` more."""
    return int(least_machines(predicted, (1.0 - gain) * predicted.max()))


def over_provisioned(machines: IntArray, percent: int, most: int) -> IntArray:
    """Return so many percent more machines, rounded up (Sec. 6.1), and at most `most`."""
    more: IntArray = np.minimum(-(-machines * (100 + percent) // 100), most)
    return more


def account(
    workload: Workload,
    throughput: FloatArray,
    machines: IntArray,
    *,
    ahead: IntArray | None = None,
    corrected: IntArray | None = None,
    short_seconds: FloatArray | None = None,
    is_instant: bool = False,
) -> ScheduleAccount:
    """Return what a schedule costs and how well it does.

    Parameters
    ----------
    workload
        The rates.
    throughput
        What 1, 2, 3, ... machines really sustain.
    machines
        In each period; those of the first are there from the start.
    ahead
        Machines asked for one delay before each period ends, so that they are there when the next begins, and kept
        until its own come. They are paid for twice the delay. None: nothing is asked for ahead.
    corrected, short_seconds
        Machines that came later in each period because its own were too few, and how long after these; they are paid
        for from when they are asked for. None: nothing is corrected.
    is_instant
        Changes are in force at once.
    """
    rates = workload.rates
    delay = 0.0 if is_instant else workload.delay_seconds
    sustained = throughput[machines - 1]
    final = machines if corrected is None else corrected
    held = final if ahead is None else np.maximum(final, ahead)
    before = np.concatenate([sustained[:1], throughput[held[:-1] - 1]])
    late = np.zeros(len(rates)) if short_seconds is None else short_seconds
    rest = workload.period_seconds - delay - late
    paid = machines + (held - final) * min(1.0, 2.0 * delay / workload.period_seconds)
    paid = paid + (final - machines) * np.minimum(1.0, (rest + delay) / workload.period_seconds)
    seconds = np.column_stack([np.full(len(rates), delay), late, rest]).ravel()
    capacity = np.column_stack([before, sustained, throughput[final - 1]]).ravel()
    rate = np.repeat(rates, 3)
    whole = seconds.sum()
    waiting, at_start = _backlog(rate, capacity, seconds)
    with np.errstate(divide="ignore", invalid="ignore"):
        caught_up = np.where(capacity > rate, at_start / (capacity - rate), np.inf)
        waits = np.where(waiting > 0.0, waiting / capacity, 0.0)
        last = rates[-1]
        left_over = waiting[-1] / last if last > 0.0 else (0.0 if waiting[-1] == 0.0 else np.inf)
    busy = np.where(rate > capacity, seconds, np.minimum(np.where(at_start > 0.0, caught_up, 0.0), seconds))
    return ScheduleAccount(
        float(paid.mean() * workload.cost_per_hour),
        float(100.0 * seconds[rate > capacity].sum() / whole),
        float(100.0 * busy.sum() / whole),
        float(waits.max()),
        float(left_over),
        float(paid.mean()),
        int(held.max()),
        int(np.count_nonzero(np.diff(machines)) + np.count_nonzero(final != machines)),
    )


def _backlog(rate: FloatArray, capacity: FloatArray, seconds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """What waits at the end and at the start of each stretch: Lindley's recursion, as a running minimum."""
    total = np.cumsum((rate - capacity) * seconds)
    at_end = total - np.minimum(np.minimum.accumulate(total), 0.0)
    at_end[at_end < 1e-9 * max(float((rate * seconds).max()), 1e-300)] = 0.0  # rounding of the sums
    return at_end, np.concatenate([[0.0], at_end[:-1]])


def least_over_provisioning(
    workload: Workload, throughput: FloatArray, machines: IntArray, violation_percent: float = 1.0
) -> int | None:
    """Return the least whole percentage of machines more that keeps violations within a bound; None: none does."""
    together = max(1, _MOST_AT_ONCE // len(machines))
    late = workload.delay_seconds / workload.period_seconds
    for first in range(0, MOST_OVER_PROVISIONING + 1, together):
        # Many percentages at once, and violations alone: the account of each says the same (Eq. 12).
        percents = np.arange(first, min(first + together, MOST_OVER_PROVISIONING + 1))
        more = np.minimum(-(-machines * (100 + percents[:, None]) // 100), len(throughput))
        sustained = throughput[more - 1]
        before = np.column_stack([sustained[:, :1], sustained[:, :-1]])
        violated = late * (workload.rates > before) + (1.0 - late) * (workload.rates > sustained)
        enough = np.flatnonzero(100.0 * violated.mean(axis=1) <= violation_percent)
        if len(enough):
            return int(percents[enough[0]])
    return None


@dataclass(frozen=True, eq=False)
class ScheduledPolicy:
    """A policy's machines in each period, and its account.

    Attributes
    ----------
    name
        As the paper calls it.
    machines
        In each period.
    account
        What it came to.
    over_provisioning_percent
        The percentage of machines more; None where there is none.
    """

    name: str
    machines: IntArray
    account: ScheduleAccount
    over_provisioning_percent: int | None = None


STATIC_PEAK, STATIC_AVERAGE, GROUND_TRUTH = "static (peak)", "static (average)", "elastic (ground truth)"
LEAST_OVER, BY_INTERVAL = "elastic (OP: 1% violation)", "elastic (interval)"
AHEAD = "elastic (interval, ahead of rises)"
LEARNING = "elastic (interval, learning)"
_WEEK, _STRONG = 168, 0.99


def over_name(percent: int) -> str:
    """The name of a policy with so many percent more machines."""
    return f"elastic (OP: {percent}%)"


def schedule_all(
    workload: Workload,
    truth: FloatArray,
    predicted: FloatArray,
    low: FloatArray,
    percents: Sequence[int] = (0, 5, 10, 20),
) -> tuple[ScheduledPolicy, ...]:
    """Simulate all policies.

    Parameters
    ----------
    workload
        The rates.
    truth
        What 1, 2, 3, ... machines really sustain, by which violations are judged. Static policies and the ground truth
        know it; no other policy does.
    predicted, low
        What a model predicts for them, and the lower end of its interval.
    percents
        Over-provisioning to try.
    """
    if not len(truth) == len(predicted) == len(low):
        raise ValueError("truth, prediction and lower end must be of the same numbers of machines")
    published = published_policies(workload, truth, predicted, percents)
    return (*published, *interval_policies(workload, truth, predicted, low))


def published_policies(
    workload: Workload, truth: FloatArray, predicted: FloatArray, percents: Sequence[int] = (0, 5, 10, 20)
) -> tuple[ScheduledPolicy, ...]:
    """Simulate those of the paper (Sec. 6.1)."""
    rates, most = workload.rates, len(truth)
    every = np.ones(len(rates), dtype=np.int64)
    peak = every * least_machines(truth, rates.max())
    average = every * least_machines(truth, rates.mean())
    ideal, needed = least_machines(truth, rates), least_machines(predicted, rates)
    found = [
        ScheduledPolicy(STATIC_PEAK, peak, account(workload, truth, peak)),
        ScheduledPolicy(STATIC_AVERAGE, average, account(workload, truth, average)),
        ScheduledPolicy(GROUND_TRUTH, ideal, account(workload, truth, ideal, is_instant=True)),
    ]
    for percent in percents:
        more = over_provisioned(needed, percent, most)
        found.append(ScheduledPolicy(over_name(percent), more, account(workload, truth, more), percent))
    least = least_over_provisioning(workload, truth, needed)
    if least is not None:
        more = over_provisioned(needed, least, most)
        found.append(ScheduledPolicy(LEAST_OVER, more, account(workload, truth, more), least))
    return tuple(found)


def interval_policies(
    workload: Workload, truth: FloatArray, predicted: FloatArray, low: FloatArray
) -> tuple[ScheduledPolicy, ...]:
    """Simulate those that count on the lower end of a model's interval, and learn nothing more."""
    rates, needed = workload.rates, least_machines(predicted, workload.rates)
    most = np.maximum(worthwhile_machines(predicted), needed)
    safe = np.minimum(least_machines(low, rates), most)
    ahead = np.minimum(least_machines(low, rates * usual_rises(rates)), most)
    return (
        ScheduledPolicy(BY_INTERVAL, safe, account(workload, truth, safe)),
        ScheduledPolicy(AHEAD, safe, account(workload, truth, safe, ahead=ahead)),
    )


def usual_rises(rates: FloatArray, periods: int = _WEEK, share: float = _STRONG) -> FloatArray:
    """Return for each period the factor by which the next may be higher, from what the last periods did.

    It is the quantile `share` of the rises seen in the last `periods` periods, at least 1, and 1 before the first rise
    was seen. Rises out of nothing are left out.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        rises = np.where(rates[:-1] > 0.0, rates[1:] / rates[:-1], np.nan)
    padded = np.concatenate([np.full(periods, np.nan), np.where(np.isfinite(rises), rises, np.nan)])
    # The window before period i has the rises to it and to those before; what is not known sorts to the end.
    seen = np.sort(np.lib.stride_tricks.sliding_window_view(padded, periods), axis=1)
    count = np.isfinite(seen).sum(axis=1)
    places = np.minimum(np.maximum(count - 1, 0), (share * count).astype(np.int64))
    factors = seen[np.arange(len(rates)), places]
    return np.where(count > 0, np.maximum(1.0, factors), 1.0)
