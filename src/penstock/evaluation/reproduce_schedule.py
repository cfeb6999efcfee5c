# SPDX-License-Identifier: Apache-2.0
"""Elastic scheduling done again (Imai et al., Table 3): every policy for every application on a recorded load.

Machines that a policy asks for come of a model trained on drawn measurements; whether they were enough is judged by the
truth that the measurements were drawn around. Figures are means over seeds of these measurements.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.arrivals import CountSeries, load_trace
from penstock.errors import ConfigurationError
from penstock.evaluation.capacity_plan import ThroughputTable
from penstock.evaluation.elastic_schedule import (
    AHEAD,
    BY_INTERVAL,
    LEARNING,
    STATIC_PEAK,
    ScheduleAccount,
    ScheduledPolicy,
    Workload,
    interval_policies,
    over_name,
    published_policies,
)
from penstock.evaluation.experiment_file import DATA, data_folder
from penstock.evaluation.learning_schedule import learn_and_schedule
from penstock.evaluation.reproduction import Call, Column, Grid, Reproduction
from penstock.evaluation.throughput_experiment import Application, ApplicationsFile, RateWindow, ScheduleExperiment
from penstock.evaluation.trained_applications import train, train_ours
from penstock.performance.throughput.curve_belief import CurveBelief, repeat_noise, spread_of_mean
from penstock.ports import FloatArray

BAR_VIOLATION, BAR_SAVING, COMPARED = 0.1, 36.0, over_name(20)
"""Percent of the time, percent below static peak, and the policy that ours may not be dearer than."""


@dataclass(frozen=True, eq=False)
class ScheduleRow:
    """One policy for one application on one stretch of the load: what every seed came to.

    Attributes
    ----------
    window, application, policy
        Their names.
    accounts
        For each seed.
    published
        Cost and violations of the paper; None where it has no such policy.
    over_provisioning
        Percentages of machines more, for each seed; empty where there is none.
    """

    window: str
    application: str
    policy: str
    accounts: tuple[ScheduleAccount, ...]
    published: tuple[float, float] | None
    over_provisioning: tuple[int, ...] = ()

    def mean(self, name: str) -> float:
        """A figure of the account, averaged over seeds."""
        return float(np.mean([getattr(account, name) for account in self.accounts]))

    def worst(self, name: str) -> float:
        """Its largest value over seeds."""
        return float(max(getattr(account, name) for account in self.accounts))

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        figures = ("cost_per_hour", "violation_percent", "waiting_percent", "longest_wait_seconds", "machines_mean")
        return {
            "trace": self.window, "application": self.application, "policy": self.policy,
            "published": None if self.published is None
            else {"cost_per_hour": self.published[0], "violation_percent": self.published[1]},
            "ours": {name: self.mean(name) for name in figures}
            | {"violation_percent_worst": self.worst("violation_percent"), "cost_worst": self.worst("cost_per_hour")},
            "over_provisioning_percent": list(self.over_provisioning),
        }  # fmt: skip


@dataclass(frozen=True, eq=False)
class ScheduleResult:
    """All rows, what is drawn, and how long the simulations took.

    Attributes
    ----------
    rows
        All of them.
    rates
        Of each window, relative to its highest.
    machines
        Of the first seed, by window, application and policy.
    simulation_seconds
        CPU time of all schedules, without the training of models.
    simulations
        How many.
    """

    rows: tuple[ScheduleRow, ...]
    rates: Mapping[str, FloatArray]
    machines: Mapping[tuple[str, str, str], Any]
    simulation_seconds: float
    simulations: int


def window_rates(experiment: ScheduleExperiment) -> dict[str, FloatArray]:
    """The mean rate of each period of every window, relative to the window's highest."""
    path = data_folder() / experiment.trace
    if not path.is_file():
        raise ConfigurationError(
            f"{path} is not there. {experiment.get} Put it there, or set {DATA} to the folder that has "
            f"{experiment.trace}",
            field=DATA,
        )
    series = load_trace(path)
    if not isinstance(series, CountSeries):
        raise ConfigurationError(f"trace: {path} has no counts; give a table of periods and counts", field="trace")
    first = _first_period(path)
    return {window.name: _cut(series, first, window) for window in experiment.windows}


def _first_period(path: Any) -> np.datetime64:
    """When a table of periods begins. It was read once without a mistake, so it has a first row."""
    from penstock.arrivals.trace_files import open_bytes

    with open_bytes(path) as file:
        file.readline()
        return np.datetime64(file.readline().decode().split(",")[0].replace(" ", "T"), "s")


