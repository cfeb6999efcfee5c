# SPDX-License-Identifier: Apache-2.0
"""The page's modules that compute: wording, axes, paths, the drawing's places, events cut anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.page.watched_page import PATIENCE_MS

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

Calculate = Callable[..., Any]
DASH = "\N{EN DASH}"


@pytest.fixture(scope="module")
def calculate(chromium: Browser, address: str) -> Iterator[Calculate]:
    """Calls a function of one of the page's modules, in the page."""
    page = chromium.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(address, timeout=PATIENCE_MS)

    def call(module: str, expression: str, *arguments: Any) -> Any:
        script = (
            f"async (given) => {{ const m = await import('/page/{module}.js'); return ({expression})(m, ...given); }}"
        )
        return page.evaluate(script, list(arguments))

    yield call
    page.close()


def test_numbers_are_short_and_what_is_unknown_is_a_dash(calculate: Calculate) -> None:
    """Three figures count, times have units, and null is never zero."""
    numbers = calculate("wording", "(m, v) => v.map(m.numberText)", [None, 0, 0.0123, 12.34, 1234.5, 250_000, 3.2e7])
    assert numbers == [DASH, "0", "0.0123", "12.3", "1,235", "250 k", "32 M"]
    times = calculate("wording", "(m, v) => v.map(m.secondsText)", [None, 0, 0.25, 1.256, 59.99, 200, 7500, 180_000])
    assert times == [DASH, "0 s", "250 ms", "1.26 s", "60 s", "3 min 20 s", "2 h 5 min", "2 d 2 h"]
    assert calculate("wording", "(m) => m.valueText(0.873, 'fraction')") == "87.3 %"


def test_axes_have_few_round_values_and_reach_the_top(calculate: Calculate) -> None:
    """Whatever the highest value, the axis ends above it, with at most seven round ticks; things stay whole."""
    for top in (0.003, 0.9, 1.0, 7.3, 1999.0, 123_456.0):
        ticks = calculate("axes", "(m, top) => m.valueTicks(top)", top)
        assert ticks[0] == 0
        assert ticks[-1] >= top
        assert 2 <= len(ticks) <= 7
    for top in (0.5, 1.0, 2.0, 3.0, 7.0):
        counted = calculate("axes", "(m, top) => m.valueTicks(top, {areWhole: true})", top)
        assert counted[-1] >= top
        assert all(float(tick).is_integer() for tick in counted)
    day = calculate("axes", "(m) => m.timeTicks(1794873600, 1794960000, 8).map((tick) => tick.at)")
    assert 2 <= len(day) <= 9
    assert {b - a for a, b in pairwise(day)} == {10_800}


def test_backticks_of_the_service_become_code(calculate: Calculate) -> None:
    """What stands between two of them is code; a single one is only a sign, and markup stays text."""
    shown = "(m, text) => m.html('p', null, m.withCode(text)).innerHTML"
    assert calculate("elements", shown, "`best` or <b>`") == "<code>best</code> or &lt;b&gt;`"


def test_a_gap_is_not_drawn_as_a_line(calculate: Calculate) -> None:
    """Unknown values are left out; the line is cut where they last longer than the gap, and not before."""
    draw = "(m, t, v, gap) => m.linePath(t, v, (x) => x, (y) => y, {gapSeconds: gap})"
    times, values = [0, 1, 2, 3, 9], [5, None, 7, 8, 9]
    assert calculate("plot_paths", draw, times, values, 3) == "M0.0 5.0h.01L2.0 7.0L3.0 8.0M9.0 9.0h.01"
    area = "(m, t, low, high) => m.areaPath(t, low, high, (x) => x, (y) => y, 3)"
    assert calculate("plot_paths", area, [0, 1, 2], [1, None, 1], [2, 2, 3]) == "M0.0 2.0L2.0 3.0L2.0 1.0L0.0 1.0Z"


def test_operators_stand_in_layers_without_touching(calculate: Calculate) -> None:
    """Of a hundred operators, every one stands right of what it reads, and no two overlap."""
    names = [f"o{i}" for i in range(100)]
    edges = [{"from": f"o{i}", "to": f"o{j}"} for i in range(100) for j in (i + 7, i + 30) if j < 100]
    box = {"width": 150, "height": 46, "gapX": 66, "gapY": 12}
    places = calculate("graph_layout", "(m, n, e, b) => [...m.layout(n, e, b).nodes]", names, edges, box)
    spots = {name: (spot["x"], spot["y"]) for name, spot in places}
    assert all(spots[edge["from"]][0] + box["width"] < spots[edge["to"]][0] for edge in edges)
    ordered = sorted(spots.values())
    for (x1, y1), (x2, y2) in pairwise(ordered):
        assert x1 != x2 or y2 - y1 >= box["height"]


def test_events_are_read_wherever_they_are_cut(calculate: Calculate) -> None:
    """Split at any character, a stream gives the same events; comments are none."""
    stream = (
        ': welcome\n\nid: 7\nevent: observation\ndata: {"a":\ndata: 1}\n\nevent: end\ndata: {}\n\nid: 8\nevent: cut'
    )
    read = """(m, text) => [...text].map((_, at) => {
      const reader = new m.EventReader();
      return JSON.stringify([...reader.read(text.slice(0, at)), ...reader.read(text.slice(at))]);
    })"""
    found = set(calculate("events", read, stream))
    assert found == {'[{"id":"7","name":"observation","data":"{\\"a\\":\\n1}"},{"id":null,"name":"end","data":"{}"}]'}
