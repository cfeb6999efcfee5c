# SPDX-License-Identifier: Apache-2.0
"""What is compared: the loads, and who sizes the job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml

import penstock.cli
from penstock.arrivals.shape_text import parse_shape
from penstock.cli.demo import lasting
from penstock.running.policy_choice import with_policy
from penstock.settings import RunSettings, parse_settings

_DEMO = Path(penstock.cli.__file__).with_name("demo.yaml")


@dataclass(frozen=True)
class Rival:
    """Somebody who sizes the job; with `spark` it is Spark itself, and Penstock only watches."""

    name: str
    policy: Mapping[str, Any] | None = None
    """As in a settings file; None: what the demo has."""
    spark: Mapping[str, str] = field(default_factory=dict)


# Without an external shuffle service, executors may go only if shuffle files are tracked.
_DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "1",
    "spark.dynamicAllocation.initialExecutors": "2",
    "spark.dynamicAllocation.maxExecutors": "2",
}
# An executor that is idle for a part of every batch is never idle for the default 60 s: users shorten the time-outs.
_SHORT_TIME_OUTS = {
    "spark.dynamicAllocation.executorIdleTimeout": "20s",
    "spark.dynamicAllocation.shuffleTracking.timeout": "20s",
    "spark.dynamicAllocation.schedulerBacklogTimeout": "5s",
    "spark.dynamicAllocation.sustainedSchedulerBacklogTimeout": "5s",
}
RIVALS = (
    Rival("static", {"name": "fixed"}),
    Rival("threshold", {"name": "threshold"}),
    Rival("mead"),
    Rival("dynamic allocation", {"name": "fixed"}, _DYNAMIC),
    Rival("dynamic allocation, 20 s", {"name": "fixed"}, {**_DYNAMIC, **_SHORT_TIME_OUTS}),
)

LOADS = ("waves", "jumps", "bursts")
BUSY = "one core busy"
MACHINES = ("alone", BUSY)
MINUTES = {"waves": 2.0, "jumps": 1.5, "bursts": 1.5}
"""How long records arrive: one wave, a jump up and one down, two or three bursts."""
_PEAK = 6_000.0
"""Records a second at the demo's peak. The other loads have the same, so that the job and its limits suit all three."""


def settings(load: str, rival: Rival, *, minutes: float, seed: int, folder: Path) -> RunSettings:
    """The demo's job, limits and objective with that load, sized by the rival."""
    data = yaml.safe_load(_DEMO.read_text(encoding="utf-8"))
    data["name"] = "promise"
    if load == "waves":
        data["arrivals"]["shape"] = lasting(data["arrivals"]["shape"], minutes)
    else:
        trace = folder / "arrivals.npy"
        np.save(trace, arrivals(load, 60.0 * minutes, np.random.default_rng(seed)))
        data["arrivals"] = {"trace": str(trace.absolute()), "options": data["arrivals"]["options"]}
    if rival.policy is not None:
        data["policy"] = dict(rival.policy)
    if rival.spark:
        data["mode"] = "recommend"
        data["operators"][0]["spark"] = dict(rival.spark)
    return with_policy(parse_settings(data, "benchmark"))


def arrivals(load: str, seconds: float, rng: np.random.Generator) -> np.ndarray[Any, np.dtype[np.float64]]:
    """When the records of a load come; waves are the same for every seed."""
    if load != "waves":
        return (_jumps if load == "jumps" else _bursts)(seconds, rng)
    demo = yaml.safe_load(_DEMO.read_text(encoding="utf-8"))
    shape = parse_shape(lasting(demo["arrivals"]["shape"], seconds / 60.0))
    return shape.times(0, shape.total)


def _jumps(seconds: float, rng: np.random.Generator) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A tenth of the peak, and from one second to the next most of it: 20 to 50 s each, by turns."""
    return _poisson(_turns(seconds, rng, low=0.1, high=0.85, lows=(20.0, 50.0), highs=(20.0, 50.0)), rng)


def _bursts(seconds: float, rng: np.random.Generator) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A quarter of the peak, with bursts of 4 to 10 s at all of it every 15 to 30 s."""
    return _poisson(_turns(seconds, rng, low=0.25, high=1.0, lows=(15.0, 30.0), highs=(4.0, 10.0)), rng)


def _turns(
    seconds: float,
    rng: np.random.Generator,
    *,
    low: float,
    high: float,
    lows: tuple[float, float],
    highs: tuple[float, float],
) -> list[tuple[float, float]]:
    """Low and high by turns, each for a time drawn between its two: seconds and rate."""
    turns: list[tuple[float, float]] = []
    passed, is_high = 0.0, False
    while passed < seconds:
        lasts = min(float(rng.uniform(*(highs if is_high else lows))), seconds - passed)
        turns.append((lasts, _PEAK * (high if is_high else low)))
        passed, is_high = passed + lasts, not is_high
    return turns


def _poisson(turns: list[tuple[float, float]], rng: np.random.Generator) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Poisson arrivals at the rate of each turn."""
    times, began = [], 0.0
    for lasts, rate in turns:
        times.append(began + np.sort(rng.uniform(0.0, lasts, rng.poisson(rate * lasts))))
        began += lasts
    return np.concatenate(times)