def _cut(series: CountSeries, first: np.datetime64, window: RateWindow) -> FloatArray:
    skipped = (np.datetime64(window.start, "s") - first).astype(float) / series.period_seconds
    together = window.period / series.period_seconds
    stop = skipped + together * window.periods
    if skipped < 0 or stop > len(series.counts) or skipped != int(skipped) or together != int(together):
        raise ConfigurationError(
            f"windows.{window.name}: {window.periods} periods of {window.period:g} s from {window.start} do not fit "
            "the trace; begin inside it, at one of its own periods",
            field="windows",
        )
    counts = series.counts[int(skipped) : int(stop)].reshape(window.periods, int(together)).sum(axis=1)
    return np.asarray(counts / counts.max(), dtype=np.float64)


def run_schedules(experiment: ScheduleExperiment, call: Call) -> ScheduleResult:
    """Train every application for every seed, and simulate all policies in all windows."""
    file, rates = experiment.load_applications(call.folder), window_rates(experiment)
    found: dict[tuple[str, str, str], list[ScheduledPolicy]] = {}
    spent, simulations = 0.0, 0
    for number, application in enumerate(file.applications):
        trained = []
        for seed in range(experiment.first_seed, experiment.first_seed + experiment.seeds):
            trained.append(_train(file, application, seed, experiment.coverage))
            if call.progress is not None:
                call.progress((number + len(trained) / experiment.seeds) / len(file.applications))
        beliefs = [_belief(trained, experiment.coverage) for _ in rates]
        begun = time.process_time()
        for (name, shape), belief in zip(rates.items(), beliefs, strict=True):
            workload = Workload(
                shape * application.peak, delay_seconds=experiment.delay, cost_per_hour=experiment.cost_per_hour
            )
            for policy in _simulate(experiment, application, workload, trained, belief):
                found.setdefault((name, application.name, policy.name), []).append(policy)
                simulations += 1
        spent += time.process_time() - begun
    rows = [
        ScheduleRow(
            window, application, policy, tuple(one.account for one in runs),
            _published(experiment, file.applications, application, policy),
            tuple(one.over_provisioning_percent for one in runs if one.over_provisioning_percent is not None),
        )
        for (window, application, policy), runs in found.items()
    ]  # fmt: skip
    windows, names = list(rates), [application.name for application in file.applications]
    rows.sort(key=lambda row: (windows.index(row.window), names.index(row.application)))
    machines = {key: runs[0].machines for key, runs in found.items()}
    return ScheduleResult(tuple(rows), rates, machines, spent, simulations)


@dataclass(frozen=True, eq=False)
class _Trained:
    """What the planners know of an application before the run, of one draw of the measurements."""

    published: ThroughputTable
    ours: ThroughputTable
    noise: float


def _train(file: ApplicationsFile, application: Application, seed: int, coverage: float) -> _Trained:
    paper = train(file, application, np.random.default_rng(seed)).selection.model
    ours, _ = train_ours(file, application, np.random.default_rng(seed))
    tables = [ThroughputTable.of(model, file.most, coverage) for model in (paper, ours)]
    return _Trained(tables[0], tables[1], repeat_noise(ours.samples))


def _belief(trained: Sequence[_Trained], coverage: float) -> CurveBelief:
    """What is believed before the run, for all draws."""
    spreads = [spread_of_mean(one.ours.expected, one.ours.high, coverage, one.noise) for one in trained]
    expected = np.array([one.ours.expected for one in trained])
    sizes = np.arange(1.0, expected.shape[1] + 1.0)
    return CurveBelief(sizes, expected, np.array(spreads), [one.noise for one in trained])


def _simulate(
    experiment: ScheduleExperiment,
    application: Application,
    workload: Workload,
    trained: Sequence[_Trained],
    belief: CurveBelief,
) -> list[ScheduledPolicy]:
    """All policies for all draws."""
    truth = application.truth(len(trained[0].ours.low))
    found: list[ScheduledPolicy] = []
    for one in trained:
        found += published_policies(workload, truth, one.published.expected)
        found += interval_policies(workload, truth, one.ours.expected, one.ours.low)
    learnt = learn_and_schedule(
        workload, truth, belief, noise=application.noise, coverage=experiment.coverage,
        generator=np.random.default_rng([experiment.first_seed, len(trained)]),
    )  # fmt: skip
    return [*found, *learnt.policies(workload, truth)]


def _published(
    experiment: ScheduleExperiment, applications: Sequence[Application], name: str, policy: str
) -> tuple[float, float] | None:
    figures = experiment.published.get(policy)
    if figures is None:
        return None
    at = [application.name for application in applications].index(name)
    return figures.cost_per_hour[at], figures.violation_percent[at]


