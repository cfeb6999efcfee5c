# SPDX-License-Identifier: Apache-2.0
"""How fast MAP/PH/1 queues are solved: one call, a hundred queues in one call, and the cost over the order."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one core, as the bar says; before numpy is loaded
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from penstock.markov import MAP, PH, superpose
from penstock.performance.queueing.departure_process import departure_process
from penstock.performance.queueing.single_server import SingleServer, solve_many, solve_map_ph_1

ORDERS = (1, 2, 4, 8, 16, 32, 64)

PEERS = {
    "BuTools": {16: (1.7, 4.0), 64: (22.0, 88.0)},
    "LINE": {16: (70.0, 100.0)},
    "Q-MAM, at the lowest and highest load": {16: (46.0, 869.0)},
    "MEAD (as published)": {16: (200.0, 2500.0)},
}
"""Milliseconds for mean and 95th percentile of MAP/E2/1 by order, measured once; they are not run again here.

Of Q-MAM the two figures are the same call at two loads."""

BARS = {"mean": 1.0, "p95": 3.0, "hundred": 100.0}
"""Milliseconds for order 16."""


def bursty(order: int, seed: int = 0) -> MAP:
    """A superposition of on-off streams from fast to slow, of rate 1; `order` is a power of two."""
    rng = np.random.default_rng(seed)
    if order == 1:
        return MAP.poisson(1.0)
    parts = []
    for _ in range(int(math.log2(order))):
        q = 10.0 ** rng.uniform(-2.0, 0.0)
        parts.append(MAP.mmpp([[-q, q], [2.0 * q, -2.0 * q]], [0.2, rng.uniform(1.0, 4.0)]))
    return superpose(*parts).with_rate(1.0)


@dataclass(frozen=True)
class Taken:
    """Medians in milliseconds: on the clock, and of the processor, which other programs do not lengthen."""

    wall_ms: float
    cpu_ms: float


def taken(prepare: Callable[[], Any], call: Callable[[Any], Any], repeats: int) -> Taken:
    """Time of the call alone; what it works on is made afresh each time, so that nothing is remembered."""
    wall, cpu = [], []
    for _ in range(repeats):
        given = prepare()
        begun, used = time.perf_counter(), time.process_time()
        call(given)
        cpu.append(time.process_time() - used)
        wall.append(time.perf_counter() - begun)
    return Taken(1e3 * statistics.median(wall), 1e3 * statistics.median(cpu))


def fresh(process: MAP) -> MAP:
    """The same process, knowing its rate, as whoever has fitted it does, and nothing else."""
    made = MAP(process.D0, process.D1)
    assert made.rate > 0.0
    return made


def single(order: int, load: float, repeats: int) -> dict[str, Taken]:
    """Time for mean and for 95th percentile of one queue, each from the start, and for its departures."""
    process = bursty(order)

    def prepare() -> tuple[MAP, PH]:
        return fresh(process), PH.erlang(2, mean=load)

    return {
        "mean": taken(prepare, lambda given: solve_map_ph_1(*given).mean, repeats),
        "p95": taken(prepare, lambda given: solve_map_ph_1(*given).percentile(0.95), repeats),
        "departures": taken(prepare, lambda given: departure_process(*given), max(repeats // 4, 3)),
    }


def hundred(order: int, repeats: int) -> Taken:
    """Time for mean and 95th percentile of 10 processes with 10 allocations."""
    processes = [bursty(order, seed) for seed in range(10)]

    def prepare() -> tuple[list[MAP], list[PH]]:
        return [fresh(process) for process in processes], [PH.erlang(2, mean=m) for m in np.linspace(0.4, 0.95, 10)]

    return taken(prepare, lambda given: solve_many(given[0], given[1], [0.95]), repeats)


def simulation(count: int, order: int, load: float) -> dict[str, Any]:
    """Mean and 95th percentile beside a simulation of `count` records, with its 99 % interval over 50 parts."""
    process, service = bursty(order), PH.erlang(2, mean=load)
    rng = np.random.default_rng(1)
    gaps, times = process.sample(count, rng), rng.gamma(2.0, load / 2.0, count)
    walk = np.concatenate([[0.0], np.cumsum(times[:-1] - gaps[1:])])
    parts = (walk - np.minimum.accumulate(walk) + times)[: count - count % 50].reshape(50, -1)
    queue = solve_map_ph_1(process, service)
    assert isinstance(queue, SingleServer)
    result: dict[str, Any] = {"records": count, "order": order, "load": load}
    for name, exact, values in (
        ("mean", queue.mean, parts.mean(axis=1)),
        ("p95", queue.percentile(0.95), np.quantile(parts, 0.95, axis=1)),
    ):
        middle, half = float(values.mean()), 2.68 * float(values.std(ddof=1)) / math.sqrt(50)
        result[name] = {"solved": exact, "simulated": middle, "half_width": half, "off": exact / middle - 1.0}
    return result


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=200, help="calls of which the median is given")
    parser.add_argument("--load", type=float, default=0.8, help="utilisation of the single queues")
    parser.add_argument("--records", type=int, default=0, help="records to simulate beside the solution; 0 for none")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
    arguments = parser.parse_args()
    single(2, arguments.load, 50)  # not counted: what is measured first would pay for waking the processor up
    curve = {order: single(order, arguments.load, max(arguments.repeats // max(order // 8, 1), 5)) for order in ORDERS}
    measured = {
        "mean": curve[16]["mean"],
        "p95": curve[16]["p95"],
        "hundred": hundred(16, max(arguments.repeats // 20, 3)),
    }
    document: dict[str, Any] = {
        "queue": "MAP(n)/Erlang-2/1",
        "load": arguments.load,
        "free_cores": max(0.0, round((os.cpu_count() or 1) - os.getloadavg()[0], 1)),
        "measured": {name: asdict(value) for name, value in measured.items()},
        "bars_ms": BARS,
        "meets": {
            name: {"wall": measured[name].wall_ms < bar, "cpu": measured[name].cpu_ms < bar}
            for name, bar in BARS.items()
        },
        "by_order": {order: {name: asdict(value) for name, value in row.items()} for order, row in curve.items()},
        "others_mean_and_p95_ms": PEERS,
    }
    if arguments.records:
        document["simulation"] = [simulation(arguments.records, 16, load) for load in (0.3, 0.7, 0.9)]
    if arguments.json:
        print(json.dumps(document))
        return 0
    print(f"{document['queue']} at load {arguments.load}, one core, medians; free cores: {document['free_cores']}")
    for name, bar in BARS.items():
        value = measured[name]
        met = "met" if value.wall_ms < bar else "met by processor time alone" if value.cpu_ms < bar else "missed"
        print(f"  {name:8} {value.wall_ms:8.2f} ms, processor {value.cpu_ms:8.2f} ms   bar {bar:g} ms: {met}")
    print("  milliseconds of the processor (and on the clock)")
    print("  order              mean               p95        departures")
    for order, row in curve.items():
        cells = "".join(f"{value.cpu_ms:9.2f} ({value.wall_ms:7.2f})" for value in row.values())
        print(f"  {order:5d} {cells}")
    for name, figures in PEERS.items():
        for order, (mean, p95) in figures.items():
            print(f"  {order:5d} {mean:9.2f} {p95:18.2f}             {name}, measured once, not run here")
    for row in document.get("simulation", []):
        for name in ("mean", "p95"):
            v = row[name]
            print(
                f"  load {row['load']}: {name:4} solved {v['solved']:.5g}, "
                f"simulated {v['simulated']:.5g} +- {v['half_width']:.2g}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
