# SPDX-License-Identifier: Apache-2.0
"""The arrival processes and servers that the micro-batch queue is measured on."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.fit.traces import REAL, data_folder

from penstock.markov import MAP, nearest_map2, superpose
from penstock.performance.queueing.micro_batch import MicroBatch

RATE = 1000.0
LOADS = (0.3, 0.6, 0.8, 0.95)


def bursty(scv: float, gamma: float) -> MAP:
    """Give a MAP(2) of mean 1 with an SCV and a decay of its autocorrelation."""
    return nearest_map2(1.0, 1.0 + scv, 2.4 * (1.0 + scv) ** 2, gamma).process


def processes(real: bool) -> dict[str, MAP]:
    """Give the arrival processes, at one record per second."""
    found = {
        "Poisson": MAP.poisson(1.0),
        "SCV 2": bursty(2.0, 0.5),
        "SCV 4": bursty(4.0, 0.95),
        "SCV 20": bursty(20.0, 0.95),
        "MMPP(2)": MAP.mmpp([[-0.01, 0.01], [0.05, -0.05]], [1.0, 10.0]),
        "MAP(4)": superpose(bursty(4.0, 0.95), bursty(10.0, 0.9)),
    }
    folder = data_folder() if real else None
    if folder is not None:
        from penstock.workload import fit_maps

        for name, load in REAL.items():
            found[name] = fit_maps(load(folder)[:50_000], best=1).maps[0].map
    return {name: process.with_rate(1.0) for name, process in found.items()}


def servers(load: float, batch: float) -> dict[str, MicroBatch]:
    """Give the kinds of server at a load, with `batch` records arriving in the fixed time of a batch."""
    fixed, per = batch / RATE, load / RATE
    # With a cap, 60 % of the load is per record and the rest is the fixed time over a full batch.
    cap = max(1, round(batch / (0.4 * load)))
    full = fixed + 0.6 * per * cap
    constant = {
        "plain": MicroBatch(fixed, per),
        "cap": MicroBatch(fixed, 0.6 * per, cap=cap),
        "trigger": MicroBatch(fixed, per, trigger=3 * fixed),
        "cap, trigger": MicroBatch(fixed, 0.6 * per, cap=cap, trigger=0.8 * full),
    }
    varied = {
        "varied" if kind == "plain" else f"{kind}, varied": replace(server, fixed_scv=0.3, per_record_scv=1.0)
        for kind, server in constant.items()
    }
    return constant | varied
