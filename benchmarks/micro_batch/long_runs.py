# SPDX-License-Identifier: Apache-2.0
"""Simulations long enough to decide a bar of 5 % on bursty arrivals close to saturation, and how they are made so.

One run goes on over many segments; a segment's means are taken as independent of the next one's. What makes them vary
is mostly how many bursts happened to come. Two things tell that, and their expectations are known: the time that the
segment's records took to arrive, and the queue in which the same records are served one by one (Erlang-4 times, the
same load), which MAP/PH/1 solves exactly. They are control variates (Lavenberg and Welch, "A perspective on the use
of control variables to increase the efficiency of Monte Carlo simulations", Management Science 27, 1981): what the
segments' means have to do with them is regressed out.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy.stats import t as student

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a file: `benchmarks` is not installed

from benchmarks.micro_batch.cases import LOADS, RATE, processes, servers
from benchmarks.micro_batch.simulate import FloatArray, MicroBatchRun

from penstock.markov import MAP, PH
from penstock.performance.queueing.single_server import solve_map_ph_1

STAGES = 4
SHARES = (0.8, 0.95)
"""Percentiles of the queue of single records that are controls too."""
BINS = 400
"""Bins of latency for each factor of ten: 0.6 % wide, and percentiles are interpolated within."""
DECADES = 9


@dataclass(frozen=True)
class Estimate:
    """One queue as simulated: half-widths are of 95 % intervals; `plain_` ones are without control variates."""

    process: str
    server: str
    load: float
    batch: float
    records: float
    scv: float
    mean: float
    mean_interval: float
    p95: float
    p95_interval: float
    plain_mean: float
    plain_mean_interval: float


class _Singles:
    """The same records served one by one, segment after segment: Lindley's recursion, all at once."""

    def __init__(self, process: MAP, load: float, rng: np.random.Generator) -> None:
        self._mean, self._rng = load / RATE, rng
        self._free = 0.0
        answer = solve_map_ph_1(process.with_rate(RATE), PH.erlang(STAGES, mean=self._mean))
        self._limits = answer.percentiles(SHARES)
        self.expected = np.array([answer.mean, *(1.0 - share for share in SHARES)])

    def feed(self, arrivals: FloatArray) -> FloatArray:
        """Give the mean sojourn and the shares beyond known percentiles."""
        work = np.cumsum(self._rng.standard_gamma(STAGES, len(arrivals)) * (self._mean / STAGES))
        begun = np.concatenate([[0.0], work[:-1]])
        ends = work + np.maximum(np.maximum.accumulate(arrivals - begun), self._free)
        self._free = float(ends[-1])
        sojourn = ends - arrivals
        return np.array([sojourn.mean(), *((sojourn > limit).mean() for limit in self._limits)])


class _Queue:
    """One server, fed segment by segment: means and histograms of latency."""

    def __init__(self, run: MicroBatchRun, unit: float) -> None:
        self._run, self._unit = run, unit
        self.means: list[float] = []
        self.histograms: list[FloatArray] = []

    def feed(self, arrivals: FloatArray) -> None:
        latencies = self._run.feed(arrivals, is_last=False).latencies
        self.means.append(float(latencies.mean()))
        place = np.log10(latencies / self._unit) * BINS
        place = np.clip(place, 0, DECADES * BINS - 1).astype(np.int64)
        self.histograms.append(np.bincount(place, minlength=DECADES * BINS) / len(latencies))

    def percentile(self, p: float, controls: FloatArray | None) -> tuple[float, float]:
        """Give a percentile and half its interval, from the shares below every edge, each with its controls."""
        below = np.cumsum(np.array(self.histograms), axis=1)
        edges = self._unit * 10.0 ** (np.arange(1, DECADES * BINS + 1) / BINS)
        raw = below.mean(axis=0)
        near = np.flatnonzero((raw > p - 0.04) & (raw < p + 0.04 * (1 - p) / 0.05))
        near = np.arange(near[0] - 1, near[-1] + 2)
        found = [controlled(below[:, k], controls) for k in near]
        shares = np.maximum.accumulate([share for share, _ in found])
        at = float(np.interp(p, shares, edges[near]))
        k = int(np.clip(np.searchsorted(shares, p), 4, len(near) - 5))
        density = (shares[k + 4] - shares[k - 4]) / (edges[near[k + 4]] - edges[near[k - 4]])
        return at, float(found[k][1] / density)


