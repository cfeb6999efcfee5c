# SPDX-License-Identifier: Apache-2.0
"""What windows drawn at random say about the next ones, by what `mead` ships and by other predictors.

Nothing is fitted, so that many windows can be looked at.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy is loaded

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a file: `benchmarks` is not installed

from benchmarks.fit.next_window import NextWindow, judge_next, median_errors
from benchmarks.fit.traces import FILES, data_folder, open_trace

_BEFORE = 7
_FAR = float(np.log(1.25))


def drawn(folder: Path, trace: str, count: int, seed: int, most: int) -> list[NextWindow]:
    """Judge so many windows of a trace; of a trace shorter than three windows, they are a third of it."""
    gaps = open_trace(folder, trace)
    size = min(most, gaps.total // 3)
    judged = []
    for end in np.random.default_rng([seed, len(trace)]).integers(size, gaps.total - size + 1, size=count).tolist():
        before = [np.asarray(gaps.window(end - (k + 1) * size, end - k * size)) for k in range(_BEFORE + 1)
                  if end >= (k + 1) * size]  # fmt: skip
        following = np.asarray(gaps.window(end, end + size))
        if all(one.any() for one in (*before, following)):
            judged.append(judge_next(trace, before[0], following, before=before[1:]))
    return [one for one in judged if one.ratios[next(iter(one.ratios))].size]


def main() -> int:
    """Print a table: medians by trace and over all, and how often each is far too low or far too high."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=30, help="windows of each trace")
    parser.add_argument("--size", type=int, default=50_000, help="most arrivals of a window")
    parser.add_argument("--seed", type=int, default=3, help="seed of the draw")
    arguments = parser.parse_args()
    folder = data_folder()
    if folder is None:
        print("no real traces: set PENSTOCK_DATA to their folder", file=sys.stderr)
        return 1
    judged = {trace: drawn(folder, trace, arguments.count, arguments.seed, arguments.size) for trace in FILES}
    every = [one for windows in judged.values() for one in windows]
    print("| predictor | " + " | ".join(judged) + " | all | better, worse than the replay | 25 % too low, too high |")
    print("|---|" + "---:|" * (len(judged) + 3))
    medians = {trace: median_errors(windows) for trace, windows in judged.items()}
    total = median_errors(every)
    naive = np.array([np.median(one.errors["replay of the old window"]) for one in every])
    for who in total:
        own = np.array([np.median(one.errors[who]) for one in every])
        ratios = np.concatenate([one.ratios[who] for one in every])
        cells = [f"{np.exp(of[who]):.3f}" for of in (*medians.values(), total)]
        cells += [f"{(own < naive - 1e-9).sum()}, {(own > naive + 1e-9).sum()} of {own.size}"]
        cells += [f"{100 * np.mean(ratios < -_FAR):.1f} %, {100 * np.mean(ratios > _FAR):.1f} %"]
        print(f"| {who} | " + " | ".join(cells) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
