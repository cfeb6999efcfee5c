# SPDX-License-Identifier: Apache-2.0
"""Marks in a run's picture: the start-up, where latency was not exact, and restarts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.evaluation.history import RunHistory
from penstock.evaluation.run_events import inexact_spans

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_GREY, _PURPLE = "#59636e", "#aa4a88"
_RESTART: dict[str, Any] = {"color": _PURPLE, "linestyle": (0, (4, 2)), "linewidth": 1.1}


def mark_start_up(axes: Axes, history: RunHistory, operator: str) -> None:
    """Shade the time in which records arrived that count as start-up."""
    steady_from, ended_at = history.steady_from(operator), history.ended_at
    if steady_from is not None and ended_at is not None:
        end = history.since_start(min(steady_from, ended_at))
        axes.axvspan(0.0, end, color=_GREY, alpha=0.16, linewidth=0, zorder=0.4, label="start-up")


def mark_inexact(axes: Axes, history: RunHistory, operator: str) -> None:
    """Draw a bar along the top of the panel wherever latency was not exact."""
    spans = inexact_spans(history.exactness_changes, operator, history.ended_at or 0.0)
    for number, (start, end) in enumerate(spans):
        label = "not exact" if number == 0 else "_"
        begin, finish = history.since_start(start), history.since_start(end)
        axes.axvspan(begin, finish, 0.95, 1.0, color=_PURPLE, alpha=0.8, linewidth=0, label=label)


def mark_restarts(panels: Sequence[Axes], history: RunHistory, operator: str, *, named_in: Axes) -> bool:
    """Draw a broken line through all panels at each restart; gives whether there was one."""
    found = [restart for restart in history.restarts if restart.operator == operator]
    for restart in found:
        for panel in panels:
            panel.axvline(history.since_start(restart.at), zorder=0.6, **_RESTART)
    if found:
        named_in.plot([], [], label="restart", **_RESTART)
    return bool(found)
