# SPDX-License-Identifier: Apache-2.0
"""Throughput over delay as a picture: what was measured with each number of executors, and the laws through it."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from penstock.evaluation.pictures import BLUE, GREEN, MUTED, ORANGE, PURPLE, RED, STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from penstock.evaluation.delay_law_experiment import PlacedExperiment
    from penstock.evaluation.reproduce_delay_law import JudgedConfiguration
    from penstock.performance.throughput.curve_model import CurveModel

_COLOURS = (BLUE, ORANGE, GREEN, RED, PURPLE)
_DASHES = {"power-law": ":", "batch-time": "-", "fetch-time": "--"}


def delay_law_picture(
    experiment: PlacedExperiment,
    judged: Sequence[JudgedConfiguration],
    fitted: Mapping[str, Mapping[str, CurveModel]],
) -> bytes:
    """Draw a panel for each variant: filled points calibrated the laws, hollow ones were predicted."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    names = [variant.name for variant in experiment.variants]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(4.6 * len(names) + 0.6, 4.0), layout=ConstrainedLayoutEngine())
        for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
            _panel(axes, [one for one in judged if one.variant == name], fitted[name])
            axes.set_title(name, fontsize=9)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=120, facecolor="white")
    return buffer.getvalue()


def _panel(axes: Axes, judged: Sequence[JudgedConfiguration], laws: Mapping[str, CurveModel]) -> None:
    sizes = sorted({one.configuration.executors for one in judged})
    farthest = max((one.configuration.round_trip for one in judged), default=0.0)
    delays = np.linspace(0.0, farthest or 0.1, 60)
    for number, executors in enumerate(sizes):
        colour = _COLOURS[number % len(_COLOURS)]
        for one in judged:
            if one.configuration.executors == executors:
                spread = float(np.std(one.rates, ddof=1)) if len(one.rates) > 1 else 0.0
                axes.errorbar(
                    [1000.0 * one.configuration.round_trip], [one.mean], yerr=[spread], fmt="o", color=colour,
                    capsize=3, markerfacecolor=colour if one.is_calibration else "white",
                )  # fmt: skip
        for name, law in laws.items():
            values = np.array([float(value) for value in law.parameters.values()])
            size, speed = np.full_like(delays, executors), np.ones_like(delays)
            axes.plot(
                1000.0 * delays, law.curve(values, size, speed, delays), _DASHES[name], color=colour, linewidth=1.2
            )
        axes.plot([], [], "o", color=colour, label=f"{executors} executor{'s' if executors > 1 else ''}")
    for name in laws:
        axes.plot([], [], _DASHES[name], color=MUTED, label=name)
    axes.plot([], [], "o", color=MUTED, markerfacecolor="white", label="predicted")
    axes.set_xlabel("round trip, ms")
    axes.set_ylabel("records per second")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=7)
