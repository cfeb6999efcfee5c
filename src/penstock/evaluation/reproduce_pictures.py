# SPDX-License-Identifier: Apache-2.0
"""Experiments as pictures: response time against CPU for each cell of a table, curves over utilisation."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.evaluation.experiment_file import TableExperiment
from penstock.evaluation.pictures import BLUE, GREEN, INK, MUTED, ORANGE, PURPLE, RED, STYLE
from penstock.evaluation.reproduce import ORACLE, CellResult
from penstock.evaluation.reproduce_curve import CurveResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = (RED, ORANGE, PURPLE, BLUE, GREEN, INK, MUTED)
_MARKS = {ORACLE: ("*", INK), "static": ("s", MUTED)}
"""What policies are measured by looks unlike them."""


def table_picture(experiment: TableExperiment, results: Sequence[CellResult]) -> bytes:
    """Draw a panel for each cell: response time over CPU, ours filled with every seed as a dot, the paper's hollow."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.ticker import NullFormatter

    policies = list(experiment.rows)
    cells = max(len(trace.cells) for trace in experiment.traces)
    # A line for each trace; where each has one cell alone, all stand in one line.
    down, across = (len(experiment.traces), cells) if cells > 1 else (1, len(experiment.traces))
    with mpl.rc_context(STYLE):
        figure = Figure(
            figsize=(3.4 * across + 0.6, 2.6 * down + 0.7),
            layout=ConstrainedLayoutEngine(h_pad=0.06, w_pad=0.06),
        )
        panels = figure.subplots(down, across, squeeze=False).reshape(-1, cells)
        for line, trace in zip(panels, experiment.traces, strict=True):
            for axes in line[len(trace.cells) :]:
                axes.set_visible(False)
            for axes, cell in zip(line, trace.cells, strict=False):
                axes.axhline(cell.bound, color=INK, linestyle="--", linewidth=0.8)
                for result in results:
                    if (result.trace, result.bound) != (trace.name, cell.bound):
                        continue
                    mark, colour = _MARKS.get(
                        result.policy, ("o", _COLOURS[policies.index(result.row) % len(_COLOURS)])
                    )
                    axes.plot(
                        [100 * run.cpu for run in result.runs], [run.seconds for run in result.runs],
                        ".", color=colour, alpha=0.35, markersize=4,
                    )  # fmt: skip
                    axes.plot(100 * result.cpu, result.seconds, mark, color=colour, label=result.row)
                    if result.row in cell.published:
                        published = cell.published[result.row]
                        axes.plot(published.cpu, published.seconds, "o", markerfacecolor="none", color=colour)
                axes.set_yscale("log")
                axes.yaxis.set_major_formatter("{x:g}")
                axes.yaxis.set_minor_formatter(NullFormatter())
                axes.set_title(f"{trace.name}, {experiment.statistic} within {cell.bound:g} s", fontsize=9)
                axes.set_xlabel("CPU (%)")
            line[0].set_ylabel("response time (s)")
        handles, labels = panels[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4)
        figure.suptitle("filled: ours (dots: single seeds); hollow: the paper's; dashed: the bound", fontsize=9)
        return _png(figure)


def curve_picture(results: Sequence[CurveResult]) -> bytes:
    """Draw a panel for each trace."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(3.6 * len(results) + 0.4, 3.6), layout=ConstrainedLayoutEngine())
        panels = figure.subplots(1, len(results), squeeze=False)[0]
        for axes, result in zip(panels, results, strict=True):
            at = [point.utilisation for point in result.points]
            axes.plot(at, [point.simulated for point in result.points], "o", color=INK, label="simulated")
            axes.plot(at, [point.m_ph_1 for point in result.points], color=RED, label="M/PH/1")
            axes.plot(at, [point.kingman for point in result.points], color=ORANGE, label="Kingman")
            axes.plot(at, [point.of_fits[0] for point in result.points], color=BLUE, label="MAP/PH/1")
            axes.fill_between(
                at,
                [min(point.of_fits) for point in result.points],
                [max(point.of_fits) for point in result.points],
                color=BLUE, alpha=0.2, label="best fits",
            )  # fmt: skip
            axes.set_yscale("log")
            axes.set_title(f"{result.trace}: SCV {result.scv:.1f}, lag 1 {result.lag_1:.2f}", fontsize=9)
            axes.set_xlabel("utilisation")
        panels[0].set_ylabel("mean response time (s)")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=5)
        return _png(figure)


def _png(figure: Figure) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=130, facecolor="white")
    return file.getvalue()
