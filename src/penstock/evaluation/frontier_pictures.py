# SPDX-License-Identifier: Apache-2.0
"""A frontier as a picture: violation time over CPU, for all traces together and for each."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.evaluation.frontier_experiment import FrontierExperiment
from penstock.evaluation.frontier_judgement import Point, compared, points
from penstock.evaluation.frontier_runs import FrontierRow
from penstock.evaluation.pictures import BLUE, GREEN, MUTED, ORANGE, PURPLE, RED, STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ACROSS = 5
_COLOURS = {"map": BLUE, "neither": PURPLE}
"""Rows of the ablation beside the judged one; without rescue they are hollow."""
_OTHERS = {"mead-published": "P", "m/g/1": "X", "gi/g/1": "v"}


def frontier_picture(experiment: FrontierExperiment, runs: Sequence[FrontierRow]) -> bytes:
    """Draw a panel for all traces and one for each."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    same = compared(experiment, runs)
    traces = list(dict.fromkeys(run.trace for run in same))
    panels = [("all traces", same), *((name, [run for run in same if run.trace == name]) for name in traces)]
    down = -(-len(panels) // _ACROSS)
    with mpl.rc_context(STYLE):
        figure = Figure(
            figsize=(3.0 * _ACROSS + 0.4, 2.9 * down + 1.0), layout=ConstrainedLayoutEngine(h_pad=0.06, w_pad=0.06)
        )
        axes = figure.subplots(down, _ACROSS, squeeze=False).ravel()
        for panel, (name, found) in zip(axes, panels, strict=False):
            _draw(panel, experiment, points(experiment, found))
            panel.set_title(name, fontsize=9)
        for panel in axes[len(panels) :]:
            panel.set_visible(False)
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=8)
        demands = ", ".join(dict.fromkeys(run.demand for run in same))
        figure.suptitle(
            f"{demands}: lower left is better; hollow: without rescue; lines join what no other of its kind beats",
            fontsize=9,
        )
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=120, facecolor="white")
    return file.getvalue()


def _draw(axes: Axes, experiment: FrontierExperiment, found: dict[str, Point]) -> None:
    grid = [point for name, point in found.items() if name in experiment.grid]
    constants = [
        point for name, point in found.items() if name not in experiment.grid and name not in experiment.policies
    ]
    for kind, colour, mark, label in ((constants, MUTED, "s", "constant"), (grid, ORANGE, "o", "threshold")):
        axes.plot([100 * p.cpu for p in kind], [100 * p.violation for p in kind], mark, color=colour, markersize=3.5,
                  label=label)  # fmt: skip
        edge = sorted((p for p in kind if not any(q.beats(p) for q in kind)), key=lambda p: p.cpu)
        axes.plot([100 * p.cpu for p in edge], [100 * p.violation for p in edge], color=colour, linewidth=0.8)
    for name, point in found.items():
        if name not in experiment.policies:
            continue
        base, _, without = name.partition(", ")
        is_main = base == experiment.main
        colour = GREEN if is_main else _COLOURS.get(base, RED)
        axes.plot(
            100 * point.cpu, 100 * point.violation, "*" if is_main else _OTHERS.get(name, "D"), color=colour,
            markerfacecolor="none" if without or name in _OTHERS else colour, markersize=11 if is_main else 5,
            label=None if without else name, zorder=4 if is_main else 3, clip_on=False,
        )  # fmt: skip
    axes.set_xlim(15, 103)
    # Even up to 1 %, by powers of ten above: who keeps a bound and who nearly does are far apart.
    axes.set_yscale("symlog", linthresh=1.0, linscale=0.5)
    axes.set_ylim(-0.2, 110)
    axes.set_yticks([0, 1, 10, 100], labels=["0", "1", "10", "100"])
    axes.set_xlabel("CPU (% of the top)")
    axes.set_ylabel("violation time (%)")