def controlled(values: FloatArray, controls: FloatArray | None) -> tuple[float, float]:
    """Give a mean and half its 95 % interval, what has to do with controls (of expectation zero) regressed out."""
    count = len(values)
    if controls is None:
        return float(values.mean()), float(student.ppf(0.975, count - 1) * values.std(ddof=1) / math.sqrt(count))
    design = np.column_stack([np.ones(count), controls])
    solution, *_ = np.linalg.lstsq(design, values, rcond=None)
    free = count - design.shape[1]
    variance = float(((values - design @ solution) ** 2).sum() / free)
    scale = float(np.linalg.pinv(design.T @ design)[0, 0])
    return float(solution[0]), float(student.ppf(0.975, free) * math.sqrt(variance * scale))


def long_run(
    name: str, process: MAP, load: float, *, batch: float, segments: int, records: int, seed: int
) -> Iterator[Estimate]:
    """Simulate a process with every server at a load."""
    rng = np.random.default_rng([seed, round(1000 * load)])
    sampler = process.sampler(rng)
    singles = _Singles(process, load, rng)
    queues = {
        kind: _Queue(
            MicroBatchRun(
                one.fixed, one.per_record, rng, cap=one.cap, trigger=one.trigger, fixed_scv=one.fixed_scv,
                per_record_scv=one.per_record_scv,
            ), (one.fixed + one.per_record) / 100,
        )
        for kind, one in servers(load, batch).items()
    }  # fmt: skip
    now, told = 0.0, []
    for segment in range(segments + 1):
        arrivals = now + np.cumsum(sampler.draw(records, rng)) / RATE
        control = np.array([(arrivals[-1] - now) * RATE / records - 1.0, *(singles.feed(arrivals) - singles.expected)])
        now = float(arrivals[-1])
        for queue in queues.values():
            queue.feed(arrivals)
        if segment == 0:  # from an empty queue to a usual one: not counted
            for queue in queues.values():
                queue.means.clear()
                queue.histograms.clear()
        else:
            told.append(control)
    controls = np.array(told)
    controls = controls / np.maximum(np.abs(controls).max(axis=0), 1e-300)
    for kind, queue in queues.items():
        mean, mean_interval = controlled(np.array(queue.means), controls)
        plain, plain_interval = controlled(np.array(queue.means), None)
        p95, p95_interval = queue.percentile(0.95, controls)
        yield Estimate(
            name, kind, load, batch, float(segments * records), process.scv, mean, mean_interval, p95, p95_interval,
            plain, plain_interval,
        )  # fmt: skip


def main() -> None:
    """Simulate, and write one line of JSON for every queue."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True, help="lines are added to this file")
    parser.add_argument("--records", type=float, default=2e6, help="of a segment")
    parser.add_argument("--segments", type=int, default=100)
    parser.add_argument("--batch", type=float, default=50.0, help="records that arrive in the fixed time of a batch")
    parser.add_argument("--loads", default=",".join(str(load) for load in LOADS))
    parser.add_argument("--only", help="processes, by their names in the table, with commas between")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    wanted = options.only.split(",") if options.only else None
    for name, process in processes(real=True).items():
        if wanted is not None and name not in wanted:
            continue
        for load in (float(value) for value in options.loads.split(",")):
            for row in long_run(
                name, process, load, batch=options.batch, segments=options.segments, records=int(options.records),
                seed=options.seed,
            ):  # fmt: skip
                with options.output.open("a") as file:
                    file.write(json.dumps(asdict(row)) + "\n")


if __name__ == "__main__":
    main()
