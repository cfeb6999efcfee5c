# SPDX-License-Identifier: Apache-2.0
"""A series and its forecasts as one picture: what came, what was forecast for it, and what each method was worth."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np

from penstock.evaluation.forecast_backtest import ANSWER, Backtest
from penstock.evaluation.pictures import BLUE, GREEN, INK, MUTED, ORANGE, RED, STYLE
from penstock.ports import FloatArray
from penstock.units import format_count
from penstock.workload.forecast import AS_NOW, METHODS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = dict(zip(METHODS, (MUTED, BLUE, GREEN, ORANGE), strict=True))
_TIME_UNITS = ((86_400.0, "days"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"))
_CLOSE_UP, _CLOSE_UP_CYCLES = 240, 3
_MOST_DRAWN, _MOST_CLOSE_UP = 1500, 480
_SMOOTHED = 40
"""The trace is this many times as long as the window over which errors are averaged."""


def forecast_picture(result: Backtest, title: str = "", unit: str = "arrivals per second") -> bytes:
    """Draw a backtest as PNG: the series with its forecasts, its end close up, and the errors of all methods."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10.0, 8.6), layout=ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.08))
        whole, close, errors, who = figure.subplots(4, 1, height_ratios=[1.15, 1.5, 1.15, 0.22])
        _draw_whole(whole, result, unit)
        _draw_close_up(close, result)
        _draw_errors(errors, result)
        _draw_who(who, result)
        if title:
            figure.suptitle(title, x=0.01, ha="left", fontsize=10, parse_math=False, wrap=True)
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=150, facecolor="white")
        return file.getvalue()


