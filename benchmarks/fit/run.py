# SPDX-License-Identifier: Apache-2.0
"""How fast and how well arrival processes are fitted: CPU time, and the queue they predict, along the whole load.

Three questions: does the best fit of a window predict the window's own queue (real traces), does it predict the queue
of the process the window was sampled from (known processes), and does it predict the next window's queue (out of
sample)? Ends with status 1 if a bar is missed.
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

from benchmarks.fit.next_window import NAIVE, SHIPPED, NextWindow, judge_next, median_errors
from benchmarks.fit.traces import KNOWN, data_folder, real_windows

from penstock.workload import FitResult, fit_maps, predicted_curve, replay

FloatArray = npt.NDArray[np.float64]

LOADS = tuple(np.round(np.arange(0.05, 0.9001, 0.025), 3).tolist())
"""Every second of them lies between the loads that a fit looks at."""

KNOWN_LOADS = (0.1, 0.22, 0.4, 0.6, 0.8, 0.9)
MEAN_BAR, PERCENTILE_BAR, COLD_BAR, WARM_BAR = 0.15, 0.25, 1.0, 0.3
WINDOW, REPLAYS, SAMPLES = 50_000, 10, 10


@dataclass(frozen=True)
class Worst:
    """The worst error along the load: of the mean and of the 95th percentile, and where."""

    mean: float
    mean_at: float
    percentile: float
    percentile_at: float


@dataclass(frozen=True)
class Row:
    """One window fitted."""

    trace: str
    n: int
    cold_cpu_seconds: float
    warm_cpu_seconds: float
    states: int
    family: str
    worst: Worst
    right_loads: float

    @property
    def is_quick(self) -> bool:
        """Whether the bars on time are met."""
        return self.cold_cpu_seconds <= COLD_BAR and self.warm_cpu_seconds <= WARM_BAR

    @property
    def is_right(self) -> bool:
        """Whether the bars on the queue are met at every load."""
        return abs(self.worst.mean) <= MEAN_BAR and abs(self.worst.percentile) <= PERCENTILE_BAR


@dataclass(frozen=True)
class KnownRow:
    """Samples of a known process: the errors of each fit against the process, beside those of the sample itself.

    Each list has one row for a sample, with the errors of the means at `loads`, then those of the percentiles.
    """

    process: str
    loads: tuple[float, ...]
    fit: list[list[float]]
    sample: list[list[float]]

    @property
    def first_right(self) -> int:
        """The earlier criterion: the mean of the first sample's fit is within its bar, or no further off."""
        pairs = list(zip(self.fit[0], self.sample[0], strict=True))[: len(self.loads)]
        return sum(abs(ours) <= max(MEAN_BAR, abs(own)) for ours, own in pairs)

    @property
    def sizes(self) -> tuple[list[float], list[float]]:
        """Root mean squares over the samples: of the fits' errors, and of the samples' own."""
        fit, sample = (np.sqrt(np.mean(np.square(errors), axis=0)).tolist() for errors in (self.fit, self.sample))
        return fit, sample

    @property
    def right(self) -> int:
        """Means and percentiles whose error over the samples is within its bar, or no larger than the samples' own."""
        bars = [bar for bar in (MEAN_BAR, PERCENTILE_BAR) for _ in self.loads]
        return sum(ours <= max(bar, own) for ours, own, bar in zip(*self.sizes, bars, strict=True))


def timed(work: Callable[[], FitResult], repeats: int) -> tuple[FitResult, float]:
    """The result, and the least CPU seconds of a few runs."""
    seconds = []
    for _ in range(repeats):
        begun = time.process_time()
        result = work()
        seconds.append(time.process_time() - begun)
    return result, min(seconds)


def measure(name: str, window: FloatArray, later: FloatArray, repeats: int) -> tuple[Row, FitResult]:
    """Fit a window cold and one that is a tenth further on from it, and judge the first along the load."""
    fit, cold = timed(lambda: fit_maps(window), repeats)
    _, warm = timed(lambda: fit_maps(later, warm=fit), repeats)
    queue = replay(window, np.random.default_rng(20_260), LOADS, times=REPLAYS)
    mean, percentile = predicted_curve(fit.maps[0].map, LOADS)
    off, off95 = mean / queue.responses - 1.0, percentile / queue.percentiles - 1.0
    i, j = int(np.argmax(np.abs(off))), int(np.argmax(np.abs(off95)))
    right = (np.abs(off) <= MEAN_BAR) & (np.abs(off95) <= PERCENTILE_BAR)
    worst = Worst(float(off[i]), LOADS[i], float(off95[j]), LOADS[j])
    best = fit.maps[0]
    return Row(name, window.size, cold, warm, best.states, best.family, worst, float(right.mean())), fit


