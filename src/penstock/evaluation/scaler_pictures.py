# SPDX-License-Identifier: Apache-2.0
"""Pictures of auto-scalers: load and throughput, executors, and how far these are from the ideal (Gesscale, Fig. 7)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.evaluation.pictures import BLUE, GREEN, INK, MUTED, ORANGE, RED, STYLE

if TYPE_CHECKING:
    from penstock.evaluation.reproduce_scalers import ScalerRun

_INSTANTS = 1152
"""At which the distance from the ideal is drawn: four in each of the paper's 288 minutes."""


def scalers_picture(runs: Sequence[ScalerRun], seconds: float) -> bytes:
    """Draw a column for each scaler of one seed, with the three graphs of the paper's figure."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    shown = [run for run in runs if run.moments]
    if not shown:
        shown = list(runs[:1])
    longest = max([seconds, *(run.moments[-1][0] for run in shown if run.moments)])
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(3.3 * len(shown), 6.4), layout=ConstrainedLayoutEngine(h_pad=0.06, w_pad=0.06))
        panels = figure.subplots(3, len(shown), squeeze=False, sharex=True, sharey="row", height_ratios=[1.5, 1.0, 1.0])
        for column, run in enumerate(shown):
            _load(panels[0][column], run)
            _executors(panels[1][column], run, longest)
            _gap(panels[2][column], run, longest)
            figures = run.figures
            panels[0][column].set_title(
                f"{run.scaler}\n{figures.reconfigurations} changes, cost {figures.cost:.0f}", loc="left"
            )
            panels[2][column].set_xlabel("minutes")
        for row in panels[:2]:
            row[0].set_ylim(bottom=0.0)  # once all is drawn: a limit holds for the whole row, and ends its growth
        panels[0][0].set_ylabel("records/s")
        panels[1][0].set_ylabel("executors")
        panels[2][0].set_ylabel("executors beyond ideal")
        lines = [pair for row in panels[:2] for pair in zip(*row[0].get_legend_handles_labels(), strict=True)]
        figure.legend([line for line, _ in lines], [label for _, label in lines], loc="outside lower center", ncols=4)
        figure.suptitle(f"Seed {shown[0].seed}: load and throughput, executors, distance from the ideal", fontsize=9)
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=110, facecolor="white")
        return file.getvalue()


def _load(axes: Any, run: ScalerRun) -> None:
    at = np.array([moment[0] for moment in run.moments]) / 60.0
    came = np.array([np.nan if moment[1] is None else moment[1] for moment in run.moments])
    # No batch in the window: nothing was done, or a long one runs; drawn as nothing, as the paper's drops.
    done = np.array([0.0 if moment[2] is None else moment[2] for moment in run.moments])
    axes.plot(at, done, color=ORANGE, lw=0.8, label="done")
    axes.plot(at, came, color=BLUE, lw=1.0, label="arrive")


def _executors(axes: Any, run: ScalerRun, longest: float) -> None:
    for steps, colour, label in ((run.demand, MUTED, "ideal"), (run.supply, INK, "had")):
        at = [at / 60.0 for at, _ in steps] + [longest / 60.0]
        value = [value for _, value in steps] + [steps[-1][1]]
        axes.step(at, value, where="post", color=colour, lw=1.2 if label == "had" else 0.9, label=label)


def _gap(axes: Any, run: ScalerRun, longest: float) -> None:
    minutes = np.linspace(0.0, longest / 60.0, _INSTANTS, endpoint=False)
    gap = _values(run.supply, minutes) - _values(run.demand, minutes)
    axes.fill_between(minutes, np.maximum(gap, 0.0), step="post", color=GREEN, alpha=0.5, lw=0)
    axes.fill_between(minutes, np.minimum(gap, 0.0), step="post", color=RED, alpha=0.6, lw=0)
    axes.axhline(0.0, color=MUTED, lw=0.6)


def _values(steps: Sequence[tuple[float, float]], minutes: Any) -> Any:
    starts = np.array([at for at, _ in steps]) / 60.0
    values = np.array([value for _, value in steps])
    return values[np.maximum(np.searchsorted(starts, minutes, side="right") - 1, 0)]
