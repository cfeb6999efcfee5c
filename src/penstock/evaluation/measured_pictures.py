# SPDX-License-Identifier: Apache-2.0
"""Measured throughputs as a picture: samples and prediction of each application, and the errors of all."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from penstock.evaluation.pictures import BLUE, INK, MUTED, ORANGE, RED, STYLE
from penstock.records import Allocation
from penstock.units import format_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from penstock.evaluation.measured_experiment import MeasuredExperiment
    from penstock.evaluation.reproduce_measured import JudgedApplication

_COLUMNS = 3


def measured_picture(found: Sequence[JudgedApplication], experiment: MeasuredExperiment) -> bytes:
    """Draw a panel for each application, and below them the errors at sizes never trained on."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    rows = -(-len(found) // _COLUMNS)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10.0, 2.3 * rows + 3.2), layout=ConstrainedLayoutEngine(h_pad=0.06, w_pad=0.06))
        grid = figure.add_gridspec(2, 1, height_ratios=[2.3 * rows + 0.4, 2.8])
        above, below = figure.add_subfigure(grid[0]), figure.add_subfigure(grid[1])
        panels = np.atleast_1d(above.subplots(rows, _COLUMNS)).ravel()
        for axes, one in zip(panels, found, strict=False):
            _draw(axes, one)
        for axes in panels[len(found) :]:
            axes.set_axis_off()
        for axes in panels[max(0, len(found) - _COLUMNS) : len(found)]:
            axes.set_xlabel("executors")
        handles, labels = panels[0].get_legend_handles_labels()
        above.legend(handles, labels, loc="outside upper center", ncols=5)
        _draw_errors(below.subplots(), found, experiment)
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=130, facecolor="white")
        return file.getvalue()


def _draw(axes: Axes, one: JudgedApplication) -> None:
    from matplotlib.ticker import FuncFormatter

    most = max(s.allocation.executors for s in one.samples)
    share = one.samples[0].allocation.cpu_share
    sizes = np.arange(1, most + 1)
    ours = [one.model.predict(Allocation(int(size), share), one.coverage) for size in sizes]
    theirs = [one.paper_model.predict(Allocation(int(size), share)).records_per_second for size in sizes]
    axes.fill_between(sizes, [p.low for p in ours], [p.high for p in ours], color=BLUE, alpha=0.15, lw=0,
                      label=f"{one.coverage:.0%} interval".replace("%", " %"))  # fmt: skip
    axes.plot(sizes, [p.records_per_second for p in ours], color=BLUE, label="ours")
    axes.plot(sizes, theirs, "--", color=ORANGE, label="paper's model")
    trained = [s for s in one.samples if s.allocation.executors in one.trained_on]
    for samples, colour, marker, label in ((trained, INK, "o", "trained on"), (one.unseen, RED, "x", "never seen")):
        axes.plot([s.allocation.executors for s in samples], [s.records_per_second for s in samples], marker,
                  color=colour, markersize=4, ls="none", label=label)  # fmt: skip
    highest = max(s.records_per_second for s in one.samples)
    axes.set_ylim(0.0, 1.45 * highest)
    axes.set_xticks(sorted({s.allocation.executors for s in one.samples}))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_count(value)))
    axes.set_title(f"{one.name}, records/s", loc="left")


def _draw_errors(axes: Axes, found: Sequence[JudgedApplication], experiment: MeasuredExperiment) -> None:
    from penstock.evaluation.trained_applications import mean_mape

    at = np.arange(len(found))
    for place, (values, colour, label) in enumerate(
        (
            ([mean_mape(one.unseen) for one in found], MUTED, "mean of the samples themselves"),
            ([one.error_percent() for one in found], BLUE, "ours"),
            ([one.error_percent(of_paper=True) for one in found], ORANGE, "paper's model"),
        )
    ):
        axes.bar(at + 0.27 * (place - 1), values, 0.25, color=colour, label=label)
    for (name, figure), style in zip(experiment.published.items(), ("--", ":", "-."), strict=False):
        axes.axhline(figure, color=INK, ls=style, lw=0.9, label=f"paper: {name}")
    axes.set_xticks(at, [one.name.replace("-", "-\n") for one in found])
    axes.set_title("mean absolute percentage error at sizes never trained on", loc="left")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))