def bars_of(experiment: ScheduleExperiment, result: ScheduleResult) -> list[dict[str, Any]]:
    """For each window, application and policy with the interval's margin: whether the bars are met."""
    by_key = {(row.window, row.application, row.policy): row for row in result.rows}
    bars = []
    for row in result.rows:
        if row.policy not in (BY_INTERVAL, AHEAD, LEARNING):
            continue
        peak = by_key[row.window, row.application, STATIC_PEAK].mean("cost_per_hour")
        compared = by_key[row.window, row.application, COMPARED]
        cost = row.mean("cost_per_hour")
        bars.append(
            {
                "trace": row.window, "application": row.application, "policy": row.policy,
                "is_excepted": row.application in experiment.excepted,
                "violation_percent_worst": row.worst("violation_percent"),
                "is_below_violations": row.worst("violation_percent") < BAR_VIOLATION,
                "over_provisioning_violation_percent_worst": compared.worst("violation_percent"),
                "cost_of_over_provisioning": compared.mean("cost_per_hour"),
                "is_no_dearer": cost <= compared.mean("cost_per_hour"),
                "is_no_dearer_than_published": compared.published is not None and cost <= compared.published[0],
                "saving_percent": 100.0 * (1.0 - cost / peak),
                "is_saving_enough": 100.0 * (1.0 - cost / peak) >= BAR_SAVING,
            }
        )  # fmt: skip
    return bars


def reproduce_schedule(experiment: ScheduleExperiment, call: Call) -> Reproduction:
    """Do Table 3 again; the paper's figures beside ours."""
    from penstock.evaluation.schedule_pictures import schedule_picture

    result = run_schedules(experiment, call)
    bars = bars_of(experiment, result)
    document = {
        "experiment": call.name, "paper": experiment.paper, "seeds": experiment.seeds,
        "first_seed": experiment.first_seed, "coverage": experiment.coverage,
        "traces": [
            {
                "name": window.name, "says": window.says, "start": window.start, "period_seconds": window.period,
                "periods": window.periods, "mean_over_peak": float(result.rates[window.name].mean()),
                "above_mean_percent": _above_mean(result.rates[window.name]),
            }
            for window in experiment.windows
        ],
        "simulations": result.simulations, "simulation_seconds": result.simulation_seconds,
        "rows": [row.to_json() for row in result.rows], "bars": bars,
    }  # fmt: skip
    words = (
        f"{experiment.paper}: {experiment.title}, {experiment.seeds} seeds of the measurements",
        *(f"{window.name}: {window.says}" for window in experiment.windows),
    )
    remarks = (
        *_verdicts(bars),
        f"{result.simulations} simulations took {result.simulation_seconds:.2f} s of CPU time.",
    )
    return Reproduction(document, words, _grids(result), lambda: schedule_picture(experiment, result), remarks)


def _above_mean(rates: FloatArray) -> float:
    return float(100.0 * np.mean(rates > rates.mean()))


def _verdicts(bars: Sequence[dict[str, Any]]) -> list[str]:
    lines = []
    for window, policy in dict.fromkeys((bar["trace"], bar["policy"]) for bar in bars):
        asked = [bar for bar in bars if (bar["trace"], bar["policy"]) == (window, policy) and not bar["is_excepted"]]
        parts = [
            f"{sum(bar[key] for bar in asked)} of {len(asked)} {text}"
            for key, text in (
                ("is_below_violations", f"below {BAR_VIOLATION} % violations in every seed"),
                ("is_no_dearer", "no dearer than 20 % over-provisioning"),
                ("is_saving_enough", f"at least {BAR_SAVING:g} % below static peak"),
            )
        ]
        lines.append(f"{window}, {policy}: {'; '.join(parts)}.")
    return [*lines, "Where static for the peak is one machine (VHT), nothing can be saved."]


def _grids(result: ScheduleResult) -> tuple[Grid, ...]:
    columns = (
        Column("application", is_number=False), Column("policy", is_number=False), Column("paper $/h"),
        Column("ours $/h"), Column("paper vio. %"), Column("ours vio. %"), Column("worst seed"), Column("waiting %"),
        Column("longest wait"),
    )  # fmt: skip
    grids = []
    for window in result.rates:
        rows: list[tuple[str, ...] | None] = []
        last = None
        for row in (row for row in result.rows if row.window == window):
            if last is not None and row.application != last:
                rows.append(None)
            paper = ("-", "-") if row.published is None else (f"{row.published[0]:.3f}", f"{row.published[1]:.3f}")
            rows.append(
                (
                    row.application if row.application != last else "", _with_rate(row), paper[0],
                    f"{row.mean('cost_per_hour'):.3f}", paper[1], f"{row.mean('violation_percent'):.3f}",
                    f"{row.worst('violation_percent'):.3f}", f"{row.mean('waiting_percent'):.3f}",
                    f"{row.worst('longest_wait_seconds'):.0f} s",
                )
            )  # fmt: skip
            last = row.application
        grids.append(Grid(columns, tuple(rows), caption=window))
    return tuple(grids)


def _with_rate(row: ScheduleRow) -> str:
    if "violation" not in row.policy:
        return row.policy
    return f"{row.policy}, by {np.mean(row.over_provisioning):.0f} %"
