# SPDX-License-Identifier: Apache-2.0
"""A change of size as a picture: throughput between the ends of batches, and executors, over time."""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from penstock.evaluation.pictures import BLUE, MUTED, ORANGE, RED, STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from penstock.evaluation.reconfiguration_experiment import ReconfigurationExperiment
    from penstock.evaluation.reproduce_reconfiguration import Standstill


def reconfiguration_picture(experiment: ReconfigurationExperiment, found: Sequence[Standstill]) -> bytes:
    """Draw each run: a step for each batch, shaded while nothing was done for longest."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8.6, 3.0 * len(found) + 0.4), layout=ConstrainedLayoutEngine())
        for axes, one in zip(figure.subplots(len(found), 1, squeeze=False)[:, 0], found, strict=True):
            _panel(axes, one)
            longest = "not known" if one.longest is None else f"{one.longest:.1f} s"
            theirs = ", ".join(f"{name} {seconds:g} s" for name, seconds in experiment.published.items())
            axes.set_title(
                f"{experiment.runs[one.run].title}: no record done for {longest}" + (f" ({theirs})" if theirs else ""),
                fontsize=9,
            )
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=120, facecolor="white")
    return buffer.getvalue()


def _panel(axes: Axes, one: Standstill) -> None:
    spans = [
        (before.at, later.at, (later.records_done - before.records_done) / max(1e-9, later.at - before.at))
        for before, later in pairwise(one.ends)
    ]
    if spans:
        axes.stairs(
            [rate for _, _, rate in spans], [spans[0][0], *(end for _, end, _ in spans)], baseline=None, color=BLUE
        )
    for start, end, _ in spans:
        is_after = end > one.decided
        if is_after and one.longest is not None and abs(end - start - one.longest) < 1e-6:
            axes.axvspan(start, end, color=RED, alpha=0.15, linewidth=0)
            break
    axes.axvline(one.decided, color=MUTED, linestyle=":", linewidth=1)
    if one.in_force is not None:
        axes.axvline(one.in_force, color=MUTED, linestyle="--", linewidth=1)
    size = axes.twinx()
    size.step([at for at, _ in one.executors], [count for _, count in one.executors], where="post", color=ORANGE)
    most = max((count for _, count in one.executors), default=1)
    size.set_ylim(0, most + 1)
    size.set_yticks(range(most + 2))
    size.set_ylabel("executors", color=ORANGE)
    size.grid(visible=False)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("records per second", color=BLUE)
    axes.set_xlabel("seconds (dotted: decided, dashed: in force, shaded: the longest time without an end of a batch)")
