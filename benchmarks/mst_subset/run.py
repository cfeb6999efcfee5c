# SPDX-License-Identifier: Apache-2.0
"""How fast the best sizes to measure are found: all sets at once, beside a plain loop over scipy's fits."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one core; before numpy is loaded
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
from scipy.optimize import nnls

from penstock.performance.sample_sizes import BenchmarkSamples, search_all
from penstock.performance.sample_sizes.subset_scores import (
    RIDGE,
    scales_of,
    score_subsets,
    throughput_terms,
    time_terms,
)
from penstock.ports import FloatArray
from penstock.records import Allocation, ThroughputSample

SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64, 80, 96, 128)
"""Of Eq. 9; sets are chosen from those up to 32."""
LARGEST, NUMBERS, REPEATS, NOISE = 32, (3, 4, 5), 6, 0.05
CURVES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "saturates": lambda m: 1.0 / (0.010 + 1.2 / m),
    "linear": lambda m: m / (1.0 + 0.004 * m),
    "peaks": lambda m: 0.3 + 0.5 * m - 0.0012 * m**2,
}
BARS = {"seconds": 5.0, "ratio": 20.0}


def made_samples(seed: int = 0) -> dict[str, FloatArray]:
    """For each application a row of measurements for each size."""
    generator, sizes = np.random.default_rng(seed), np.array(SIZES, dtype=np.float64)
    noise = 1.0 + NOISE * generator.standard_normal((len(CURVES), len(SIZES), REPEATS))
    return {name: curve(sizes)[:, None] * noise[i] for i, (name, curve) in enumerate(CURVES.items())}


def as_records(samples: dict[str, FloatArray]) -> dict[str, list[ThroughputSample]]:
    """The same as Penstock's records."""
    return {
        name: [
            ThroughputSample(Allocation(size), float(value))
            for size, row in zip(SIZES, values, strict=True)
            for value in row
        ]
        for name, values in samples.items()
    }


def plain_peak(weights: FloatArray, is_time: bool) -> float:
    """Where a model's throughput is highest."""
    if not is_time:
        return float(weights[1] / (2.0 * weights[2])) if weights[2] > 0.0 else np.inf
    if weights[3] > 0.0:
        roots = np.roots([2.0 * weights[3], weights[2], 0.0, -weights[1]])
        return float(roots[np.isreal(roots) & (roots.real >= 0.0)].real.max())
    return float(np.sqrt(weights[1] / weights[2])) if weights[2] > 0.0 else np.inf


def plain_error(samples: dict[str, FloatArray], chosen: Sequence[int]) -> float:
    """Eq. 8 of one set of places, as it is written down: a fit by scipy for each application and each model."""
    sizes = np.array(SIZES, dtype=np.float64)
    others = [i for i in range(len(SIZES)) if i not in chosen]
    squares, count = 0.0, 0
    for values in samples.values():
        shares = values / values.max()
        for terms, is_time in ((time_terms(sizes), True), (throughput_terms(sizes), False)):
            scaled = (terms / scales_of(terms)[:, None]).T
            rows = np.repeat(scaled[list(chosen)], REPEATS, axis=0)
            goal = shares[list(chosen)].ravel()
            rows = np.vstack([rows, np.sqrt(RIDGE) * np.eye(rows.shape[1])])
            goal = np.concatenate([1.0 / goal if is_time else goal, np.zeros(rows.shape[1])])
            weights, _ = nnls(rows, goal)
            weights /= scales_of(terms)
            at = np.minimum(sizes[others], plain_peak(weights, is_time))  # after its peak a prediction stays there
            reached = weights @ (time_terms(at) if is_time else throughput_terms(at))
            predicted = 1.0 / reached if is_time else reached
            squares += float(((shares[others] - predicted[:, None]) ** 2).sum())
            count += len(others) * REPEATS
    return float(np.sqrt(squares / count))


def main() -> None:
    """Run both and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--sets", type=int, default=0, help="time the plain loop on so many sets, and extrapolate; 0: on all"
    )
    parser.add_argument("--repeats", type=int, default=7, help="runs of the search; the median counts")
    arguments = parser.parse_args()
    samples = made_samples()
    taken = []
    for _ in range(arguments.repeats):
        begun = time.perf_counter()
        search = search_all(BenchmarkSamples.of(as_records(samples)), NUMBERS, LARGEST)
        taken.append(time.perf_counter() - begun)
    ours = statistics.median(taken)

    places = [i for i, size in enumerate(SIZES) if size <= LARGEST]
    every = [chosen for number in NUMBERS for chosen in combinations(places, number)]
    drawn = np.random.default_rng(1).permutation(len(every))
    some = every if not arguments.sets else [every[i] for i in drawn[: arguments.sets]]
    begun = time.perf_counter()
    errors = [plain_error(samples, chosen) for chosen in some]
    plain = (time.perf_counter() - begun) * len(every) / len(some)

    best = search.best[0]
    benchmark = BenchmarkSamples.of(as_records(samples))
    same = [float(score_subsets(benchmark, np.array([chosen]))[0]) for chosen in some]
    apart = max(abs(a - b) for a, b in zip(errors, same, strict=True))
    result = {
        "sets": len(every), "applications": len(CURVES), "models": 2, "samples_per_size": REPEATS,
        "seconds": ours, "plain_loop_seconds": plain, "plain_loop_sets_timed": len(some),
        "plain_loop_is_extrapolated": len(some) < len(every), "ratio": plain / ours,
        "best": {"sizes": best.sizes, "error": best.error},
        "best_by_plain_loop": plain_error(samples, [SIZES.index(size) for size in best.sizes]),
        "no_better_set_in_plain_loop": min(errors) >= best.error - 1e-6,
        "largest_difference_of_errors": apart,
        "is_within_bars": ours <= BARS["seconds"] and plain / ours >= BARS["ratio"],
    }  # fmt: skip
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
