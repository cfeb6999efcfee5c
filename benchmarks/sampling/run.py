# SPDX-License-Identifier: Apache-2.0
"""Seconds for a million inter-arrival times of a MAP on one core, beside drawing every jump in turn the usual way."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, dataclass

import numpy as np

from penstock.markov import MAP

BAR_SECONDS = 1.0
BAR_STATES = 16
STATES = (2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class Result:
    """One measured process; the seconds are of processor time, per million intervals."""

    states: int
    hidden_jumps: bool
    tables_seconds: float
    seconds_per_million: float
    jump_by_jump_seconds_per_million: float
    ratio: float
    mean_error: float
    mean_error_in_standard_errors: float
    scv_error: float
    lag_1: float
    lag_1_of_the_process: float


def process_of(states: int, hidden: bool, rng: np.random.Generator) -> MAP:
    """A dense process with rates over two orders of magnitude that stays long in each phase, so that it is bursty."""
    D1 = np.exp(rng.normal(size=(states, states)))
    D1 += np.diag(np.exp(2.0 * rng.normal(size=states)) * states * 3.0)
    D0 = np.exp(rng.normal(size=(states, states))) if hidden else np.zeros((states, states))
    np.fill_diagonal(D0, 0.0)
    np.fill_diagonal(D0, -(D0.sum(axis=1) + D1.sum(axis=1)))
    return MAP(D0, D1)


def jump_by_jump(process: MAP, size: int, rng: np.random.Generator) -> np.ndarray:
    """The textbook way: one random stay and one random jump at a time."""
    n = process.order
    rates = -process.D0.diagonal()
    jumps = np.hstack([process.D0 - np.diag(process.D0.diagonal()), process.D1])
    cumulative = np.cumsum(jumps, axis=1) / rates[:, None]
    intervals = np.empty(size)
    phase, elapsed, done = 0, 0.0, 0
    while done < size:
        elapsed += rng.standard_exponential() / rates[phase]
        jump = min(int(np.searchsorted(cumulative[phase], rng.random(), side="right")), 2 * n - 1)
        phase = jump % n
        if jump >= n:
            intervals[done] = elapsed
            elapsed, done = 0.0, done + 1
    return intervals


def measure(states: int, hidden: bool, size: int, repeats: int, seed: int) -> Result:
    """Draw `size` intervals `repeats` times, keep the quickest, and compare the last with the process."""
    rng = np.random.default_rng(seed)
    process = process_of(states, hidden, rng)
    begun = time.process_time()
    sampler = process.sampler(rng)
    tables = time.process_time() - begun
    quickest = np.inf
    for _ in range(repeats):
        begun = time.process_time()
        draws = sampler.draw(size, rng)
        quickest = min(quickest, time.process_time() - begun)
    few = max(1000, size // 50)
    begun = time.process_time()
    jump_by_jump(process, few, rng)
    usual = (time.process_time() - begun) * 1e6 / few
    centred = draws - draws.mean()
    error = float(draws.mean() / process.mean - 1.0)
    # The standard error of a mean of n correlated intervals, relative to the mean: the root of IDI(n) / n.
    standard = float(np.sqrt(process.idi(size) / size))
    own = quickest * 1e6 / size
    return Result(
        states=states,
        hidden_jumps=hidden,
        tables_seconds=tables,
        seconds_per_million=own,
        jump_by_jump_seconds_per_million=usual,
        ratio=usual / own,
        mean_error=error,
        mean_error_in_standard_errors=error / standard,
        scv_error=float(draws.var() / draws.mean() ** 2 / process.scv - 1.0),
        lag_1=float(centred[1:] @ centred[:-1] / (centred @ centred)),
        lag_1_of_the_process=float(process.autocorrelation(1)),
    )


def main() -> int:
    """Measure all orders and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1_000_000, help="intervals a draw")
    parser.add_argument("--repeats", type=int, default=3, help="draws, of which the quickest counts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    arguments = parser.parse_args()
    results = [
        measure(states, hidden, arguments.size, arguments.repeats, arguments.seed)
        for hidden in (False, True)
        for states in STATES
    ]
    judged = [r.seconds_per_million + r.tables_seconds for r in results if r.states == BAR_STATES]
    is_met = max(judged) < BAR_SECONDS
    if arguments.json:
        print(json.dumps({"results": [asdict(r) for r in results], "bar_seconds": BAR_SECONDS, "is_met": is_met}))
        return 0 if is_met else 1
    print(f"{'states':>6} {'hidden':>6} {'tables s':>9} {'s/million':>9} {'usual':>7} {'ratio':>6} "
          f"{'mean err':>9} {'(s.e.)':>7} {'scv err':>9} {'lag 1':>8} {'process':>8}")  # fmt: skip
    for r in results:
        print(f"{r.states:>6} {'yes' if r.hidden_jumps else 'no':>6} {r.tables_seconds:>9.4f} "
              f"{r.seconds_per_million:>9.3f} {r.jump_by_jump_seconds_per_million:>7.2f} {r.ratio:>6.1f} "
              f"{r.mean_error:>+9.2%} {r.mean_error_in_standard_errors:>+7.2f} {r.scv_error:>+9.2%} "
              f"{r.lag_1:>8.4f} {r.lag_1_of_the_process:>8.4f}")  # fmt: skip
    verdict = "met" if is_met else "NOT met"
    print(
        f"bar: a million intervals of a MAP({BAR_STATES}) in under {BAR_SECONDS:g} s: {verdict} ({max(judged):.3f} s)"
    )
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
