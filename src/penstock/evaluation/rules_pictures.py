# SPDX-License-Identifier: Apache-2.0
"""Tests of scaling rules as pictures: the queue and the instances over time, and the rates of streams that vary."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.evaluation.pictures import BLUE, GREEN, INK, MUTED, ORANGE, RED, STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from penstock.evaluation.reproduce_rules import RulesTestResult

_QUEUES = (BLUE, GREEN)
_SIZES = (RED, ORANGE)


def rules_picture(results: Sequence[RulesTestResult]) -> bytes:
    """Draw each test: queue length and instances; of streams with peaks besides the rates in and out."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    varying = [result for result in results if len({rate for _, rate in result.test.shape.rates}) > 1]
    panels = len(results) + len(varying)
    across = min(3, panels)
    down = -(-panels // across)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(3.9 * across, 2.7 * down), layout=ConstrainedLayoutEngine(h_pad=0.06, w_pad=0.06))
        grid = figure.subplots(down, across, squeeze=False).ravel()
        for axes, result in zip(grid, results, strict=False):
            _queue_panel(axes, result)
        for axes, result in zip(grid[len(results) :], varying, strict=False):
            _rates_panel(axes, result)
        for axes in grid[panels:]:
            axes.set_visible(False)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def _queue_panel(axes: Axes, result: RulesTestResult) -> None:
    instances = axes.twinx()
    most = 1
    for number, (name, samples) in enumerate(result.samples.items()):
        at = [sample.at for sample in samples]
        label = f"queue of {name}" if len(result.samples) > 1 else "queue"
        axes.plot(at, _numbers([s.queue for s in samples]), color=_QUEUES[number % 2], label=label)
        sizes = [sample.executors or 0 for sample in samples]
        most = max(most, *sizes)
        label = f"instances of {name}" if len(result.samples) > 1 else "instances"
        instances.step(at, sizes, where="post", color=_SIZES[number % 2], label=label)
    for due in result.test.due:
        axes.axvline(due.at, color=MUTED, linestyle=":", linewidth=0.9)
    instances.set_ylim(0, most + 1)
    instances.set_yticks(range(most + 2))
    instances.grid(visible=False)
    axes.set_ylim(bottom=0)
    axes.set_title(f"{result.test.section} {result.test.title}", fontsize=8)
    axes.set_xlabel("seconds (dotted: due by hand)")
    axes.set_ylabel("records", color=BLUE)
    instances.set_ylabel("instances", color=RED)
    if len(result.samples) > 1:
        handles = [*axes.get_legend_handles_labels()[0], *instances.get_legend_handles_labels()[0]]
        axes.legend(handles=handles, fontsize=6, loc="upper left")


def _numbers(values: Sequence[float | None]) -> list[float]:
    """What is not known leaves a gap."""
    return [math.nan if value is None else float(value) for value in values]


def _rates_panel(axes: Axes, result: RulesTestResult) -> None:
    for samples in result.samples.values():
        at = [sample.at for sample in samples]
        axes.plot(at, _numbers([s.arrivals_per_second for s in samples]), color=INK, label="source")
        axes.plot(at, _numbers([s.done_per_second for s in samples]), color=GREEN, label="operator", alpha=0.8)
    axes.set_ylim(bottom=0)
    axes.set_title(f"{result.test.section}: rates over 5 s", fontsize=8)
    axes.set_xlabel("seconds")
    axes.set_ylabel("records per second")
    axes.legend(fontsize=7)
