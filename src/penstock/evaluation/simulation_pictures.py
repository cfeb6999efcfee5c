# SPDX-License-Identifier: Apache-2.0
"""Simulated runs of several policies on one trace as one picture: load, latency of each path, CPU over time."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from penstock.evaluation.pictures import BLUE, GREEN, INK, MUTED, ORANGE, PURPLE, RED, STYLE
from penstock.evaluation.simulation_result import SimulationResult, window_starts
from penstock.ports import FloatArray
from penstock.topology import path_text
from penstock.units import format_count, format_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = (BLUE, RED, GREEN, ORANGE, PURPLE, INK)
_MOST_PATHS = 4
_RATE_BINS = 300


def simulation_picture(times: FloatArray, results: Sequence[SimulationResult], title: str = "") -> bytes:
    """Draw results of the same trace as PNG; of many paths those nearest to their bounds, and the title says so."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    shown = _paths_shown(results)
    heights = [1.0, *([1.4] * len(shown)), 1.2]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.5, 1.6 * sum(heights) + 0.6), layout=ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.08))
        panels = list(figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights).flat)
        _draw_rate(panels[0], times)
        for axes, number in zip(panels[1:-1], shown, strict=True):
            _draw_latency(axes, results, number)
        _draw_shares(panels[-1], results)
        panels[-1].set_xlim(0, max(result.seconds for result in results) or 1.0)
        panels[-1].set_xlabel("time since the first arrival (s)")
        left = len(results[0].paths) - len(shown)
        told = [title] if title else []
        if left:
            told.append(f"{left} more paths are farther from their bounds")
        if told:
            figure.suptitle("\n".join(told), x=0.01, ha="left", fontsize=10, parse_math=False, wrap=True)
        handles, labels = panels[-1].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)))
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=150, facecolor="white")
        return file.getvalue()


def _paths_shown(results: Sequence[SimulationResult]) -> list[int]:
    def nearness(number: int) -> float:
        found = [result.paths[number] for result in results]
        return max((p.objective.measured(p.latency) or 0.0) / (p.objective.seconds or 1.0) for p in found)

    nearest = sorted(range(len(results[0].paths)), key=nearness, reverse=True)[:_MOST_PATHS]
    return sorted(nearest)


def _draw_rate(axes: Axes, times: FloatArray) -> None:
    since = times - times[0]
    span = float(since[-1]) or 1.0
    bins = max(10, min(_RATE_BINS, len(since) // 20))
    counts, edges = np.histogram(since, bins=bins, range=(0.0, span))
    axes.stairs(counts / (span / bins), edges, color=INK, linewidth=0.9)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda value, _: format_count(value))
    axes.set_title(f"Arrivals per second, over {span / bins:.3g} s each", loc="left")


def _draw_latency(axes: Axes, results: Sequence[SimulationResult], number: int) -> None:
    for result, colour in zip(results, _colours(len(results)), strict=True):
        path = result.paths[number]
        starts = window_starts(result.seconds, result.window_seconds)
        axes.plot(starts + 0.5 * result.window_seconds, path.windows, color=colour, lw=1.2)
    objective, name = results[0].paths[number].objective, path_text(results[0].paths[number].path)
    axes.axhline(objective.seconds or 0.0, color=MUTED, lw=1.0, ls="--")
    drawn = np.concatenate([result.paths[number].windows for result in results])
    if np.nanmax(drawn, initial=0.0) > 0.0:
        axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: format_seconds(value))
    axes.yaxis.set_minor_formatter(_within_a_decade(axes))
    title = f"Latency on {name}, {objective.statistic} over {results[0].window_seconds:g} s each (dashed: objective)"
    axes.set_title(title, loc="left", parse_math=False)


def _within_a_decade(axes: Axes) -> Callable[[float, float], str]:
    """Names times between powers of ten where there are hardly any of those to name."""

    def told(value: float, _: float) -> str:
        low, high = axes.get_ylim()
        return format_seconds(value) if low > 0 and high / low < 20 else ""

    return told


def _draw_shares(axes: Axes, results: Sequence[SimulationResult]) -> None:
    """Executors times share, over all operators, as a part of the top."""
    for result, colour in zip(results, _colours(len(results)), strict=True):
        steps = result.allocations.values()
        at = np.unique([since for operator in steps for since, _ in operator])
        total = np.zeros(len(at))
        for operator in steps:
            places = np.searchsorted([since for since, _ in operator], at, side="right") - 1
            total += np.array([operator[place][1].capacity for place in places])
        top = result.static_capacity_seconds / result.seconds if result.seconds > 0 else float(total[0])
        label = f"{result.policy} ({result.cost_against_static:.0%} of static)"
        axes.step(
            np.append(at, result.seconds), np.append(total, total[-1]) / top, where="post", color=colour, label=label
        )
    axes.set_ylim(0, 1.05)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.set_title("CPU asked for, as a part of all that may be had", loc="left")


def _colours(count: int) -> list[str]:
    return [_COLOURS[i % len(_COLOURS)] for i in range(count)]