def _draw_whole(axes: Axes, result: Backtest, unit: str) -> None:
    times, scale, name = _times(result)
    together = max(1, len(times) // _MOST_DRAWN)
    at = _means(times, together)
    axes.plot(at, _means(result.readings, together), color=INK, lw=0.8, label="what came")
    axes.plot(at, _means(result.each[ANSWER], together), color=RED, lw=0.9, alpha=0.85, label="forecast for it")
    start = _close_up_start(result) * result.period_seconds / scale
    axes.axvspan(start, times[-1], color=BLUE, alpha=0.07, lw=0)
    axes.annotate("close up below", (times[-1], 0.97), xycoords=("data", "axes fraction"), ha="right", va="top",
                  color=MUTED, fontsize=8)  # fmt: skip
    _finish(axes, times, name)
    shown = "" if together == 1 else f", means of {together} readings"
    axes.set_title(f"{unit[0].upper()}{unit[1:]}{shown}", loc="left")
    axes.legend(loc="upper left", ncols=2)
    _leave_room(axes)


def _draw_close_up(axes: Axes, result: Backtest) -> None:
    start = _close_up_start(result)
    times, _, name = _times(result)
    together = max(1, (len(times) - start) // _MOST_CLOSE_UP)
    times, came, answer, as_now, low, high, padded = (
        _means(values[start:], together)
        for values in (
            times, result.readings, result.each[ANSWER], result.each[AS_NOW], result.low, result.high, result.padded,
        )
    )  # fmt: skip
    axes.fill_between(times, low, high, color=RED, alpha=0.14, lw=0, label="band for 8 of 10")
    axes.plot(times, came, color=INK, lw=1.1, label="what came")
    axes.plot(times, answer, color=RED, lw=1.3, label="forecast")
    axes.plot(times, padded, color=RED, lw=0.9, ls=":", label="with padding")
    axes.plot(times, as_now, color=MUTED, lw=0.8, ls="--", alpha=0.8, label='"as now"')
    _finish(axes, times, name)
    seconds, of = _unit_of(result.horizon_seconds)
    shown = "" if together == 1 else f", means of {together} readings"
    axes.set_title(
        f"The end, with what was forecast {result.horizon_seconds / seconds:.3g} {of} before{shown}", loc="left"
    )
    axes.legend(loc="upper left", ncols=5)
    _leave_room(axes)


def _draw_errors(axes: Axes, result: Backtest) -> None:
    times, _, name = _times(result)
    window = max(10, len(times) // _SMOOTHED)
    if result.repeats_after_seconds is not None:  # whole cycles, so that the cycle does not show in the errors
        cycle = result.repeats_after_seconds / result.period_seconds
        window = round(max(1, round(window / cycle)) * cycle)
    together = max(1, len(times) // _MOST_DRAWN)
    top, level = 0.0, _moving_mean(np.abs(result.readings), window)
    level[level <= 0.0] = np.nan  # where nothing comes, no error is a part of it
    for method in (*METHODS, ANSWER):
        # A method is drawn over the readings for which it forecast something.
        part = 100.0 * _moving_mean(np.abs(result.each[method] - result.readings), window) / level
        if not np.isfinite(part).any():
            continue
        style = {"color": RED, "lw": 1.8} if method == ANSWER else {"color": _COLOURS[method], "lw": 1.1}
        dashes = "--" if method == AS_NOW else "-"
        axes.plot(_means(times, together), _means(part, together), ls=dashes, label=_label(result, method), **style)  # type: ignore[arg-type]
        if method in (AS_NOW, ANSWER):
            top = max(top, float(np.nanmax(part)))
    _finish(axes, times, name)
    axes.set_ylim(0.0, 1.5 * top if top > 0.0 else 1.0)  # a method that is far off is not used: let it leave the panel
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.3g} %")
    axes.set_title(f"Mean error over {window} readings, in parts of their mean (legend: of all)", loc="left")
    if axes.lines:
        axes.legend(loc="upper left", ncols=5)
    else:
        axes.text(0.5, 0.5, "nothing came", transform=axes.transAxes, ha="center", va="center", color=MUTED)


def _draw_who(axes: Axes, result: Backtest) -> None:
    from matplotlib.colors import ListedColormap

    times, _, name = _times(result)
    cells = np.ma.masked_less(result.answered_by.astype(np.float64), 0.0)[None, :]
    colours = ListedColormap([_COLOURS[method] for method in METHODS])
    edges = np.append(times, 2 * times[-1] - times[-2])
    axes.pcolormesh(edges, [0.0, 1.0], cells, cmap=colours, vmin=-0.5, vmax=len(METHODS) - 0.5, rasterized=True)
    axes.set_yticks([])
    axes.set_xlim(times[0], times[-1])
    axes.grid(visible=False)
    axes.set_xlabel(f"time ({name})")
    axes.set_title("Which method answered (colours as above)", loc="left")


def _label(result: Backtest, method: str) -> str:
    graded = result.graded(method)
    error = "" if graded.error is None or result.mean <= 0.0 else f" {100 * graded.error / result.mean:.3g} %"
    return {AS_NOW: '"as now"', ANSWER: "the forecast"}.get(method, method) + error


def _times(result: Backtest) -> tuple[FloatArray, float, str]:
    """Return the readings' times in a unit that suits their span, with its seconds and its name."""
    scale, name = _unit_of(len(result.readings) * result.period_seconds)
    times: FloatArray = np.arange(len(result.readings), dtype=np.float64) * (result.period_seconds / scale)
    return times, scale, name


def _unit_of(seconds: float) -> tuple[float, str]:
    return next(((size, name) for size, name in _TIME_UNITS if seconds >= 2 * size), _TIME_UNITS[-1])


def _close_up_start(result: Backtest) -> int:
    wanted = _CLOSE_UP
    if result.repeats_after_seconds is not None:
        wanted = max(wanted, round(_CLOSE_UP_CYCLES * result.repeats_after_seconds / result.period_seconds))
    return max(0, len(result.readings) - wanted)


def _moving_mean(values: FloatArray, window: int) -> FloatArray:
    """Return the mean of the last so many values that are known; NaN where half of them are not."""
    known = np.isfinite(values)
    sums = np.concatenate([np.zeros(1), np.cumsum(np.where(known, values, 0.0))])
    counts = np.concatenate([np.zeros(1), np.cumsum(known)])
    start = np.maximum(np.arange(1, values.size + 1) - window, 0)
    count = counts[1:] - counts[start]
    means: FloatArray = np.where(count >= window / 2, (sums[1:] - sums[start]) / np.maximum(count, 1.0), np.nan)
    return means


def _means(values: FloatArray, together: int) -> FloatArray:
    whole = values.size // together * together
    means: FloatArray = values[:whole].reshape(-1, together).mean(axis=1)
    return means


def _finish(axes: Axes, times: FloatArray, name: str) -> None:
    axes.set_xlim(times[0], times[-1])
    axes.set_ylim(bottom=0.0)
    axes.tick_params(labelbottom=True)
    axes.yaxis.set_major_formatter(lambda value, _: format_count(value) if value >= 1e4 else f"{value:.6g}")
    axes.set_xlabel(f"time ({name})")


def _leave_room(axes: Axes) -> None:
    """Leave room above the lines for the legend."""
    axes.set_ylim(top=1.22 * axes.get_ylim()[1])
