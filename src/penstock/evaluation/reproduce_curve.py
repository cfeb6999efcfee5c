# SPDX-License-Identifier: Apache-2.0
"""A queue's mean response time over its utilisation: as it is on a trace, and as three models of the trace predict it.

M/PH/1 knows the trace's rate, Kingman's formula its variability too, MAP/PH/1 its correlation: the comparison by which
MEAD (Fig. 3) shows what burstiness does. The service is Erlang; its mean is the utilisation over the rate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.evaluation.experiment_file import CurveExperiment
from penstock.evaluation.reproduction import Call, Column, Grid, Reproduction
from penstock.evaluation.simulation import simulate
from penstock.markov import PH
from penstock.performance.queueing.general import solve_gi_g_1, solve_m_g_1
from penstock.performance.queueing.single_server import solve_map_ph_1
from penstock.ports import FloatArray
from penstock.records import Objective
from penstock.simulator import Operator, Pipeline
from penstock.simulator.service import erlang
from penstock.workload import fit_maps

_NO_BOUND = 1e9
"""Times the service time: nothing decides in these runs, and no bound is to refuse them."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Mean response times at one utilisation, in seconds. `spread`: the standard deviation over seeds."""

    utilisation: float
    simulated: float
    spread: float
    m_ph_1: float
    kingman: float
    of_fits: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class CurveResult:
    """One trace."""

    trace: str
    rate: float
    scv: float
    lag_1: float
    points: tuple[CurvePoint, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "trace": self.trace, "rate": self.rate, "scv": self.scv, "lag_1_autocorrelation": self.lag_1,
            "points": [
                {
                    "utilisation": p.utilisation, "simulated": p.simulated, "spread_over_seeds": p.spread,
                    "m_ph_1": p.m_ph_1, "kingman": p.kingman, "map_ph_1": list(p.of_fits),
                }
                for p in self.points
            ],
        }  # fmt: skip


def curve(
    experiment: CurveExperiment,
    arrivals: Mapping[str, FloatArray],
    seeds: int,
    progress: Callable[[float], None] | None = None,
) -> tuple[CurveResult, ...]:
    """Do the experiment; `arrivals` are those of its traces, by name."""
    found: list[CurveResult] = []
    steps = len(experiment.traces) * (1 + len(experiment.utilisations))
    done = 0

    def advance() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done / steps)

    for trace in experiment.traces:
        times = arrivals[trace.name]
        gaps = np.diff(times)
        fit = fit_maps(gaps, best=experiment.best)
        advance()
        points = []
        for utilisation in experiment.utilisations:
            mean = utilisation / fit.trace.rate
            service = PH.erlang(experiment.phases, mean=mean)
            simulated = [_simulated(times, experiment.phases, mean, seed) for seed in range(seeds)]
            points.append(
                CurvePoint(
                    utilisation=utilisation,
                    simulated=float(np.mean(simulated)),
                    spread=float(np.std(simulated)),
                    m_ph_1=solve_m_g_1(fit.trace.rate, service).mean,
                    kingman=solve_gi_g_1(fit.trace.rate, fit.trace.scv, mean, service.scv).mean,
                    of_fits=tuple(solve_map_ph_1(fitted.map, service).mean for fitted in fit.maps),
                )
            )
            advance()
        lag_1 = float(np.corrcoef(gaps[:-1], gaps[1:])[0, 1])
        found.append(CurveResult(trace.name, fit.trace.rate, fit.trace.scv, lag_1, tuple(points)))
    return tuple(found)


def _simulated(times: FloatArray, phases: int, mean: float, seed: int) -> float:
    one = Pipeline.of_one(Operator("matcher", erlang(phases, mean)))
    result = simulate(times, one, None, Objective("mean", _NO_BOUND * mean), seed)
    assert result.latency is not None
    return result.latency.mean_seconds


def reproduce_curve(experiment: CurveExperiment, call: Call) -> Reproduction:
    """Do the experiment; what the paper says stands above our figures."""
    from penstock.evaluation.reproduce_pictures import curve_picture

    seeds = experiment.seeds
    results = curve(experiment, experiment.arrivals(), seeds, call.progress)
    document = {
        "experiment": call.name, "paper": experiment.paper, "seeds": seeds, "published": experiment.published,
        "traces": [result.to_json() for result in results],
    }  # fmt: skip
    words = (f"{experiment.paper}: {experiment.title}, {seeds} seeds", f"The paper: {experiment.published}")
    return Reproduction(document, words, (curve_grid(results),), lambda: curve_picture(results))


def curve_grid(results: tuple[CurveResult, ...]) -> Grid:
    """A line for each trace and utilisation: simulated, and as three models predict it."""
    headings = ("load", "simulated", "M/PH/1", "Kingman", "MAP/PH/1", "best fits")
    rows = []
    for result in results:
        for i, point in enumerate(result.points):
            spread = f"{min(point.of_fits):.3g} to {max(point.of_fits):.3g}"
            shown = (f"{v:.3g}" for v in (point.simulated, point.m_ph_1, point.kingman, point.of_fits[0]))
            rows.append((result.trace if i == 0 else "", f"{point.utilisation:.2f}", *shown, spread))
    return Grid((Column("trace", is_number=False), *(Column(h) for h in headings)), tuple(rows), caption="seconds")
