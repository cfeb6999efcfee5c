# SPDX-License-Identifier: Apache-2.0
"""Pictures of elastic schedules: machines over time beside the load, and cost against violations."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.evaluation.elastic_schedule import AHEAD, GROUND_TRUTH, LEARNING, ScheduledPolicy, Workload, over_name
from penstock.evaluation.pictures import BLUE, GREEN, INK, MUTED, ORANGE, PURPLE, RED, STYLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from penstock.evaluation.reproduce_schedule import ScheduleResult
    from penstock.evaluation.throughput_experiment import ScheduleExperiment

_LEAST = 2e-3
"""Where no violations are drawn on a logarithmic axis, in percent."""
_DRAWN = {GROUND_TRUTH: INK, over_name(0): ORANGE, over_name(20): PURPLE, AHEAD: BLUE, LEARNING: GREEN}


def schedule_picture(experiment: ScheduleExperiment, result: ScheduleResult) -> bytes:
    """Draw a row for each window: the load, machines of one application, and cost against violations of all."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    names = list(dict.fromkeys(row.application for row in result.rows))
    shown = names[0]
    with mpl.rc_context(STYLE):
        figure = Figure(
            figsize=(13.0, 3.1 * len(result.rates) + 0.8), layout=ConstrainedLayoutEngine(h_pad=0.06, w_pad=0.06)
        )
        panels = figure.subplots(len(result.rates), 3, squeeze=False, width_ratios=[1.0, 1.5, 1.2])
        for (load, machines, costs), (window, rates) in zip(panels, result.rates.items(), strict=True):
            load.fill_between(np.arange(len(rates)), rates, color=BLUE, alpha=0.35, lw=0)
            load.set_title(f"{window}: load, relative to its peak", loc="left")
            for policy, colour in _DRAWN.items():
                machines.plot(result.machines[window, shown, policy], color=colour, lw=0.9, label=policy)
            machines.set_title(f"{shown}: machines, first seed", loc="left")
            _costs(costs, result, window)
            for axes in (load, machines):
                axes.set_xlabel("hours")
        handles, labels = panels[0][1].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=5)
        figure.suptitle(
            f"{experiment.paper}; right: a mark for each application, filled ours, hollow the paper's", fontsize=9
        )
        return _png(figure)


def _costs(axes: Any, result: ScheduleResult, window: str) -> None:
    peaks = {r.application: r.mean("cost_per_hour") for r in result.rows if r.window == window and "peak" in r.policy}
    for policy, colour in _DRAWN.items():
        rows = [r for r in result.rows if (r.window, r.policy) == (window, policy)]
        rows = [r for r in rows if peaks[r.application] > 0.15]  # where one machine is enough nothing can be saved
        axes.plot(
            [100.0 * r.mean("cost_per_hour") / peaks[r.application] for r in rows],
            [max(_LEAST, r.mean("violation_percent")) for r in rows], "o", color=colour, markersize=5, alpha=0.85,
        )  # fmt: skip
        published = [(r, r.published) for r in rows if r.published is not None]
        axes.plot(
            [100.0 * p[0] / peaks[r.application] for r, p in published], [max(_LEAST, p[1]) for _, p in published],
            "o", color=colour, markersize=5, markerfacecolor="none",
        )  # fmt: skip
    axes.axhline(0.1, color=RED, ls="--", lw=0.8)
    axes.axvline(64.0, color=RED, ls="--", lw=0.8)
    axes.set_yscale("log")
    axes.set_xlabel("cost, % of static (peak)")
    axes.set_title("violations, % of the time; lowest: none", loc="left")


def policies_picture(workload: Workload, policies: Sequence[ScheduledPolicy], title: str) -> bytes:
    """Draw a load, and the machines of every policy."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    hours = np.arange(len(workload.rates)) * workload.period_seconds / 3600.0
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.5, 5.6), layout=ConstrainedLayoutEngine(h_pad=0.06, w_pad=0.06))
        load, machines = figure.subplots(2, 1, sharex=True, height_ratios=[1.0, 1.7])
        load.fill_between(hours, workload.rates, color=BLUE, alpha=0.35, lw=0, step="post")
        load.set_title("rate", loc="left")
        for policy in policies:
            colour = _DRAWN.get(policy.name)
            if colour is not None or policy.name.startswith("static"):
                style = "-" if colour else ":"
                machines.plot(hours, policy.machines, style, color=colour or MUTED, lw=1.0, label=policy.name,
                              drawstyle="steps-post")  # fmt: skip
        machines.set_ylim(0.0)
        machines.set_title("executors", loc="left")
        machines.set_xlabel("hours")
        machines.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))
        figure.suptitle(title, x=0.01, ha="left", fontsize=10, parse_math=False, wrap=True)
        return _png(figure)


def _png(figure: Figure) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=130, facecolor="white")
    return file.getvalue()
