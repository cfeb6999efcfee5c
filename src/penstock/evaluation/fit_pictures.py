# SPDX-License-Identifier: Apache-2.0
"""A trace and the processes fitted to it as one picture; and the burstiness of many windows over time."""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.evaluation.pictures import BLUE, GREEN, INK, MUTED, ORANGE, PURPLE, RED, STYLE
from penstock.ports import FloatArray
from penstock.units import format_count
from penstock.workload import FitResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = (RED, BLUE, GREEN, ORANGE, PURPLE)
_CDF_POINTS = 400
_RATE_BINS = 300
_PERIODS = ((1.0, "second"), (60.0, "minute"), (3600.0, "hour"), (86_400.0, "day"))
_TIME_UNITS = ((86_400.0, "days"), (3600.0, "h"), (1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
_LOG_FROM = 30  # largest over smallest: below it a straight axis from 0 shows more


def fit_picture(iats: FloatArray, result: FitResult, title: str = "") -> bytes:
    """Draw a window and its fits as PNG: rate over time, CDF, autocorrelation and dispersion of counts."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        figure, panels = _figure(2, 2, (10.0, 6.6))
        _draw_rate(panels[0], iats)
        _draw_cdf(panels[1], iats, result)
        _draw_correlation(panels[2], result)
        _draw_dispersion(panels[3], result)
        if title:
            figure.suptitle(title, x=0.01, ha="left", fontsize=10, parse_math=False, wrap=True)
        handles, labels = panels[1].get_legend_handles_labels()
        order = [0, *range(len(handles) - 1, 0, -1)]  # drawn last, the best is named first
        figure.legend([handles[i] for i in order], [labels[i] for i in order], loc="outside lower center", ncols=6)
        return _png(figure)


def _figure(rows: int, columns: int, size: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.08))
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def _png(figure: Figure) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=150, facecolor="white")
    return file.getvalue()


def _draw_rate(axes: Axes, iats: FloatArray) -> None:
    times = np.cumsum(iats)
    span = float(times[-1])
    bins = max(10, min(_RATE_BINS, len(iats) // 20))
    counts, edges = np.histogram(times, bins=bins, range=(0.0, span))
    per, period = _period(float(counts.max()) / (span / bins))
    second, unit = _time_unit(span)
    axes.stairs(counts / (span / bins / per), edges / second, color=INK, linewidth=0.9)
    axes.set_ylim(bottom=0)
    axes.set_xlim(0, span / second)
    axes.set_xlabel(f"time since the window's start ({unit})")
    axes.yaxis.set_major_formatter(lambda value, _: format_count(value) if value >= 1e4 else f"{value:.6g}")
    width, of = _time_unit(span / bins)
    axes.set_title(f"Arrivals per {period}, over {span / bins / width:.3g} {of} each", loc="left")


def _period(rate: float) -> tuple[float, str]:
    """Give the shortest period, in seconds and by name, in which such a rate per second is at least 1."""
    return next(((s, name) for s, name in _PERIODS if rate * s >= 1.0), _PERIODS[-1])


def _time_unit(seconds: float) -> tuple[float, str]:
    """Give the largest unit, in seconds and by name, that such a time is at least two of."""
    return next(((size, name) for size, name in _TIME_UNITS if seconds >= 2 * size), _TIME_UNITS[-1])


def _draw_cdf(axes: Axes, iats: FloatArray, result: FitResult) -> None:
    ordered = np.sort(iats)
    positive = ordered[ordered > 0]
    low, high = float(positive[0]), float(positive[-1])
    axes.set_xscale("log")
    points = np.geomspace(max(low, high * 1e-9), high * 1.05, _CDF_POINTS)
    axes.plot(points, np.searchsorted(ordered, points, side="right") / len(ordered), color=INK, lw=2.6, label="trace")
    for fitted, colour, style, label in _fits(result):
        axes.plot(points, fitted.map.intervals.cdf(points), style, color=colour, label=label)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("inter-arrival time (s)")
    axes.set_title("Share of inter-arrival times up to x", loc="left")


def _draw_correlation(axes: Axes, result: FitResult) -> None:
    trace = result.trace
    axes.set_title("Autocorrelation of inter-arrival times", loc="left")
    axes.set_xlabel("lag")
    axes.set_xscale("log")
    if not trace.acf.size:
        axes.text(0.5, 0.5, "constant: none", transform=axes.transAxes, ha="center", va="center", color=MUTED)
        return
    lags = np.arange(1, trace.acf.size + 1)
    axes.plot(lags, trace.acf, color=INK, lw=1.0, alpha=0.85)
    axes.fill_between(
        trace.lags, trace.acf_at_lags - 2 * trace.acf_errors, trace.acf_at_lags + 2 * trace.acf_errors,
        color=INK, alpha=0.12, linewidth=0,
    )  # fmt: skip
    shown = np.unique(np.round(np.geomspace(1, lags[-1], 200)).astype(np.int64))
    for fitted, colour, style, _ in _fits(result):
        axes.plot(shown, fitted.map.autocorrelation(shown), style, color=colour)
    axes.axhline(0, color=MUTED, lw=0.7)
    axes.annotate(
        "shaded: two standard errors", (0.99, 0.97), xycoords="axes fraction", ha="right", va="top", color=MUTED
    )


def _draw_dispersion(axes: Axes, result: FitResult) -> None:
    trace = result.trace
    axes.set_xscale("log")
    axes.set_yscale("log")
    # An error bar down to nothing has no end on a log axis.
    below = np.minimum(2 * trace.idc_errors, 0.9 * trace.idc)
    axes.errorbar(
        trace.idc_widths, trace.idc, yerr=[below, 2 * trace.idc_errors],
        fmt="o", color=INK, ms=4, lw=1.0, capsize=2,
    )  # fmt: skip
    points = np.geomspace(trace.idc_widths[0], trace.idc_widths[-1], 100)
    for fitted, colour, style, _ in _fits(result):
        axes.plot(points, fitted.map.idc(points), style, color=colour)
    axes.axhline(1, color=MUTED, lw=0.7)
    axes.set_xlabel("length of the interval (s)")
    axes.set_title("Variance over mean of counts (IDC; 1: Poisson)", loc="left")


def _fits(result: FitResult) -> list[tuple[Any, str, str, str]]:
    """Each process with its colour, line and label; the best is drawn last, over the others."""
    found = []
    for number, fitted in enumerate(result.maps):
        label = ("best" if number == 0 else f"no. {number + 1}") + f" ({fitted.states} states)"
        found.append((fitted, _COLOURS[number % len(_COLOURS)], "-" if number == 0 else "--", label))
    return found[::-1]


def burstiness_picture(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Draw the rows of `penstock characterize` as PNG: rate, SCV, correlation and IDC of each window over time."""
    import matplotlib as mpl

    streams: dict[str, list[Mapping[str, Any]]] = {}
    for row in sorted(rows, key=lambda r: (r["stream"], r["window"])):
        streams.setdefault(row["stream"], []).append(row)
    has_fits = any(row.get("states") is not None for row in rows)
    kinds = [
        ("rate", "Arrivals per second", False),
        ("scv", "SCV of inter-arrival times (1: Poisson)", True),
        ("rho1", "Autocorrelation, lag 1 (line) and 10 (dots)", False),
        ("idc", "Variance over mean of counts (IDC), longest interval", True),
        *([("queue_error", "Predicted over replayed response at load 0.8", False)] if has_fits else []),
    ]
    with mpl.rc_context(STYLE):
        figure, panels = _figure(len(kinds), 1, (9.0, 1.9 * len(kinds) + 0.5))
        for axes, (column, title, is_log) in zip(panels, kinds, strict=True):
            for (stream, windows), colour in zip(streams.items(), _cycle(len(streams)), strict=True):
                _draw_windows(axes, windows, column, colour, stream)
            _finish_windows(axes, title, is_log, column)
            axes.set_xlim(0, max((row["end"] for row in rows), default=1.0))
        panels[-1].set_xlabel("time since the stream's first arrival (s)")
        if len(streams) > 1:
            handles, labels = panels[0].get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside lower center", ncols=3)
        else:
            figure.suptitle(next(iter(streams), "nothing"), x=0.01, ha="left", fontsize=11, parse_math=False)
        return _png(figure)


def _draw_windows(axes: Axes, windows: Sequence[Mapping[str, Any]], column: str, colour: str, stream: str) -> None:
    at, values = _steps(windows, column)
    axes.plot(at, values, color=colour, label=stream if len(stream) <= 40 else "..." + stream[-37:])
    if column == "rho1":
        middle = [(row["start"] + row["end"]) / 2 for row in windows]
        axes.plot(middle, [_number(row["rho10"]) for row in windows], ".", color=colour, markersize=5)


def _steps(windows: Sequence[Mapping[str, Any]], column: str) -> tuple[list[float], list[float]]:
    """Each window as a flat stretch from its start to its end, or its middle where windows overlap; gaps stay gaps."""
    at, values = [], []
    overlap = any(after["first"] < row["first"] + row["n"] for row, after in itertools.pairwise(windows))
    for row in windows:
        at += [(row["start"] + row["end"]) / 2] if overlap else [row["start"], row["end"]]
        values += [_number(row.get(column))] * (1 if overlap else 2)
    return at, values


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _finish_windows(axes: Axes, title: str, is_log: bool, column: str) -> None:
    axes.set_title(title, loc="left")
    lines = [np.asarray(line.get_ydata(), dtype=np.float64) for line in axes.lines]
    known = np.concatenate([line[np.isfinite(line)] for line in lines]) if lines else np.empty(0)
    if not known.size:
        axes.text(0.5, 0.5, "not known", transform=axes.transAxes, ha="center", va="center", color=MUTED)
    elif is_log and known.min() > 0 and known.max() > _LOG_FROM * known.min():
        axes.set_yscale("log")
    elif column in ("rate", "scv", "idc"):
        axes.set_ylim(bottom=0)
    if column == "queue_error":
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:+.0f} %")
    if column in ("queue_error", "rho1"):
        axes.axhline(0, color=MUTED, lw=0.7)


def _cycle(count: int) -> list[str]:
    colours = (BLUE, RED, GREEN, ORANGE, PURPLE, INK)
    return [colours[i % len(colours)] for i in range(count)]
