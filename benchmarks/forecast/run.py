# SPDX-License-Identifier: Apache-2.0
"""What forecasts cost for many series, and what they are worth on generated and real ones.

    python benchmarks/forecast/run.py [--json] [--series 1000] [--no-grades] [--only NAME] [--seed 0] [--peer]

`--peer` fits statsmodels' AutoReg to the same readings, if it is installed.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one core; before numpy is loaded

import argparse
import json
import pickle
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a file: `benchmarks` is not installed

from benchmarks.fit.traces import data_folder
from benchmarks.forecast.series import FloatArray, Series, generated, real

from penstock.evaluation.forecast_backtest import backtest
from penstock.workload.forecast import METHODS, Forecaster

HORIZON_SECONDS = 120.0
WARM, MEASURED = 9000, 600
PEER_LAGS, PEER_NEWEST, PEER_EVERY = 16, 1024, 64


def cost(count: int) -> dict[str, float]:
    """Return the cost of `count` series with a reading a second: readings come, and one forecast is asked of each.

    A few forecasters are warmed until their history is full; the others are copies of them, whose turns to refit differ
    by when they were copied.
    """
    rng = np.random.default_rng(1)
    kinds = [series.readings for series in generated()]
    warm = []
    for number, readings in enumerate(kinds):
        forecaster = Forecaster(1.0, [HORIZON_SECONDS], least=0.0, turn=number)
        for value in np.resize(readings, WARM).tolist():
            forecaster.update(value)
        warm.append(forecaster)
    size = float(np.mean([len(pickle.dumps(forecaster)) for forecaster in warm]))
    many, rows = [], []
    for number in range(count):
        copy: Forecaster = pickle.loads(pickle.dumps(warm[number % len(warm)]))
        ahead = int(rng.integers(0, 640))
        further = np.resize(kinds[number % len(warm)], WARM + ahead + MEASURED)[WARM:].tolist()
        for value in further[:ahead]:
            copy.update(value)
        many.append(copy)
        rows.append(further[ahead:])
    values = list(zip(*rows, strict=True))
    update, ask, passes = 0.0, 0.0, []
    for row in values:
        begun = time.process_time()
        for forecaster, value in zip(many, row, strict=True):
            forecaster.update(value)
        taken = time.process_time() - begun
        update += taken
        passes.append(taken)
        begun = time.process_time()
        for forecaster in many:
            forecaster.at(HORIZON_SECONDS)
        ask += time.process_time() - begun
    taken_in = MEASURED * count
    return {
        "series": count,
        "update_us": 1e6 * update / taken_in,
        "ask_us": 1e6 * ask / taken_in,
        "cores": (update + ask) / MEASURED,
        "longest_pass_seconds": max(passes),
        "bytes_per_series": size,
    }


def grades(found: Iterable[Series], with_peer: bool) -> list[dict[str, Any]]:
    """Return the errors of every series and horizon, relative to its mean reading."""
    rows = []
    for series in found:
        for steps in series.horizons:
            result = backtest(series.readings.tolist(), series.period_seconds, steps * series.period_seconds, least=0.0)
            answer = result.graded("answer")
            row: dict[str, Any] = {
                "series": series.name,
                "readings": len(series.readings),
                "steps": steps,
                "repeats_after": result.repeats_after_seconds and result.repeats_after_seconds / series.period_seconds,
                "answer": (answer.error or 0.0) / result.mean,
                "as now": (answer.error_as_now or 0.0) / result.mean,
                "parts": {},
                "shares": {},
                "too_low": result.too_low_share(result.each["answer"]),
                "padded_too_low": result.too_low_share(result.padded),
                "padding": None if result.mean_padding is None else result.mean_padding / result.mean,
            }
            for method in METHODS:
                graded = result.graded(method)
                row["parts"][method] = (
                    graded.error / graded.error_as_now if graded.error and graded.error_as_now else None
                )
                row["shares"][method] = graded.answered_share
            if with_peer:
                row["peer"], row["peer_fit_ms"] = peer(series.readings, steps)
            rows.append(row)
            print(f"{series.name}, {steps} ahead: done", file=sys.stderr)
    return rows


def peer(readings: FloatArray, steps: int) -> tuple[float, float]:
    """Return the error of statsmodels' AutoReg as a part of that of "as now", and the milliseconds of a fit.

    It is fitted to the newest readings every so often, and the forecast is iterated from the readings of the moment.
    """
    from statsmodels.tsa.ar_model import AutoReg  # type: ignore[import-not-found,import-untyped,unused-ignore]

    errors, as_now, fits = [], [], []
    weights = np.zeros(PEER_LAGS + 1)
    for i in range(256, len(readings) - steps):
        if i % PEER_EVERY == 0:
            begun = time.process_time()
            weights = AutoReg(readings[max(0, i + 1 - PEER_NEWEST) : i + 1], lags=PEER_LAGS).fit().params
            fits.append(time.process_time() - begun)
        lags = readings[i : i - PEER_LAGS : -1].copy()
        for _ in range(steps):
            lags = np.concatenate([[weights[0] + weights[1:] @ lags], lags[:-1]])
        errors.append(abs(float(readings[i + steps]) - max(0.0, float(lags[0]))))
        as_now.append(abs(float(readings[i + steps] - readings[i])))
    return sum(errors) / sum(as_now), 1e3 * float(np.mean(fits))


def show(found: dict[str, float], rows: list[dict[str, Any]]) -> None:
    """Print the tables of the README."""
    if found:
        show_cost(found)
    with_peer = any("peer" in row for row in rows)
    names = ["series", "readings", "ahead", "repeats after", "as now", "answer", "signature", "AR", "Markov",
             *(["statsmodels AR"] if with_peer else []), "as now / signature / AR / Markov answered",
             "too low, padded", "padding"]  # fmt: skip
    if rows:
        print("| " + " | ".join(names) + " |\n|---|" + "---:|" * (len(names) - 1))
    for row in rows:
        parts = ["-" if row["parts"][m] is None else f"{100 * row['parts'][m]:.0f} %" for m in METHODS[1:]]
        cells = [
            row["series"], str(row["readings"]), str(row["steps"]),
            "-" if row["repeats_after"] is None else f"{row['repeats_after']:.4g}",
            _percent(row["as now"]), _percent(row["answer"]), *parts,
            *([f"{100 * row['peer']:.0f} %"] if with_peer else []),
            " / ".join(f"{100 * row['shares'][m]:.0f}" for m in METHODS),
            f"{_percent(row['too_low'])}, {_percent(row['padded_too_low'])}", _percent(row["padding"]),
        ]  # fmt: skip
        print("| " + " | ".join(cells) + " |")
    if with_peer:
        print(f"\nstatsmodels: {np.mean([row['peer_fit_ms'] for row in rows]):.1f} ms per fit")


def show_cost(found: dict[str, float]) -> None:
    """Print the cost as a sentence."""
    print(
        f"{found['series']:.0f} series: {found['update_us']:.1f} us per reading, {found['ask_us']:.1f} us per forecast,"
        f" {found['cores']:.3f} cores, longest pass {1e3 * found['longest_pass_seconds']:.0f} ms,"
        f" {found['bytes_per_series'] / 1024:.0f} KiB per series\n"
    )


def _percent(part: float | None) -> str:
    return "-" if part is None else f"{100 * part:.0f} %" if part >= 0.1 else f"{100 * part:.2g} %"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument("--series", type=int, default=1000, help="how many series share the process")
    parser.add_argument("--no-grades", action="store_true", help="measure the cost alone")
    parser.add_argument("--only", default="", help="grade only series whose names contain this, and measure no cost")
    parser.add_argument("--seed", type=int, default=0, help="seed of the generated series")
    parser.add_argument("--peer", action="store_true", help="grade statsmodels' AutoReg too")
    arguments = parser.parse_args()
    found = {} if arguments.only else cost(arguments.series)
    rows: list[dict[str, Any]] = []
    if not arguments.no_grades:
        folder = data_folder()
        if folder is None:
            print("no real traces: set PENSTOCK_DATA to their folder", file=sys.stderr)
        every = [*generated(arguments.seed), *([] if folder is None else real(folder))]
        rows = grades([series for series in every if arguments.only in series.name], arguments.peer)
    if arguments.json:
        print(json.dumps({"cost": found, "grades": rows}))
    else:
        show(found, rows)


if __name__ == "__main__":
    main()
