# SPDX-License-Identifier: Apache-2.0
"""The summary of a run in a few lines, shown at its end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from penstock.evaluation.report import MISSED_TURNS, cost_of, saved_fraction, whole
from penstock.records import STATISTICS
from penstock.units import format_seconds, moment


def summary_panel(summary: Mapping[str, Any], report: Path | None = None, *, is_ended: bool = True) -> Panel:
    """Return the summary of a run (as `RunSummary.to_json` returns it) for people."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in _rows(summary):
        table.add_row(label, text)
    if report is not None:
        table.add_row("report", Text(str(report)))
    state = "" if is_ended else f"  (in progress, or interrupted{_newest(summary)})"
    return Panel(table, title=Text(f"{summary.get('name', 'run')}{state}", style="bold"), title_align="left",
                 expand=False, border_style="dim")  # fmt: skip


def _newest(s: Mapping[str, Any]) -> str:
    """When the newest record was made: whether it goes on can be told by that."""
    return f"; newest record {moment(s['ended_at'], s.get('started_at'))}" if s.get("ended_at") else ""


def _rows(s: Mapping[str, Any]) -> list[tuple[str, Text]]:
    due, read, done = (s.get(f"records_{word}") for word in ("due", "read", "done"))
    complete = due is not None and due == done
    rows = [
        ("ran for", Text(f"{format_seconds(s.get('seconds'))}, mode {s.get('mode', '-')}")),
        ("records", Text(f"{whole(due)} due, {whole(read)} read, {whole(done)} done",
                         style="green" if complete else "yellow" if done is not None else "")),
        *_latencies(s),
        ("objective", _objective(s)),
    ]  # fmt: skip
    if s.get("why_ended"):
        rows.insert(1, ("ended", Text(f"{moment(s['ended_at'], s.get('started_at'))}: {s['why_ended']}")))
    paths = s.get("paths") or {}
    if len(paths) > 1:
        rows += [(f"  {path}", _path(facts)) for path, facts in paths.items()]
    share = s.get("cpu_share_mean")
    cost = f"{s.get('executor_seconds', 0.0):,.0f} executor-seconds"
    rows.append(("capacity", Text(cost + ("" if share is None else f" at {share:.0%} mean CPU share"))))
    saved = saved_fraction(s)
    if saved is not None:
        paid, top = s["capacity_seconds"], s["static_capacity_seconds"]
        rows.append(("saved", Text(f"{saved:.0%} of the top allocation ({paid:,.0f} of {top:,.0f} capacity-seconds)")))
    if (price := cost_of(s)) is not None:
        rows.append(("cost", Text(str(price))))
    decisions = s.get("decisions") or []
    ups = sum(1 for d in decisions if d.get("verb") in ("scale out", "scale up"))
    downs = sum(1 for d in decisions if d.get("verb") in ("scale in", "scale down"))
    restarts = sum(1 for d in decisions if str(d.get("verb")).startswith("restart"))
    others = "" if not restarts else f", {restarts} {'restart' if restarts == 1 else 'restarts'}"
    rows.append(("changes", Text(f"{ups + downs + restarts} ({ups} up, {downs} down{others})")))
    rows += _restarts(s.get("operators") or {})
    if busy := (s.get("machine") or {}).get("busy"):
        rows.append(("machine", Text(f"busy: {busy}", style="yellow")))
    if s.get("folder"):
        rows.append(("why", Text(f"penstock explain {s['folder']}")))
    if s.get("faults"):
        rows.append(("faults", Text(f"{s['faults']} cycles could not reach an operator", style="red")))
    if s.get("missed_turns"):
        rows.append(("missed", Text(f"{s['missed_turns']} {MISSED_TURNS}", style="yellow")))
    return rows


def _latencies(s: Mapping[str, Any]) -> list[tuple[str, Text]]:
    """The steady part first, and beside it what the start-up makes of it."""
    steady, start_up = s.get("latency_steady"), s.get("latency_start_up")
    if steady is None:
        return [("latency", _latency(s.get("latency")))]
    rows = [("latency", _latency(steady))]
    if start_up is not None:
        statistic = (s.get("objective") or {}).get("statistic") or "p95"
        of_all = format_seconds((s.get("latency") or {}).get(statistic))
        count, alone = whole(start_up.get("records")), format_seconds(start_up.get(statistic))
        text = f"{statistic} {of_all} with the start-up, of which start-up: {statistic} {alone}, {count} records"
        rows.append(("", Text(text, style="dim")))
    return rows


def _restarts(operators: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, Text]]:
    """Restarts after deaths and for another size, if there were any."""
    rows = []
    deaths = {name: facts["restarts"] for name, facts in operators.items() if facts.get("restarts")}
    if deaths:
        text = ", ".join(f"{name} {count} times" for name, count in deaths.items())
        rows.append(("restarts", Text(f"after deaths: {text}", style="yellow")))
    pauses = {name: facts["resize_pauses_seconds"] for name, facts in operators.items() if facts.get("resizes")}
    if pauses:
        text = "; ".join(f"{name} {len(p)}, paused {', '.join(map(format_seconds, p))}" for name, p in pauses.items())
        rows.append(("resizes", Text(text)))
    return rows


def _latency(latency: Mapping[str, Any] | None) -> Text:
    if latency is None:
        return Text("not known over the whole run", style="dim")
    text = ", ".join(f"{name} {format_seconds(latency.get(name))}" for name in STATISTICS)
    if latency.get("is_exact", True):
        return Text(text)
    return Text(f"{text} (not exact: {latency.get('inexact_because') or 'arrival times were interpolated'})")


def _path(facts: Mapping[str, Any]) -> Text:
    latency, objective = facts.get("latency_steady") or facts.get("latency"), facts.get("objective") or {}
    statistic = objective.get("statistic") or "p95"
    measured = "not known" if latency is None else f"{statistic} {format_seconds(latency.get(statistic))}"
    return Text(f"{measured}, ").append_text(_objective(facts))


def _objective(s: Mapping[str, Any]) -> Text:
    objective = s.get("objective") or {}
    if objective.get("statistic") is None:
        return Text("keep up")
    aim = f"{objective['statistic']} <= {format_seconds(objective.get('seconds'))}"
    met, steady = objective.get("met"), objective.get("met_steady")
    if met is None:
        return Text(f"{aim}: not known", style="dim")
    if steady is not None and steady != met:
        after, with_all = ("met", "not met") if steady else ("not met", "met")
        return Text(f"{aim}: {after} after the start-up, {with_all} with it", style="yellow" if steady else "bold red")
    return Text(f"{aim}: met", style="green") if met else Text(f"{aim}: not met", style="bold red")