def known(repeats: int, only: str) -> tuple[list[Row], list[KnownRow]]:
    """Fit samples of each known process; judge them by the process at fixed service times, the first by its replay."""
    rows, against = [], []
    for i, (name, process) in enumerate(KNOWN.items()):
        if only not in name:
            continue
        fits, samples = [], []
        for number in range(SAMPLES):
            stream = process.sample(WINDOW + WINDOW // 10, np.random.default_rng([i, number] if number else i))
            window = stream[:WINDOW]
            if number:
                fit = fit_maps(window)
            else:
                row, fit = measure(name, window, stream[WINDOW // 10 :], repeats)
                rows.append(row)
            # The same service times for all three: the sample's rate is not quite the process's.
            ratio = process.mean / window.mean()
            truth = np.concatenate(predicted_curve(process, KNOWN_LOADS)) * process.mean
            loads = tuple(min(load * ratio, 0.99) for load in KNOWN_LOADS)
            ours = np.concatenate(predicted_curve(fit.maps[0].map, loads)) * window.mean()
            queue = replay(window, np.random.default_rng(20_261), loads, times=REPLAYS)
            own = np.concatenate([queue.responses, queue.percentiles]) * window.mean()
            fits.append((ours / truth - 1.0).tolist())
            samples.append((own / truth - 1.0).tolist())
        against.append(KnownRow(name, KNOWN_LOADS, fits, samples))
    return rows, against


def show(rows: list[Row], against: list[KnownRow], following: list[NextWindow]) -> None:
    """Print the tables of README.md."""
    head = "window | n | cold s | warm s | states | family | mean (load) | p95 (load) | loads right | bars"
    print(f"| {head} |")
    print("|---|" + "---:|" * 4 + "---|" + "---:|" * 3 + "---|")
    for r in rows:
        missed = [word for word, met in (("queue", r.is_right), ("time", r.is_quick)) if not met]
        w = r.worst
        print(
            f"| {r.trace} | {r.n} | {r.cold_cpu_seconds:.2f} | {r.warm_cpu_seconds:.2f} | {r.states} | {r.family} "
            f"| {100 * w.mean:+.0f} % ({w.mean_at:g}) | {100 * w.percentile:+.0f} % ({w.percentile_at:g}) "
            f"| {100 * r.right_loads:.0f} % | {'missed: ' + ', '.join(missed) if missed else 'met'} |"
        )
    if against:
        print(f"\nAgainst the known process, root mean square over {SAMPLES} samples: fit (sample itself)\n")
        print("| process | | " + " | ".join(f"{load:g}" for load in KNOWN_LOADS) + " | right | first sample's mean |")
        print("|---|---|" + "---:|" * (len(KNOWN_LOADS) + 2))
        for k in against:
            pairs = [f"{100 * ours:.0f} % ({100 * own:.0f} %)" for ours, own in zip(*k.sizes, strict=True)]
            means, percentiles = pairs[: len(k.loads)], pairs[len(k.loads) :]
            right = f"{k.right} of {len(pairs)} | {k.first_right} of {len(k.loads)}"
            print(f"| {k.process} | mean | " + " | ".join(means) + f" | {right} |")
            print("| | p95 | " + " | ".join(percentiles) + " | | |")
    if following:
        print("\nThe next window: median factor off, of mean and p95\n")
        names = list(following[0].errors)
        print("| window | " + " | ".join(names) + " |\n|---|" + "---:|" * len(names))
        for n in following:
            print(f"| {n.window} | " + " | ".join(f"{np.exp(np.median(n.errors[name])):.2f}" for name in names) + " |")
        total = median_errors(following)
        print("| all | " + " | ".join(f"{np.exp(total[name]):.3f}" for name in names) + " |")


def main() -> int:
    """Measure, print, and return 1 if a bar is missed or could not be measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument("--repeats", type=int, default=3, help="runs of which the fastest counts")
    parser.add_argument(
        "--only", default="", help="measure windows alone whose name has this; no bar counts as met then"
    )
    arguments = parser.parse_args()
    rows, following, folder = [], [], data_folder()
    if folder is None:
        print("no real traces: set PENSTOCK_DATA to their folder", file=sys.stderr)
    else:
        for window in real_windows(folder, WINDOW, arguments.only):
            moved = window.iats.size // 10
            next_part = window.following[:moved] if window.following is not None else window.iats[:0]
            later = np.concatenate([window.iats[moved:], next_part])
            name = f"{window.trace}, {window.place}"
            row, fit = measure(name, window.iats, later, arguments.repeats)
            rows.append(row)
            if window.following is not None:
                following.append(judge_next(name, window.iats, window.following, fit))
    known_rows, against = known(arguments.repeats, arguments.only)
    rows += known_rows
    if arguments.json:
        document = {"windows": [asdict(r) for r in rows], "known": [asdict(k) for k in against]}
        each = {n.window: {who: errors.tolist() for who, errors in n.errors.items()} for n in following}
        print(json.dumps(document | {"next": median_errors(following), "next_windows": each}))
    else:
        show(rows, against, following)
    real = rows[: len(rows) - len(known_rows)]
    total = median_errors(following)
    naive = [total[name] for name in NAIVE if name in total]
    met = {
        "the queue of every real window, any load": all(r.is_right for r in real) if real else None,
        "known processes, mean and p95 at every load": all(k.right == 2 * len(k.loads) for k in against),
        "CPU time": all(r.is_quick for r in rows),
        "next window: below both naive predictors": total[SHIPPED] < min(naive) if naive else None,
    }
    for bar, is_met in met.items():
        print(f"{ {True: 'met', False: 'MISSED', None: 'not measured'}[is_met] }: {bar}", file=sys.stderr)
    return 0 if all(met.values()) and not arguments.only else 1


if __name__ == "__main__":
    sys.exit(main())
