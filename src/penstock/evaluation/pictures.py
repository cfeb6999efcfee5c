# SPDX-License-Identifier: Apache-2.0
"""A run as one picture: load, backlog, latency, utilisation, executors and CPU share over the same time.

What is not known is a gap in the line, never a zero. Colour-blind readers can distinguish the colours
(Okabe and Ito's set); in SVG each becomes a CSS variable, so that one drawing serves light and dark pages.
"""

from __future__ import annotations

import io
import itertools
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import localtime, strftime
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.evaluation.history import RunHistory
from penstock.evaluation.picture_marks import mark_inexact, mark_restarts, mark_start_up
from penstock.ports import FloatArray
from penstock.records import Allocation, Mode, Observation
from penstock.units import clock, format_count, format_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, GRID = "#1f2328", "#59636e", "#d9dee4"
BLUE, ORANGE, GREEN, RED, PURPLE = "#0072b2", "#e69f00", "#009e73", "#d55e00", "#aa4a88"
CSS_NAMES = {
    INK: "--ink", MUTED: "--muted", GRID: "--grid",
    BLUE: "--blue", ORANGE: "--orange", GREEN: "--green", RED: "--red", PURPLE: "--purple",
}  # fmt: skip

_HEIGHTS = (1.5, 1.0, 1.5, 1.1, 0.8, 1.0)
_LINES_FOR_CHANGES_UP_TO = 80
_LOG_LATENCY_ABOVE = 25  # times the objective: beyond it a straight axis shows only the worst moment
_HARDLY = 0.02  # of all instants: what is known at fewer makes no line
_NICE_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400)
_NO_METADATA: dict[str, Any] = dict.fromkeys(("Date", "Creator", "Format", "Type"))
STYLE: dict[Any, Any] = {
    "font.size": 9, "font.family": "sans-serif", "axes.titlesize": 9.5, "axes.spines.top": False,
    "axes.spines.right": False, "axes.edgecolor": MUTED, "axes.labelcolor": MUTED, "axes.titlecolor": INK,
    "text.color": INK, "xtick.color": MUTED, "ytick.color": MUTED, "grid.color": GRID, "grid.linewidth": 0.7,
    "axes.grid": True, "axes.grid.axis": "y", "axes.axisbelow": True, "lines.linewidth": 1.5,
    "legend.frameon": False, "legend.fontsize": 8.5, "svg.fonttype": "path", "svg.hashsalt": "penstock",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Picture:
    """One drawing: as PNG on white, and as an SVG element for a page that defines the colours of `CSS_NAMES`."""

    png: bytes
    svg: str


def picture_of(history: RunHistory) -> Picture:
    """Draw a run."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        figure = draw(history)
        png, svg = io.BytesIO(), io.StringIO()
        figure.savefig(png, format="png", dpi=150, facecolor="white")
        figure.set_layout_engine("none")  # the parts stay where they are now; finding their places takes long
        figure.savefig(svg, format="svg", transparent=True, metadata=_NO_METADATA)
    text = svg.getvalue()
    text = text[text.index("<svg") :]
    for colour, name in CSS_NAMES.items():
        text = text.replace(colour, f"var({name})")
    return Picture(png.getvalue(), text)


def draw(history: RunHistory) -> Figure:
    """The picture as a matplotlib figure: a column of panels for each operator."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    operators = history.operators or ["no operator"]
    width = 9.0 if len(operators) == 1 else 1.0 + 6.0 * len(operators)
    figure = Figure(figsize=(width, 1.4 * math.fsum(_HEIGHTS)), layout=ConstrainedLayoutEngine(h_pad=0.06, w_pad=0.06))
    grid = figure.subplots(
        len(_HEIGHTS), len(operators), sharex=True, squeeze=False, gridspec_kw={"height_ratios": _HEIGHTS}
    )
    for column, operator in enumerate(operators):
        _Column(history, operator, [grid[row][column] for row in range(len(_HEIGHTS))]).draw()
    return figure


class _Column:
    """The panels of one operator."""

    def __init__(self, history: RunHistory, operator: str, panels: Sequence[Axes]) -> None:
        self._history = history
        self._operator = operator
        self._seen = with_pauses(history.observations.get(operator, ()))
        self._times = np.array([history.since_start(at) for at, _ in self._seen], dtype=np.float64)
        self._panels = panels

    def draw(self) -> None:
        from matplotlib.ticker import MaxNLocator

        rates, backlog, latency, utilisation, executors, share = self._panels
        self._draw_rates(rates)
        self._line(backlog, lambda o: o.backlog_records, PURPLE, "arrived, not yet done")
        self._finish(backlog, "Backlog (records)", format_count)
        self._draw_latency(latency)
        self._draw_utilisation(utilisation)
        self._draw_size(executors, "Executors", lambda a: a.executors, lambda v, _: f"{v:g}")
        self._draw_size(share, "CPU share", lambda a: a.cpu_share, lambda v, _: f"{v:.0%}")
        executors.yaxis.set_major_locator(MaxNLocator(4, integer=True))
        self._mark_changes(executors, share)
        if mark_restarts(self._panels, self._history, self._operator, named_in=executors):
            self._legend(executors)
        share.set_xlabel("time since the first look (min:s), and local time")
        self._set_time_axis(share)
        if len(self._history.operators) > 1:
            # Names come from users: a dollar sign in one does not start a formula.
            rates.annotate(
                self._operator, (0, 1), (0, 26), "axes fraction", "offset points",
                fontsize=11, fontweight="bold", parse_math=False, annotation_clip=False,
            )  # fmt: skip

    def _set_time_axis(self, axes: Axes) -> None:
        from matplotlib.ticker import MultipleLocator

        start, end = self._history.started_at, self._history.ended_at
        length = max(1.0, (end - start) if start is not None and end is not None else 1.0)
        step = next(
            (s for s in _NICE_STEPS if length / s <= 10),
            _NICE_STEPS[-1] * math.ceil(length / 10 / _NICE_STEPS[-1]),
        )
        axes.xaxis.set_major_locator(MultipleLocator(step))
        wall = "%H:%M" if step >= 60 else "%H:%M:%S"
        axes.xaxis.set_major_formatter(
            lambda x, _: f"{clock(x)}\n{strftime(wall, localtime((start or 0.0) + x))}" if x >= 0 else ""
        )
        axes.set_xlim(0, length)

    def _values(self, of: Callable[[Observation], float | None]) -> FloatArray:
        found = (None if seen is None else of(seen) for _, seen in self._seen)
        return np.array([math.nan if value is None else value for value in found], dtype=np.float64)

    def _line(
        self, axes: Axes, of: Callable[[Observation], float | None], colour: str, label: str, style: str = "-"
    ) -> FloatArray:
        values = self._values(of)
        axes.plot(self._times, values, style, color=colour, label=label)
        lonely = _without_neighbours(values)
        if lonely.any():  # a line through one point has no length: such a point is drawn as a dot
            axes.plot(self._times[lonely], values[lonely], ".", color=colour, markersize=3)
        return values

    def _finish(self, axes: Axes, title: str, value_text: Callable[[float], str] | None = None) -> None:
        axes.set_title(title, loc="left", pad=5)
        if axes.get_yscale() == "linear":
            axes.set_ylim(bottom=0)
        if value_text is not None:
            axes.yaxis.set_major_formatter(lambda value, _: value_text(value))
        known = [np.isfinite(np.asarray(line.get_ydata(), dtype=np.float64)).sum() for line in axes.lines]
        if max(known, default=0) < _HARDLY * len(self._times) or not any(known):
            text = "known at a few instants only" if any(known) else "not measured"
            axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=MUTED)
            axes.set_yticks([0])
        # Above the panel, where it can hide no data.
        self._legend(axes)

    @staticmethod
    def _legend(axes: Axes) -> None:
        handles, labels = axes.get_legend_handles_labels()
        if handles:
            # Above the panel there is room for a title and one line of names.
            narrow = {"columnspacing": 1.1, "handletextpad": 0.5} if len(labels) > 4 else {}
            axes.legend(
                loc="lower right", bbox_to_anchor=(1.0, 0.97), ncols=len(labels), borderaxespad=0.0,
                handlelength=1.2 if narrow else 1.6, **narrow,
            )  # fmt: skip

    def _draw_rates(self, axes: Axes) -> None:
        self._line(axes, lambda o: o.arrival_rate_rows_per_second, BLUE, "arriving")
        self._line(axes, lambda o: o.processed_rows_per_second, ORANGE, "processed")
        self._finish(axes, "Records per second", format_count)

    def _draw_latency(self, axes: Axes) -> None:
        objective = self._history.objective_of(self._operator)
        names = list(dict.fromkeys(["p50", objective.statistic or "p95"]))
        highest = 0.0
        for name, colour in zip(names, (GREEN, BLUE), strict=False):
            values = self._line(axes, lambda o, n=name: o.latency and o.latency.statistic(n), colour, name)  # type: ignore[misc]
            highest = max(highest, float(np.nanmax(values)) if np.isfinite(values).any() else 0.0)
        if objective.seconds is not None:
            axes.axhline(
                objective.seconds,
                color=RED,
                linestyle="--",
                linewidth=1.2,
                label=f"objective {objective}".replace("<=", "\u2264"),
            )
            for start, end in self.times_above_objective():
                axes.axvspan(start, end, color=RED, alpha=0.13, linewidth=0)
            if highest > _LOG_LATENCY_ABOVE * objective.seconds:
                axes.set_yscale("log")
        mark_start_up(axes, self._history, self._operator)
        mark_inexact(axes, self._history, self._operator)
        self._finish(axes, "Record latency", _short_seconds)

    def times_above_objective(self) -> Iterator[tuple[float, float]]:
        """The spans, in seconds since the start, in which the latency was above the objective."""
        start: float | None = None
        last = 0.0
        objective = self._history.objective_of(self._operator)
        for time, (_, seen) in zip(self._times.tolist(), self._seen, strict=True):
            is_above = seen is not None and objective.is_met_by(seen.latency) is False
            if is_above and start is None:
                start = time
            elif not is_above and start is not None:
                yield start, time if seen is not None else last
                start = None
            last = time
        if start is not None:
            yield start, last

    def _draw_utilisation(self, axes: Axes) -> None:
        values = self._line(axes, lambda o: o.utilisation, GREEN, "_")
        lower, upper = self._history.thresholds(self._operator)
        for bound, text in ((upper, "up above"), (lower, "down below")):
            if bound is not None:
                style = "--" if bound == upper else ":"
                axes.axhline(bound, color=MUTED, linestyle=style, linewidth=1.1, label=f"{text} {bound:.0%}".strip())
        self._finish(axes, "Utilisation (CPU used of allowed)", lambda value: f"{value:.0%}")
        axes.set_ylim(0, max(1.02, float(np.nanmax(values)) * 1.05 if np.isfinite(values).any() else 0.0))

    def _draw_size(
        self, axes: Axes, title: str, of: Callable[[Allocation], float], text: Callable[[float, Any], str]
    ) -> None:
        # The broad line under the narrow one: both are seen where they agree.
        for part, colour, width in (("planned", ORANGE, 4.0), ("observed", BLUE, 1.5)):

            def value(seen: Observation, part: str = part) -> float | None:
                allocation: Allocation | None = getattr(seen.cluster, part)
                return None if allocation is None else of(allocation)

            axes.step(self._times, self._values(value), where="post", color=colour, linewidth=width, label=part)
        for marker, colour, label in (("^", RED, "more"), ("v", GREEN, "less")):
            axes.plot([], [], marker, color=colour, markersize=5.5, label=label)
        self._finish(axes, title)
        axes.yaxis.set_major_formatter(text)
        axes.margins(y=0.18)
        axes.autoscale(axis="y")
        axes.set_ylim(bottom=0)

    def _mark_changes(self, executors: Axes, share: Axes) -> None:
        changes = [d for d in self._history.changes if d.operator == self._operator]
        for decision in changes:
            time = self._history.since_start(decision.at)
            is_up = decision.is_growth
            look: dict[str, Any] = {
                "marker": "^" if is_up else "v",
                "color": RED if is_up else GREEN,
                "markersize": 5.5,
                "linestyle": "none",
                "markerfacecolor": "none" if decision.mode is Mode.RECOMMEND else RED if is_up else GREEN,
                "zorder": 5,
            }
            if decision.target.executors != decision.current.executors:
                executors.plot([time], [decision.target.executors], **look)
            if decision.target.cpu_share != decision.current.cpu_share:
                share.plot([time], [decision.target.cpu_share], **look)
            if len(changes) <= _LINES_FOR_CHANGES_UP_TO:
                for panel in self._panels:
                    panel.axvline(time, color=MUTED, linewidth=0.7, alpha=0.35, zorder=0.5)


def with_pauses(observations: Sequence[Observation]) -> list[tuple[float, Observation | None]]:
    """The observations with a None where nobody looked for much longer than usual, so that lines break there."""
    gaps = [b.at - a.at for a, b in itertools.pairwise(observations)]
    longest = 6 * statistics.median(gaps) if gaps else math.inf
    result: list[tuple[float, Observation | None]] = []
    for seen in observations:
        if result and seen.at - result[-1][0] > longest:
            result.append((result[-1][0], None))
        result.append((seen.at, seen))
    return result


def _without_neighbours(values: FloatArray) -> np.ndarray[Any, np.dtype[np.bool_]]:
    known = np.isfinite(values)
    before, after = np.concatenate(([False], known[:-1])), np.concatenate((known[1:], [False]))
    return known & ~before & ~after


def _short_seconds(seconds: float) -> str:
    if seconds == 0:
        return "0 s"
    return format_seconds(seconds) if seconds < 0.9995 else f"{seconds:g} s"
