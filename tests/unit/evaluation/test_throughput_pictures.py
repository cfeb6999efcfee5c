# SPDX-License-Identifier: Apache-2.0
"""The picture of a capacity plan, as its reader sees it: lines that can be told apart, and the samples they are for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex

from penstock.evaluation import throughput_pictures
from penstock.evaluation.capacity_plan import CapacityFit, SizeAnswer, fit_capacity, size_for
from penstock.records import Allocation, ThroughputSample


def drawn(fit: CapacityFit, monkeypatch: pytest.MonkeyPatch, answer: SizeAnswer | None = None) -> Any:
    """The axes of the picture."""
    kept: list[Any] = []

    def keep(figure: Any) -> bytes:
        kept.append(figure)
        return b""

    monkeypatch.setattr(throughput_pictures, "_png", keep)
    throughput_pictures.capacity_picture(fit, "title", answer)
    return kept[0].axes[0]


def sampled(shares: tuple[float, ...] = (1.0,)) -> list[ThroughputSample]:
    """Two samples of each of five sizes, and of each share."""
    generator = np.random.default_rng(2)
    return [
        ThroughputSample(Allocation(m, s), m * s / (1.0 + 0.02 * m * s) * (1.0 + 0.02 * generator.standard_normal()))
        for s in shares
        for m in (1, 2, 4, 8, 16)
        for _ in range(2)
    ]


def test_no_two_models_have_the_same_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all models, every curve of the legend has a colour and dashes of its own."""
    axes = drawn(fit_capacity(sampled(), most=20), monkeypatch)
    lines = [
        line for line in axes.get_lines() if not line.get_label().startswith("_") and line.get_linestyle() != "None"
    ]
    looks = {(to_hex(line.get_color()), line.get_linestyle()) for line in lines}
    assert len(lines) == 7
    assert len(looks) == len(lines)


def test_samples_of_another_share_are_not_drawn_as_if_of_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Points are those of the share that the curves are for, and a line says so."""
    fit = fit_capacity(sampled((0.25, 1.0)), models=("inverse-time", "usl"), most=20, cpu_share=0.25)
    axes = drawn(fit, monkeypatch)
    points = next(line for line in axes.get_lines() if line.get_label() == "samples")
    own = [s.records_per_second for s in fit.samples if s.allocation.cpu_share == 0.25]
    assert sorted(points.get_ydata()) == sorted(own)
    assert "CPU share of 0.25" in axes.get_title(loc="right")
    assert axes.get_ylim()[1] < 10.0


def test_one_executor_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer in the picture is plain English for one as well."""
    fit = fit_capacity(sampled(), models=("inverse-time",), most=20)
    assert drawn(fit, monkeypatch, size_for(fit, 0.5)).texts[0].get_text() == "1 executor for 0.5: enough"
