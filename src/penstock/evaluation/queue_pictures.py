# SPDX-License-Identifier: Apache-2.0
"""What the models say, as pictures: the distribution of one queue's times, and latency over allocations."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from penstock.evaluation.pictures import BLUE, GREEN, INK, MUTED, ORANGE, PURPLE, RED, STYLE
from penstock.performance.queueing.response import Response
from penstock.ports import FloatArray
from penstock.records import Bounded, CandidateLatency, Objective
from penstock.units import format_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_POINTS = 240
_TAIL = 1e-4  # how far down the tail is drawn
_LOG_FROM = 30  # largest over smallest time: beyond it a straight axis shows the tail alone
_COLOURS = (BLUE, RED, GREEN, PURPLE, ORANGE, INK)
_MARKS = "osD^vP"


def distribution_picture(answer: Response, percentiles: Sequence[float], title: str) -> bytes:
    """Draw the distribution of a queue's times as PNG: share of records within a time, and the tail beyond it."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        figure, (within, beyond) = _figure(2, (10.0, 4.2))
        figure.suptitle(title, x=0.01, ha="left", fontsize=10.5, color=INK, parse_math=False)
        if answer.is_stable:
            _draw_distribution(within, beyond, answer, sorted(percentiles))
            figure.legend(loc="outside lower center", ncols=6)
        else:
            for axes in (within, beyond):
                _say_saturated(axes, answer.utilisation)
        within.set_title("Share of records within a time", loc="left")
        beyond.set_title("Share of records that take longer", loc="left")
        return _png(figure)


def allocations_picture(
    predictions: Sequence[CandidateLatency],
    statistic: str,
    *,
    objective: Objective | None = None,
    chosen: CandidateLatency | None = None,
    title: str = "",
    replayed: Sequence[CandidateLatency] | None = None,
) -> bytes:
    """Draw a predicted statistic over the cost of the allocations as PNG: a line for each number of executors.

    Bars are the bounds; where even the value is infinite the allocation stands in the strip at the top. What the
    arrivals themselves would have met, where that was `replayed`, stands as small crosses.
    """
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        figure, (axes,) = _figure(1, (9.0, 5.0))
        if title:
            figure.suptitle(title, x=0.01, ha="left", fontsize=10.5, color=INK, parse_math=False)
        bound = None if objective is None or objective.statistic != statistic else objective.seconds
        met = [one for one in replayed or () if one.is_stable and _of(one, statistic).value > 0]
        low, high = _limits([*predictions, *met], statistic, bound)
        top = high * (high / low) ** 0.12  # the strip: an eighth of the height
        axes.set_yscale("log")
        axes.set_ylim(low, top)
        counts = sorted({p.allocation.executors for p in predictions})
        for number, executors in enumerate(counts):
            rows = sorted((p for p in predictions if p.allocation.executors == executors), key=_cost)
            _draw_executors(axes, rows, statistic, number, (low, high, top))
        if any(not math.isfinite(_of(p, statistic).value) for p in predictions):
            axes.axhspan(high, top, color=RED, alpha=0.07, lw=0)
            axes.text(
                0.995, 0.985, "saturated: cannot keep up", transform=axes.transAxes, ha="right", va="top", color=RED
            )
        if met:
            costs, times = [_cost(one) for one in met], [_of(one, statistic).value for one in met]
            axes.plot(costs, times, "+", color=INK, ms=7, mew=1.2, label="replayed", zorder=4)
        if bound is not None:
            axes.axhline(bound, color=INK, ls="--", lw=1.0)
            axes.annotate(
                f"objective {objective}", (1.0, bound), xycoords=("axes fraction", "data"), xytext=(-2, 3),
                textcoords="offset points", ha="right", color=INK,
            )  # fmt: skip
        if chosen is not None:
            _mark_chosen(axes, chosen, statistic)
        axes.set_xlabel("cost: executors x CPU share (executors' worth of CPU)")
        ticks = _ticks(low, high)
        axes.set_yticks(ticks, [format_seconds(tick) for tick in ticks])
        axes.set_yticks([], minor=True)
        axes.set_title(f"Predicted {_words(statistic)} of record latency (bars: bounds)", loc="left")
        figure.legend(loc="outside lower center", ncols=min(5, len(counts) + 1))
        return _png(figure)


def _figure(columns: int, size: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.08))
    return figure, list(figure.subplots(1, columns, squeeze=False).flat)


def _png(figure: Figure) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=150, facecolor="white")
    return file.getvalue()


