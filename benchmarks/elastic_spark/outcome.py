# SPDX-License-Identifier: Apache-2.0
"""A day beside the cheapest schedule in hindsight, in figures and as a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from benchmarks.elastic_spark.day_speed import DaySpeed, day_batches, day_speed
from benchmarks.elastic_spark.sizes import Measured

from penstock.evaluation.hindsight import HindsightSchedule, cheapest_schedule
from penstock.records import Observation

BAR = 0.15
Times = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Outcome:
    """What a day came to.

    Attributes
    ----------
    measured_before
        What each size sustained before the day, in records a second.
    speed
        How fast the machine was in the day beside that: least, median and most.
    start_seconds
        What a new executor cost, in executor seconds.
    hindsight_executor_seconds
        Of the cheapest schedule: the day's speed, records done with their batches, executors that cost to start.
    simple_executor_seconds
        Of the one that earlier runs were compared with: throughput as measured before, records done one by one,
        executors that start for nothing.
    """

    measured_before: dict[int, float]
    speed: tuple[float, float, float]
    start_seconds: float
    records: int
    day_seconds: float
    executor_seconds: float
    hindsight_executor_seconds: float
    simple_executor_seconds: float
    oldest_record_seconds: float
    catch_up_seconds: float
    changes: int
    warm_start: bool

    @property
    def more_than_hindsight(self) -> float:
        """Executor seconds beyond the cheapest schedule, as a part of it."""
        return self.executor_seconds / self.hindsight_executor_seconds - 1.0

    @property
    def more_than_simple(self) -> float:
        """The same beside the simple schedule."""
        return self.executor_seconds / self.simple_executor_seconds - 1.0

    @property
    def is_met(self) -> bool:
        """Whether the bar is met."""
        return self.more_than_hindsight <= BAR and self.oldest_record_seconds <= self.catch_up_seconds

    def to_json(self) -> dict[str, Any]:
        """All of it, with what follows from it."""
        follows = {name: getattr(self, name) for name in ("more_than_hindsight", "more_than_simple", "is_met")}
        return {**asdict(self), "bar": BAR, **follows}

    def __str__(self) -> str:
        return (
            f"{self.executor_seconds:,.0f} executor seconds, {self.more_than_hindsight:+.1%} of the cheapest "
            f"schedule's {self.hindsight_executor_seconds:,.0f} (bar {BAR:+.0%}; {self.more_than_simple:+.1%} of "
            f"one without batches, starts and the day's speed); oldest record "
            f"{self.oldest_record_seconds:.1f} s (bar {self.catch_up_seconds:g} s); {self.changes} changes: "
            f"{'met' if self.is_met else 'MISSED'}"
        )


@dataclass(frozen=True)
class Day:
    """The looks of the day itself, without the lead-in, and when it began."""

    looks: Sequence[Observation]
    began_at: float

    @classmethod
    def of(cls, seen: Sequence[Observation], times: Times, lead_in: float) -> Day:
        """The part from the end of the lead-in until everything was done."""
        looks = [look for look in seen if look.records_arrived is not None]
        first = next(look for look in looks if look.records_arrived)
        assert first.records_arrived is not None
        began = first.at - float(times[min(first.records_arrived, len(times)) - 1]) + lead_in
        ends = next((look.at for look in looks if (look.records_done or 0) >= len(times)), looks[-1].at)
        return cls([look for look in looks if began <= look.at <= ends], began)


def outcome(
    day: Day, changes: int, times: Times, known: Measured, *, lead_in: float, catch_up: float, cap: int, is_warm: bool
) -> tuple[Outcome, HindsightSchedule, DaySpeed]:
    """Compare a day with the cheapest schedule that had known its arrivals and what every size sustains and costs."""
    arrivals = times[times >= lead_in] - lead_in
    speed = day_speed(day_batches(day.looks), known.sustained, cap)
    schedule = cheapest_schedule(
        arrivals, known.sustained, oldest_seconds=catch_up, start_seconds=known.start_seconds, cap=cap,
        speed=lambda at: speed(at + day.began_at),
    )  # fmt: skip
    simple = cheapest_schedule(arrivals, known.sustained, oldest_seconds=catch_up)
    share = next(iter(known.sustained)).cpu_share
    found = Outcome(
        measured_before={size.executors: rate for size, rate in known.sustained.items()},
        speed=(float(speed.speed.min()), float(np.median(speed.speed)), float(speed.speed.max())),
        start_seconds=known.start_seconds,
        records=len(times),
        day_seconds=day.looks[-1].at - day.looks[0].at,
        executor_seconds=sum((after.at - before.at) * executors(before) for before, after in pairwise(day.looks)),
        hindsight_executor_seconds=schedule.executor_seconds / share,
        simple_executor_seconds=simple.executor_seconds / share,
        oldest_record_seconds=max(
            (look.latency.max_seconds for look in day.looks if look.latency is not None), default=math.nan
        ),
        catch_up_seconds=catch_up,
        changes=changes,
        warm_start=is_warm,
    )
    return found, schedule, speed


def executors(look: Observation) -> int:
    """Executors that were there."""
    return 0 if look.cluster.observed is None else look.cluster.observed.executors


def draw(path: Path, day: Day, schedule: HindsightSchedule, found: Outcome, speed: DaySpeed) -> None:
    """Arrivals and throughput, executors beside those of hindsight, and the age of records."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    at = [look.at - day.began_at for look in day.looks]
    figure, (load, size, age) = plt.subplots(3, 1, figsize=(9, 8), sharex=True, layout="constrained")
    load.plot(at, [look.arrival_rate_rows_per_second or math.nan for look in day.looks], label="arrivals")
    speeds = speed(np.array([look.at for look in day.looks]))
    has = [found.measured_before.get(executors(look), math.nan) for look in day.looks] * speeds
    load.plot(at, has, drawstyle="steps-post", label="what the executors sustained, at the day's speed")
    load.set_ylabel("records a second")
    size.plot(at, [executors(look) for look in day.looks], drawstyle="steps-post", label="elastic")
    steps = [schedule.step_seconds * n for n in range(len(schedule.allocations))]
    size.plot(
        steps, [a.executors for a in schedule.allocations],
        drawstyle="steps-post", linestyle="--", label="cheapest in hindsight",
    )  # fmt: skip
    size.set_ylabel("executors")
    ages = [math.nan if look.latency is None else look.latency.max_seconds for look in day.looks]
    age.plot(at, ages, label="oldest record")
    age.set_ylabel("seconds")
    age.set_xlabel("seconds since the day began")
    for panel in (load, size, age):
        panel.legend(loc="upper left")
        panel.grid(alpha=0.3)
        panel.set_ylim(bottom=0)
    figure.savefig(path, dpi=120)
    plt.close(figure)
