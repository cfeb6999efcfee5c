# SPDX-License-Identifier: Apache-2.0
"""Pictures of fits and of windows: drawn for every kind of trace, with gaps where nothing is known."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from penstock.apps.characterize import WindowSettings, characterize_gaps
from penstock.arrivals.gaps import MappedGaps
from penstock.evaluation.fit_pictures import _draw_rate, burstiness_picture, fit_picture
from penstock.workload import fit_maps

RNG = np.random.default_rng(1)


@pytest.mark.parametrize(
    "iats",
    [RNG.exponential(1e-3, 2000), np.full(500, 2.0), np.where(RNG.random(2000) < 0.3, 0.0, RNG.exponential(1.0, 2000))],
    ids=["poisson", "constant", "ties"],
)
def test_every_kind_of_window_can_be_drawn(iats: np.ndarray) -> None:
    """Independent, constant and shared times all give a picture (a log axis has no place for 0)."""
    assert fit_picture(iats, fit_maps(iats, best=2, max_states=4)).startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("mean", "title", "top"),
    [(2689.0, "per hour", 10.0), (2.0, "per minute", 200.0), (1e-5, "per second", 5e5), (3e7, "per day", 0.1)],
)
def test_rates_are_shown_in_a_period_that_leaves_something_to_read(mean: float, title: str, top: float) -> None:
    """However slow arrivals are, no two ticks of the rate read alike and the title names the period."""
    figure = Figure()
    axes = figure.subplots()
    _draw_rate(axes, np.random.default_rng(2).exponential(mean, 5000))
    figure.canvas.draw()
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert title in axes.get_title(loc="left")
    assert len(set(labels)) == len(labels) > 2
    assert axes.get_ylim()[1] <= top


@pytest.mark.parametrize("settings", [WindowSettings(500, fit=False), WindowSettings(500, 200, max_states=2)])
def test_windows_over_time_can_be_drawn(settings: WindowSettings) -> None:
    """Side by side or overlapping, with fits or without, also where the last window is too short for numbers."""
    gaps = MappedGaps(RNG.exponential(1.0, 1030))
    rows = [row for name in ("a$b", "c") for row in characterize_gaps(name, gaps, settings)]
    assert burstiness_picture(rows).startswith(b"\x89PNG")
    assert burstiness_picture(rows[:1]).startswith(b"\x89PNG")


def test_the_title_names_the_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said of the trace stands above the picture, letter by letter."""
    titles: list[tuple[str, bool]] = []
    monkeypatch.setattr(Figure, "suptitle", lambda _, text, **how: titles.append((text, how["parse_math"])))
    iats = RNG.exponential(1e-3, 600)
    fit_picture(iats, fit_maps(iats, best=1, max_states=2), "costs_$a$.txt: 600 inter-arrival times")
    assert titles == [("costs_$a$.txt: 600 inter-arrival times", False)]