def _draw_distribution(within: Axes, beyond: Axes, answer: Response, percentiles: Sequence[float]) -> None:
    median, body, tail = (float(t) for t in answer.percentiles((0.5, 0.995, 1.0 - _TAIL)))
    marks = answer.percentiles(percentiles) if percentiles else np.empty(0)
    farthest = max(body, float(marks.max()) if marks.size else 0.0)
    times: FloatArray
    if farthest > _LOG_FROM * median:
        times = np.geomspace(median / 100.0, farthest, _POINTS)
        within.set_xscale("log")
    else:
        times = np.linspace(0.0, farthest, _POINTS)
    within.plot(times, answer.cdf(times), color=BLUE)
    within.set_ylim(0.0, 1.02)
    within.set_xlim(times[0], times[-1])
    far = np.linspace(0.0, max(tail, farthest), _POINTS)
    left = 1.0 - answer.cdf(far)
    beyond.set_yscale("log")
    beyond.plot(far, np.where(left > _TAIL / 2, left, np.nan), color=BLUE)
    beyond.set_xlim(0.0, far[-1])
    lowest = min([_TAIL, *((1.0 - p) / 2 for p in percentiles)])
    beyond.set_ylim(lowest, 1.3)
    for number, (p, time) in enumerate(zip(percentiles, marks.tolist(), strict=True)):
        colour = (GREEN, ORANGE, RED, PURPLE)[number % 4]
        label = f"p{100 * p:.10g}  {format_seconds(time)}"
        within.plot([time], [p], "o", color=colour, ms=6, label=label, zorder=4)
        within.vlines(time, 0.0, p, color=colour, lw=0.8, ls=":")
        beyond.plot([time], [1.0 - p], "o", color=colour, ms=6, zorder=4)
        beyond.vlines(time, lowest, 1.0 - p, color=colour, lw=0.8, ls=":")
    within.axvline(answer.mean, color=MUTED, lw=0.9, ls="--", label=f"mean  {format_seconds(answer.mean)}")
    beyond.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
    within.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
    for axes in (within, beyond):
        axes.xaxis.set_major_formatter(lambda value, _: "0" if value == 0 else format_seconds(value))
        axes.xaxis.set_minor_formatter(lambda *_: "")


def _say_saturated(axes: Axes, utilisation: float) -> None:
    axes.text(
        0.5, 0.5, f"saturated: utilisation {utilisation:.3g}\nwaiting grows without end",
        transform=axes.transAxes, ha="center", va="center", color=RED,
    )  # fmt: skip
    axes.set_xticks([])
    axes.set_yticks([])


def _draw_executors(
    axes: Axes, rows: Sequence[CandidateLatency], statistic: str, number: int, heights: tuple[float, float, float]
) -> None:
    _, high, top = heights
    colour, mark = _COLOURS[number % len(_COLOURS)], _MARKS[number % len(_MARKS)]
    executors = rows[0].allocation.executors
    label = "1 executor" if executors == 1 else f"{executors} executors"
    finite = [row for row in rows if math.isfinite(_of(row, statistic).value)]
    costs = [_cost(row) for row in finite]
    predicted = [_of(row, statistic) for row in finite]
    axes.plot(costs, [p.value for p in predicted], f"-{mark}", color=colour, ms=5, label=label)
    for cost, one in zip(costs, predicted, strict=True):
        if one.high > one.low:
            axes.plot(
                [cost, cost], [one.low, min(one.high, top)], color=colour, lw=3.5, alpha=0.3, solid_capstyle="butt"
            )
    lost = [_cost(row) for row in rows if row not in finite]
    axes.plot(lost, [math.sqrt(high * top)] * len(lost), "x", color=colour, ms=7, mew=1.8)


def _mark_chosen(axes: Axes, chosen: CandidateLatency, statistic: str) -> None:
    value = _of(chosen, statistic).value
    label = f"cheapest that will do: {chosen.allocation}, {format_seconds(value)}"
    axes.plot([_cost(chosen)], [value], "o", mfc="none", mec=INK, ms=14, mew=1.6, label=label, ls="")


def _ticks(low: float, high: float) -> list[float]:
    """Round times between two: 1, 2, 5 of each decade, of many decades 1 alone."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1.0, 2.0, 5.0) if len(decades) <= 4 else (1.0,)
    return [step * 10.0**decade for decade in decades for step in steps if low <= step * 10.0**decade <= high]


def _limits(predictions: Sequence[CandidateLatency], statistic: str, bound: float | None) -> tuple[float, float]:
    times = [t for p in predictions for t in (_of(p, statistic).low, _of(p, statistic).value, _of(p, statistic).high)]
    finite = [t for t in times if math.isfinite(t) and t > 0] + ([bound] if bound is not None else [])
    if not finite:
        return 0.1, 10.0
    return min(finite) / 1.3, max(finite) * 1.3


def _of(prediction: CandidateLatency, statistic: str) -> Bounded:
    found = prediction.statistic(statistic)
    if found is None:
        raise LookupError(f"{statistic} was not predicted")
    return found


def _cost(prediction: CandidateLatency) -> float:
    return prediction.allocation.capacity


def _words(statistic: str) -> str:
    return "mean" if statistic == "mean" else f"{statistic.removeprefix('p')}th percentile"
