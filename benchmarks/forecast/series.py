# SPDX-License-Identifier: Apache-2.0
"""The series on which forecasts are graded: generated ones, and the arrival rates of real traces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from penstock.arrivals import load_trace
from penstock.evaluation.forecast_backtest import rates_of

FloatArray = npt.NDArray[np.float64]
LENGTH = 3000


@dataclass(frozen=True)
class Series:
    """Equally spaced readings. `horizons` are in readings."""

    name: str
    readings: FloatArray
    period_seconds: float
    horizons: tuple[int, ...] = (1, 12, 60)


def generated(seed: int = 0) -> list[Series]:
    """Series of which it is known what can be forecast."""
    rng, t = np.random.default_rng(seed), np.arange(LENGTH)
    sine = np.sin(2 * np.pi * t / 144)
    is_on = np.logical_xor.accumulate(rng.random(LENGTH) < 1 / 30)
    found = {
        "sine": 100 + 50 * sine,
        "sine, noise a fifth of it": 100 + 50 * sine + 10 * rng.normal(size=LENGTH),
        "sine, noise as large": 200 + 50 * sine + 50 * rng.normal(size=LENGTH),
        "bursts of 8 every 97": rng.poisson(np.where(t % 97 < 8, 300, 30)).astype(np.float64),
        "random walk": 500 + np.cumsum(rng.normal(size=LENGTH)),
        "Poisson noise": rng.poisson(100, LENGTH).astype(np.float64),
        "on-off, 30 each on average": rng.poisson(np.where(is_on, 200, 20)).astype(np.float64),
        "trend with noise": rng.poisson(50 + 0.2 * t).astype(np.float64),
    }
    return [Series(name, readings, 10.0) for name, readings in found.items()]


_REAL: dict[str, tuple[str, dict[str, str], float]] = {
    "bc-paug89, 1 s": ("bc-paug89/BC-pAug89.timestamps_us.txt.xz", {"unit": "us"}, 1.0),
    "bc-paug89, 10 s": ("bc-paug89/BC-pAug89.timestamps_us.txt.xz", {"unit": "us"}, 10.0),
    "cloudphysics-io, 1 s": ("cloudphysics-io/cloudPhysicsIO.us.csv.xz", {}, 1.0),
    "cloudphysics-io, 10 s": ("cloudphysics-io/cloudPhysicsIO.us.csv.xz", {}, 10.0),
    "google-2011, 1 s": ("google-2011/task_events_part-00000-of-00500.csv.gz", {}, 1.0),
    "google-2011, 10 s": ("google-2011/task_events_part-00000-of-00500.csv.gz", {}, 10.0),
    "nyc-taxi, 10 s": ("nyc-taxi-2013/nycTaxiRides.gz", {}, 10.0),
}


def real(folder: Path) -> list[Series]:
    """The arrival rates of real traces; the World Cup's in two parts, before its matches and during them."""
    found = []
    for name, (path, reading, every) in _REAL.items():
        load: Callable[..., object] = load_trace
        trace = load(folder / path, **reading)
        readings = rates_of(trace, every)  # type: ignore[arg-type]
        horizons = (1, 12, 60) if len(readings) > 1000 else (1, 12)
        found.append(Series(name, readings, every, horizons))
    minutes = rates_of(load_trace(folder / "worldcup98/wc98_requests_per_minute.csv.xz"), 60.0)
    found.append(Series("worldcup98, first 35 days", minutes[: 35 * 1440], 60.0))
    found.append(Series("worldcup98, days 40 to 75", minutes[40 * 1440 : 75 * 1440], 60.0))
    return found
