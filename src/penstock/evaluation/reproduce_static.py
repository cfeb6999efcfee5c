# SPDX-License-Identifier: Apache-2.0
"""Static scaling done again: the throughput of a query with n executors, its speed-up and efficiency.

Rates, speed-up and efficiency come from `penstock.measuring`, as those of `penstock measure`. Here two operators run a
trace to its end, because their results are checked; so the rates of all batches after the warm-up count.

The bottleneck is where CPU is short: the operator that used the largest part of what it was allowed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.apps.google_cluster.check import differences, expected_results
from penstock.apps.google_cluster.results import read_results
from penstock.errors import ClusterError
from penstock.evaluation.live_experiment import StaticExperiment
from penstock.evaluation.live_run import (
    LiveRun,
    Watcher,
    done_before,
    mean_utilisation,
    part_of,
    run_live,
    settled,
    throughput,
    while_counted,
    working_folder,
)
from penstock.evaluation.reproduction import Call, Column, Grid, Reproduction
from penstock.measuring.throughput import Throughput, speed_up
from penstock.records import Observation


@dataclass(frozen=True, slots=True)
class OperatorFigures:
    """One operator of a run."""

    throughput: Throughput | None
    utilisation: float | None
    batch_seconds: float | None
    most_waiting: int | None

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "throughput": None if self.throughput is None else self.throughput.to_json(),
            "utilisation_mean": self.utilisation, "batch_seconds_mean": self.batch_seconds,
            "backlog_most": self.most_waiting,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class SizeResult:
    """One size."""

    executors: int
    operators: dict[str, OperatorFigures]
    scaled: Throughput
    load_average: float
    wrong_results: tuple[str, ...]

    def bottleneck(self) -> str | None:
        """The operator that used the largest part of its CPU; None: not measured."""
        known = {name: of.utilisation for name, of in self.operators.items() if of.utilisation is not None}
        return max(known, key=lambda name: known[name]) if known else None


def reproduce_static(experiment: StaticExperiment, call: Call) -> Reproduction:
    """Run every size, one after the other."""
    folder = working_folder(call.name)
    trace = experiment.trace.path(folder)
    expected = expected_results(trace)
    rows = experiment.trace.rows(trace)
    runs: dict[int, LiveRun] = {}
    # The fewer executors, the longer a size takes.
    shares = [1 / size / sum(1 / other for other in experiment.executors) for size in experiment.executors]
    for number, size in enumerate(experiment.executors):
        settings = experiment.settings(experiment.trace.arrivals(trace), executors=[size, size])
        watcher = None
        if call.progress is not None:
            progress = part_of(call.progress, sum(shares[:number]), shares[number])
            watcher = Watcher(experiment.scaled, rows, progress)
        run = run_live(settings, folder / f"{size}-executors", watcher)
        _check_enough(experiment, size, run)
        runs[size] = run
        if call.progress is not None:
            call.progress(sum(shares[: number + 1]))
    # All sizes are compared over the same records: those that no size did before its share was held.
    skip = experiment.warm_up_batches
    least_done = {
        name: max(done_before(_held(experiment, size, run, name), skip) for size, run in runs.items())
        for name in runs[experiment.executors[0]].history.observations
    }
    results = [_figures(experiment, size, run, expected, least_done) for size, run in runs.items()]
    return as_reproduction(experiment, call.name, results)


def _held(experiment: StaticExperiment, size: int, run: LiveRun, name: str) -> list[Observation]:
    # Before the first decision an operator has more CPU than its share: those batches would flatter the figures.
    seen = run.history.observations.get(name, ())
    return settled(seen, size if name == experiment.scaled else None, experiment.shares_of(name))


def _check_enough(experiment: StaticExperiment, size: int, run: LiveRun) -> None:
    if throughput(_held(experiment, size, run, experiment.scaled), experiment.warm_up_batches) is None:
        raise ClusterError(
            f"with {size} executors there were too few batches to measure; give `trace.rows_per_batch` less",
            target=experiment.scaled,
        )


def _figures(
    experiment: StaticExperiment,
    size: int,
    run: LiveRun,
    expected: Sequence[dict[str, Any]],
    least_done: Mapping[str, int],
) -> SizeResult:
    operators = {}
    for name in run.history.observations:
        seen, least = _held(experiment, size, run, name), least_done.get(name, 0)
        counted = while_counted(seen, experiment.warm_up_batches, least)
        batches = [o.batch_seconds for o in counted if o.batch_seconds is not None]
        waiting = [o.backlog_records for o in counted if o.backlog_records is not None]
        operators[name] = OperatorFigures(
            throughput(seen, experiment.warm_up_batches, least),
            mean_utilisation(counted),
            sum(batches) / len(batches) if batches else None,
            max(waiting, default=None),
        )
    scaled = operators[experiment.scaled].throughput if experiment.scaled in operators else None
    if scaled is None:
        raise ClusterError(
            f"with {size} executors too few batches were those of all sizes; give `trace.rows_per_batch` less",
            target=experiment.scaled,
        )
    wrong = differences(read_results(run.output_of(experiment.results_of)), expected)
    return SizeResult(size, operators, scaled, run.load_average, tuple(wrong))


def as_reproduction(experiment: StaticExperiment, name: str, results: Sequence[SizeResult]) -> Reproduction:
    """The figures of all sizes, the paper's beside ours."""
    from penstock.evaluation.scaling_pictures import static_picture

    rows = scaling_rows(experiment, results)
    document = {
        "experiment": name, "paper": experiment.paper,
        "sizes": [
            {
                **row, "operators": {o: figures.to_json() for o, figures in result.operators.items()},
                "bottleneck": result.bottleneck(), "load_average": result.load_average,
                "wrong_results": list(result.wrong_results),
            }
            for row, result in zip(rows, results, strict=True)
        ],
    }  # fmt: skip
    remarks = [
        f"{result.executors} executors: {len(result.wrong_results)} differences from pandas, "
        f"the first: {result.wrong_results[0]}"
        for result in results
        if result.wrong_results
    ] or ["the results of every size are those of pandas, to the last digit"]
    loads = ", ".join(f"{result.load_average:.1f}" for result in results)
    remarks.append(f"load average of the machine at the end of each run: {loads}")
    return Reproduction(
        document,
        (f"{experiment.paper}: {experiment.title}",),
        (_sizes_grid(rows), _operators_grid(results)),
        lambda: static_picture(rows),
        tuple(remarks),
    )


