# SPDX-License-Identifier: Apache-2.0
"""How fast and how well arrival processes are fitted: time, descriptors, and the queue they predict.

The replay that fits are judged by here has service times of its own, not those the fit has seen.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one core, as the bar says; before numpy is loaded

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a file: `benchmarks` is not installed

from benchmarks.fit.traces import KNOWN, REAL, data_folder

from penstock.markov import MAP
from penstock.workload import FitResult, fit_maps, predicted_responses, replay

FloatArray = npt.NDArray[np.float64]

LOADS = (0.5, 0.8)
WINDOW = 50_000
LENGTHS = (10_000, 50_000, 250_000, 1_000_000)
STATES = (2, 4, 8, 16, 32)


@dataclass(frozen=True)
class Quality:
    """One window fitted: seconds of a core, and the errors of what came out."""

    trace: str
    max_states: int
    cold_cpu_seconds: float
    cold_seconds: float
    warm_cpu_seconds: dict[str, float]
    states: int
    maps: int
    m2: float
    m3: float
    scv: float
    acf_rmse: float
    queue_errors: list[float]
    true_map_errors: list[float] | None
    worst_factor_of_all: float

    @property
    def meets_bars(self) -> bool:
        """Whether every bar on quality is met."""
        limit = [0.15] * len(LOADS)
        if self.true_map_errors is not None:
            limit = [max(0.15, abs(error) + 0.05) for error in self.true_map_errors]
        return (
            max(abs(self.m2), abs(self.m3)) <= 0.01
            and abs(self.scv) <= 0.02
            and self.acf_rmse <= 0.02
            and all(abs(error) <= most for error, most in zip(self.queue_errors, limit, strict=True))
            and self.worst_factor_of_all <= 2.0
        )


def timed(work: Callable[[], FitResult], repeats: int) -> tuple[FitResult, float, float]:
    """The result, and the least CPU and wall seconds of a few runs."""
    cpu, wall = [], []
    for _ in range(repeats):
        begun, begun_cpu = time.perf_counter(), time.process_time()
        result = work()
        wall.append(time.perf_counter() - begun)
        cpu.append(time.process_time() - begun_cpu)
    return result, min(cpu), min(wall)


def measure(name: str, stream: FloatArray, truth: MAP | None, max_states: int, repeats: int) -> Quality:
    """Fit the first window cold, later ones warm (a hundredth and a tenth further on), and judge the first."""
    window = stream[:WINDOW]
    fit, cold_cpu, cold = timed(lambda: fit_maps(window, max_states=max_states), repeats)
    warm_cpu = {}
    for share in (100, 10):
        later = stream[WINDOW // share : WINDOW + WINDOW // share]
        again, cpu, _ = timed(lambda later=later: fit_maps(later, max_states=max_states, warm=fit), repeats)  # type: ignore[misc]
        warm_cpu[f"{100 // share} %" + ("" if again.is_warm else " (anew)")] = cpu
    queue = replay(window, np.random.default_rng(20_260), LOADS, times=20)

    def errors(process: MAP) -> list[float]:
        return [float(ratio) - 1.0 for ratio in predicted_responses(process, LOADS) / queue.responses]

    best = fit.maps[0]
    every = [abs(np.log1p(error)) for fitted in fit.maps for error in errors(fitted.map)]
    return Quality(
        trace=name,
        max_states=max_states,
        cold_cpu_seconds=cold_cpu,
        cold_seconds=cold,
        warm_cpu_seconds=warm_cpu,
        states=best.states,
        maps=len(fit.maps),
        m2=best.errors["m2"] or 0.0,
        m3=best.errors["m3"] or 0.0,
        scv=best.errors["scv"] or 0.0,
        acf_rmse=best.errors["acf_rmse"] or 0.0,
        queue_errors=errors(best.map),
        true_map_errors=None if truth is None else errors(truth),
        worst_factor_of_all=float(np.exp(max(every))),
    )


def streams(folder: Path | None) -> dict[str, tuple[FloatArray, MAP | None]]:
    """All windows' streams, with the process they are sampled from where it is known."""
    found: dict[str, tuple[FloatArray, MAP | None]] = {}
    if folder is None:
        print("no real traces: set PENSTOCK_DATA to their folder", file=sys.stderr)
    else:
        found |= {name: (load(folder), None) for name, load in REAL.items()}
    for i, (name, process) in enumerate(KNOWN.items()):
        found[name] = (process.sample(WINDOW + WINDOW // 10, np.random.default_rng(i)), process)
    return found


def curve(stream: FloatArray, repeats: int) -> list[dict[str, float]]:
    """Seconds over window length and over the states allowed."""
    rows = []
    for length in LENGTHS:
        if length <= 1.01 * stream.size:
            window = stream[:length]
            fit, cpu, _ = timed(lambda window=window: fit_maps(window), repeats)  # type: ignore[misc]
            rows.append({"length": len(window), "max_states": 16, "cpu_seconds": cpu, "loss": fit.maps[0].loss})
    for states in STATES:
        fit, cpu, _ = timed(lambda states=states: fit_maps(stream[:WINDOW], max_states=states), repeats)  # type: ignore[misc]
        rows.append({"length": WINDOW, "max_states": states, "cpu_seconds": cpu, "loss": fit.maps[0].loss})
    return rows


def show(qualities: list[Quality], rows: dict[str, list[dict[str, float]]]) -> None:
    """Print the tables of README.md."""
    print("| trace | max states | cold s | warm s, window moved by | states | m2 | m3 | SCV | ACF RMSE | queue 0.5 "
          "| queue 0.8 | true MAP 0.5 | 0.8 | worst of best | bars |")  # fmt: skip
    print("|---|" + "---:|" * 13 + "---|")
    for q in qualities:
        warm = ", ".join(f"{moved}: {cpu:.2f}" for moved, cpu in q.warm_cpu_seconds.items())
        truth = ["-", "-"] if q.true_map_errors is None else [f"{100 * e:+.1f} %" for e in q.true_map_errors]
        cells = [
            q.trace, str(q.max_states), f"{q.cold_cpu_seconds:.2f}", warm, str(q.states),
            f"{100 * q.m2:+.2f} %", f"{100 * q.m3:+.2f} %", f"{100 * q.scv:+.2f} %", f"{q.acf_rmse:.4f}",
            *(f"{100 * e:+.1f} %" for e in q.queue_errors), *truth,
            f"x{q.worst_factor_of_all:.2f} of {q.maps}", "met" if q.meets_bars else "NOT met",
        ]  # fmt: skip
        print("| " + " | ".join(cells) + " |")
    for name, points in rows.items():
        print(f"\n{name}: CPU seconds of a cold fit\n")
        print("| window | max states | CPU s | loss of the best |\n|---:|---:|---:|---:|")
        for row in points:
            print(f"| {row['length']:.0f} | {row['max_states']:.0f} | {row['cpu_seconds']:.2f} | {row['loss']:.2f} |")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument("--repeats", type=int, default=3, help="runs of which the fastest counts")
    parser.add_argument("--no-curve", action="store_true", help="leave out the cost over length and states")
    arguments = parser.parse_args()
    found = streams(data_folder())
    qualities = [measure(name, *pair, 16, arguments.repeats) for name, pair in found.items()]
    if "cloudphysics-io" in found:
        qualities.append(measure("cloudphysics-io", *found["cloudphysics-io"], 32, arguments.repeats))
    rows: dict[str, list[dict[str, float]]] = {}
    if not arguments.no_curve:
        long = KNOWN["MAP(8)"].sample(1_000_000, np.random.default_rng(9))
        rows["MAP(8)"] = curve(long, arguments.repeats)
        for name in ("bc-paug89", "google-2011 submits"):
            if name in found:
                rows[name] = curve(found[name][0], arguments.repeats)
    if arguments.json:
        print(json.dumps({"quality": [asdict(q) | {"meets_bars": q.meets_bars} for q in qualities], "curve": rows}))
    else:
        show(qualities, rows)


if __name__ == "__main__":
    main()
