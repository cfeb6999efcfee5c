# SPDX-License-Identifier: Apache-2.0
"""The picture of a run: gaps where nothing is known, shades where the objective was missed."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from penstock.evaluation import read_history
from penstock.evaluation.pictures import draw, picture_of, with_pauses
from penstock.knowledge import MemoryStore
from penstock.testing import an_observation
from penstock.testing.synthetic_run import START, fill_store
from penstock.units import moment

RATES, BACKLOG, LATENCY, UTILISATION, EXECUTORS, SHARE = range(6)


@pytest.fixture(scope="module")
def panels() -> Any:
    """The panels of a run of one operator."""
    store = MemoryStore()
    fill_store(store, "log-analysis")
    return draw(read_history(store)).axes


def _line(panel: Any, label: str) -> Any:
    return next(line for line in panel.lines if line.get_label() == label)


def test_what_is_not_known_is_a_gap(panels: Any) -> None:
    """Missing utilisation (150 to 161 s, and the first 5 s) is not drawn, and never as zero."""
    values = np.asarray(panels[UTILISATION].lines[0].get_ydata())
    assert np.isnan(values[150:162]).all()
    assert np.isnan(values[:5]).all()
    assert np.isfinite(values[5:150]).all()
    assert values[np.isfinite(values)].min() > 0.1


def test_panels_share_time_and_have_titles(panels: Any) -> None:
    """Six panels over the same time, each with its title."""
    assert len(panels) == 6
    assert len({panel.get_xlim() for panel in panels}) == 1
    assert [panel.get_title(loc="left") for panel in panels] == [
        "Records per second", "Backlog (records)", "Record latency", "Utilisation (CPU used of allowed)",
        "Executors", "CPU share",
    ]  # fmt: skip


def test_breaches_are_shaded(panels: Any) -> None:
    """The objective is a line, and the one span above it is shaded."""
    assert list(_line(panels[LATENCY], "objective p95 \u2264 3.00 s").get_ydata()) == [3.0, 3.0]
    (shade,) = panels[LATENCY].patches
    assert 50 < shade.get_x() < shade.get_x() + shade.get_width() < 115


def test_changes_are_marked(panels: Any) -> None:
    """Each change of the CPU share is a mark at its target."""
    marks = [line for line in panels[SHARE].lines if line.get_marker() in "^v" and len(line.get_xdata())]
    assert [float(mark.get_ydata()[0]) for mark in marks][:3] == [0.55, 0.7, 0.85]
    assert {mark.get_marker() for mark in marks} == {"^", "v"}


def test_several_operators_are_columns() -> None:
    """Each operator has a column; a name with signs of a formula or of a page does no harm."""
    store = MemoryStore()
    fill_store(store, "parser", "ma$t$ch <script>", seconds=30)
    picture = picture_of(read_history(store))
    assert picture.png.startswith(b"\x89PNG")
    assert "<script" not in picture.svg
    # Colours are variables of the page, so that it may be light or dark, and nothing outside is asked for.
    assert picture.svg.startswith("<svg")
    assert "var(--ink)" in picture.svg
    assert "#1f2328" not in picture.svg
    assert "http" not in picture.svg.replace("http://www.w3.org", "")


def test_a_pause_breaks_the_lines() -> None:
    """Where nobody looked for long, the line breaks instead of bridging the time."""
    seen = [an_observation(at=float(at)) for at in (0, 1, 2, 3, 60, 61)]
    assert [observation is None for _, observation in with_pauses(seen)] == [False] * 4 + [True] + [False] * 2
    assert with_pauses([]) == []


def test_a_lonely_value_is_a_dot() -> None:
    """One known value between unknown ones is drawn as a dot: a line would not show it."""
    store = MemoryStore()
    for at, backlog in enumerate([None, 7, None]):
        store.add_observation(an_observation(operator="op", at=float(at), backlog_records=backlog))
    dots = [line for line in draw(read_history(store)).axes[BACKLOG].lines if line.get_marker() == "."]
    assert [np.asarray(dot.get_ydata()).tolist() for dot in dots] == [[7.0]]


def test_nothing_measured_is_said() -> None:
    """A panel without any value says so instead of being empty."""
    store = MemoryStore()
    store.add_observation(an_observation(operator="op", at=1.0, utilisation=None))
    store.add_observation(an_observation(operator="op", at=2.0, utilisation=None))
    axes = draw(read_history(store)).axes[UTILISATION]
    assert [text.get_text() for text in axes.texts] == ["not measured"]
    assert math.isclose(axes.get_ylim()[1], 1.02)


def test_restarts_start_up_and_lost_exactness_are_marked() -> None:
    """A restart crosses all panels; the start-up is shaded and a bar shows where latency was not exact."""
    store = MemoryStore()
    exact = an_observation().latency
    assert exact is not None
    for at in range(100):
        is_lost = 50 <= at < 60
        latency = replace(exact, is_exact=not is_lost, inexact_because="away" if is_lost else "")
        run = "one" if at < 70 else "two"
        store.add_observation(an_observation(operator="op", at=1000.0 + at, latency=latency, query_run=run))
    kept = {"at": 1099.0, "operator": {"steady_from": 1030.0}, "path": None}
    store.set_fact("latency of op", json.dumps(kept))
    axes: list[Any] = list(draw(read_history(store)).axes)
    for panel in axes:
        assert 70.0 in [float(line.get_xdata()[0]) for line in panel.lines if len(line.get_xdata()) == 2]
    spans = {patch.get_label(): patch for patch in axes[LATENCY].patches}
    assert (spans["start-up"].get_x(), spans["start-up"].get_width()) == (0.0, 30.0)
    assert (spans["not exact"].get_x(), spans["not exact"].get_width()) == (50.0, 10.0)
    assert "restart" in [text.get_text() for text in axes[EXECUTORS].get_legend().get_texts()]


def test_the_axis_has_the_clock_of_the_log(panels: Any) -> None:
    """Under the time since the first look stands the local time of the same instant."""
    label = panels[SHARE].xaxis.get_major_formatter()(60.0, 0)
    assert label == f"1:00\n{moment(START + 60.0, None)}"