def scaling_rows(experiment: StaticExperiment, results: Sequence[SizeResult]) -> list[dict[str, Any]]:
    """Throughput, speed-up and efficiency of every size, ours and the paper's."""
    first, published = results[0], experiment.published
    base = published.get(first.executors)
    rows = []
    for result in results:
        gained, efficiency = speed_up(result.scaled.mean, result.executors, first.scaled.mean, first.executors)
        theirs = published.get(result.executors)
        row: dict[str, Any] = {
            "executors": result.executors, **result.scaled.to_json(),
            "speed_up": gained, "efficiency": efficiency, "published": None,
        }  # fmt: skip
        if theirs is not None and base is not None:
            gained, efficiency = speed_up(1 / theirs.minutes, result.executors, 1 / base.minutes, first.executors)
            row["published"] = {**theirs.model_dump(), "speed_up": gained, "efficiency": efficiency}
        rows.append(row)
    return rows


def _sizes_grid(rows: Sequence[dict[str, Any]]) -> Grid:
    headings = ("median/s", "p75", "p90", "p95", "speed-up", "efficiency")
    lines: list[tuple[str, ...] | None] = []
    for row in rows:
        for who, of in (("ours", row), ("paper", row["published"])):
            if of is not None:
                rates = (f"{of[name]:,.0f}" for name in ("median", "p75", "p90", "p95"))
                gains = (f"{of[name]:.2f}" for name in ("speed_up", "efficiency"))
                lines.append((str(row["executors"]) if who == "ours" else "", who, *rates, *gains))
    columns = (Column("n"), Column("", is_number=False), *(Column(heading) for heading in headings))
    return Grid(columns, tuple(lines))


def _operators_grid(results: Sequence[SizeResult]) -> Grid:
    columns = (
        Column("n"), Column("operator", is_number=False), Column("mean/s"), Column("speed-up"), Column("CPU used"),
        Column("batch"), Column("most waiting"), Column("", is_number=False),
    )  # fmt: skip
    lines: list[tuple[str, ...] | None] = []
    for result in results:
        for name, of in result.operators.items():
            rate, gained = "-" if of.throughput is None else f"{of.throughput.mean:,.0f}", "-"
            if of.throughput is not None and (first := results[0].operators[name].throughput) is not None:
                gained = f"{of.throughput.mean / first.mean:.2f}"
            used = "-" if of.utilisation is None else f"{of.utilisation:.0%}".replace("%", " %")
            batch = "-" if of.batch_seconds is None else f"{of.batch_seconds:.1f} s"
            waiting = "-" if of.most_waiting is None else f"{of.most_waiting:,}"
            mark = "bottleneck" if name == result.bottleneck() else ""
            lines.append((str(result.executors), name, rate, gained, used, batch, waiting, mark))
    return Grid(columns, tuple(lines))
