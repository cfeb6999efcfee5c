# SPDX-License-Identifier: Apache-2.0
"""Splits a trace into windows and describes each in one flat row, the same on one machine and on many."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from penstock.arrivals import Gaps
from penstock.errors import ConfigurationError, NotReadyError
from penstock.ports import FloatArray
from penstock.workload import TraceDescription, describe_iats, fit_maps

COLUMNS: dict[str, str] = {
    "stream": "string", "window": "bigint", "first": "bigint", "n": "bigint", "start": "double", "end": "double",
    "rate": "double", "mean": "double", "scv": "double", "scv_error": "double", "skewness": "double",
    "rho1": "double", "rho10": "double", "rho100": "double", "idc": "double", "idc_seconds": "double",
    "zero_share": "double", "coarse_step": "double",
    "kind": "string", "states": "bigint", "loss": "double", "map_scv": "double", "map_rho1": "double",
    "acf_rmse": "double", "queue_error": "double", "fit_seconds": "double", "map": "string", "notes": "string",
}  # fmt: skip
"""Columns of the table and their types in Spark.

`first` is the number of the window's first inter-arrival time, `start` and `end` are seconds since the stream's first
arrival. `idc` is the variance over the mean of counts in the longest interval that the window allows, `idc_seconds`.
The columns from `kind` on describe the best fitted process and are None without a fit: `queue_error` is the relative
error of its mean response time at a load of 0.8, `map` its D0 and D1 as JSON. `notes` explain what is odd, or why a
window has no numbers.
"""


@dataclass(frozen=True, slots=True)
class WindowSettings:
    """How to split a trace into windows, and what to do with each.

    Parameters
    ----------
    size
        Inter-arrival times in a window. The last window has what is left.
    step
        From one window's start to the next one's. None: `size`, so that they do not overlap.
    fit
        Whether to fit processes too.
    max_states, seed
        Options of the fit.
    """

    size: int = 50_000
    step: int | None = None
    fit: bool = True
    max_states: int = 96
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value in (("window", self.size), ("step", self.every), ("max_states", self.max_states)):
            if value < 1:
                raise ConfigurationError(f"{name}: {value} is too small; give at least 1", field=name)

    @property
    def every(self) -> int:
        """From one window's start to the next one's, in inter-arrival times."""
        return self.size if self.step is None else self.step


def plan_windows(gaps: Gaps, settings: WindowSettings) -> list[dict[str, Any]]:
    """Return number, place, length and start of each window of a trace."""
    starts = gaps.edges(settings.every)
    windows = []
    for number, first in enumerate(range(0, gaps.total, settings.every)):
        n = min(settings.size, gaps.total - first)
        windows.append({"window": number, "first": first, "n": n, "start": float(starts[number])})
        if first + n == gaps.total:
            break  # a further window would only repeat the end of this one
    return windows


def describe_window(iats: FloatArray, settings: WindowSettings) -> dict[str, Any]:
    """Return the description of one window. Unknown values are None, and `notes` say why."""
    row: dict[str, Any] = dict.fromkeys(list(COLUMNS)[6:])
    try:
        if settings.fit:
            fit = fit_maps(iats, best=1, max_states=settings.max_states, seed=settings.seed)
            row |= _of_trace(fit.trace)
            best = fit.maps[0]
            row |= {
                "kind": fit.kind, "states": best.states, "loss": best.loss, "map_scv": best.map.scv,
                "map_rho1": float(best.map.autocorrelation(1)), "acf_rmse": best.errors["acf_rmse"],
                "queue_error": best.queue_errors[0.8], "fit_seconds": fit.seconds,
                "map": json.dumps(best.map.to_json()), "notes": "; ".join(fit.notes) or None,
            }  # fmt: skip
            return row
        return row | _of_trace(describe_iats(iats))
    except (NotReadyError, ConfigurationError) as fault:
        if isinstance(fault, NotReadyError) and settings.fit:
            # A window too short for a fit may be long enough for the other numbers.
            return describe_window(iats, WindowSettings(settings.size, settings.step, fit=False)) | {
                "notes": str(fault)
            }
        return row | {"notes": str(fault)}


def _of_trace(trace: TraceDescription) -> dict[str, Any]:
    def rho(lag: int) -> float | None:
        return float(trace.acf[lag - 1]) if lag <= trace.acf.size else None

    return {
        "rate": trace.rate, "mean": trace.mean, "scv": trace.scv, "scv_error": trace.scv_error,
        "skewness": trace.skewness,
        "rho1": rho(1), "rho10": rho(10), "rho100": rho(100), "idc": float(trace.idc[-1]),
        "idc_seconds": float(trace.idc_widths[-1]), "zero_share": trace.zero_share, "coarse_step": trace.coarse_step,
        "notes": "; ".join(trace.notes) or None,
    }  # fmt: skip


def characterize_gaps(stream: str, gaps: Gaps, settings: WindowSettings) -> list[dict[str, Any]]:
    """Yield the table's rows of one trace, computed here, one after the other."""
    return [row_of(stream, window, gaps, settings) for window in plan_windows(gaps, settings)]


def row_of(stream: str, window: dict[str, Any], gaps: Gaps, settings: WindowSettings) -> dict[str, Any]:
    """Return the whole row of one window of `plan_windows`."""
    iats = gaps.window(window["first"], window["first"] + window["n"])
    place = {"stream": stream, **window, "end": window["start"] + float(iats.sum())}
    return place | describe_window(iats, settings)
