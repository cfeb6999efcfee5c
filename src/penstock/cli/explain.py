# SPDX-License-Identifier: Apache-2.0
"""`penstock explain`: what a run decided, and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.failures import debug_option, json_option
from penstock.cli.runs import RunPlace
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from penstock.evaluation import RunHistory
    from penstock.evaluation.run_events import Restart
    from penstock.knowledge.run_notes import RunNote
    from penstock.monitor.exactness import ExactnessChange
    from penstock.records import Decision
    from penstock.stores import StorePlace

_MOST_REASONS = 8
"""Most reasons for holding that are shown."""


@click.command(short_help="Show what a run decided, why, and with what outcome.")
@click.argument("run", metavar="[RUN]", required=False, type=RunPlace())
@click.option("--last", type=click.IntRange(min=1), default=20, show_default=True, metavar="N", help="How many.")
@click.option("--all", "with_holds", is_flag=True, help="Also show decisions to hold.")
@click.option("--operator", metavar="NAME", help="Only this operator.")
@json_option
@debug_option
def explain(run: StorePlace | None, last: int, with_holds: bool, operator: str | None, as_json: bool) -> None:
    """Show what RUN decided, why, and with what outcome.

    RUN is a run's folder or its knowledge.sqlite. Default: the newest under runs/. It also works while a run is in
    progress.

    \b
    Each decision shows
      when (local time, and since the first look), and from what size to what size
      because ...            the policy's reason
      GUARD changed ...      how a guard (limits, cooldown, ...) changed it
      not ...                the sizes that were considered and rejected
      evidence               the measurements it was based on
      outcome                whether and how fast the change took effect; "draining" while executors still go

    Where nothing was changed, the reasons for that are shown by count.
    Between the decisions stand restarts, where latency stopped being exact or was exact again, and what else was said:
    deaths, faults, an objective out of reach.

    \b
    Examples:
      penstock explain                   the last 20 changes of the newest run
      penstock explain runs/demo-20260101-120000 --all --last 5
      penstock explain --json | jq '.decisions[].reason'
    """
    from dataclasses import asdict

    from penstock.cli.output import print_json, words_console
    from penstock.cli.runs import find_run, opened
    from penstock.evaluation import read_history
    from penstock.evaluation.report import outcome_text
    from penstock.records import Decision

    found = find_run(run)
    with opened(found) as store:
        history = read_history(store)
    if operator is not None and operator not in history.operators:
        known = ", ".join(history.operators) or "none"
        raise ConfigurationError(
            f"--operator: {operator!r} is not in this run; its operators: {known}", field="--operator"
        )
    wanted = [
        d for d in history.decisions if (with_holds or d.is_change) and (operator is None or d.operator == operator)
    ]
    shown = wanted[-last:]
    console = words_console(as_json)
    chosen = " (the newest)" if found.was_chosen else ""
    kind = "decisions" if with_holds else "changes"
    console.print(
        f"{found.shown}{chosen}: {history.name}, objective {history.objective_text}{_policy_text(history)}",
        markup=False,
        soft_wrap=True,
    )
    console.print(
        f"{len(shown)} of {len(wanted)} {kind}; {len(history.decisions)} decisions in all"
        + ("" if with_holds else ", --all also shows holds"),
        markup=False,
        soft_wrap=True,
    )
    for line in (*latency_lines(history, operator), *_node_lines(history)):
        console.print(line, markup=False, soft_wrap=True)
    holds = history.hold_reasons(operator)
    if not wanted and holds:
        console.print("\nwhy nothing was changed, and how often:", soft_wrap=True)
        for reason, count in holds[:_MOST_REASONS]:
            console.print(f"  {count:>5} x  {reason}", markup=False, soft_wrap=True)
        if len(holds) > _MOST_REASONS:
            console.print(f"  and {len(holds) - _MOST_REASONS} other reasons; --all shows every decision")
    since = shown[0].at if len(shown) < len(wanted) else float("-inf")
    events: list[Decision | Restart | ExactnessChange | RunNote] = [
        event
        for event in _events(history)
        # What is said of the run, its cluster or its streams concerns every operator.
        if event.at >= since and (operator in (None, event.operator) or event.operator not in history.operators)
    ]
    for what in sorted([*shown, *events], key=lambda event: event.at) if not as_json else ():
        first, *rest = what.explain().splitlines() if isinstance(what, Decision) else [str(what)]
        console.print(f"\n{history.moment(what.at)}  {first}", markup=False, style="bold", soft_wrap=True)
        for line in rest:
            console.print(f"  {line.strip()}", markup=False, soft_wrap=True)
        if isinstance(what, Decision) and what.is_change and what.mode == "act":
            console.print(f"  outcome: {outcome_text(history, what)}", markup=False, soft_wrap=True)
    if as_json:
        print_json(
            {
                "run": found.place,
                "name": history.name,
                "objective": history.objective_text,
                "policy": _policy(history),
                "is_ended": history.is_ended,
                "round_trips": [list(measured) for measured in history.round_trips],
                "started_at": history.started_at,
                **{key: history.summary.get(key) for key in ("latency", "latency_steady", "latency_start_up")},
                "restarts": [{"operator": r.operator, "at": r.at, "text": str(r)} for r in history.restarts],
                "exactness": [
                    {"operator": c.operator, "at": c.at, "is_exact": c.is_exact, "why": c.why}
                    for c in history.exactness_changes
                ],
                "notes": [asdict(note) for note in history.notes],
                "decisions": [as_plain(history, decision) for decision in shown],
                "holds": [{"reason": reason, "count": count} for reason, count in holds],
            }
        )


def latency_lines(history: RunHistory, operator: str | None = None) -> list[str]:
    """The latency of the run, a line for its parts and one for each operator's last seconds."""
    from penstock.evaluation.report import latency_rows
    from penstock.units import format_seconds

    statistic = (history.summary.get("objective") or {}).get("statistic") or "p95"
    lines = []
    parts = [f"{name} {format_seconds(part.get(statistic))}" for name, part in latency_rows(history.summary)]
    if parts:
        lines.append(f"latency {statistic}: {', '.join(parts)}")
    for name in history.operators:
        seen = history.observations.get(name) or ()
        if seen and seen[-1].latency is not None and operator in (None, name):
            value = format_seconds(seen[-1].latency.statistic(statistic))
            window = format_seconds(seen[-1].window_seconds)
            lines.append(
                f"latency {statistic} of {name} over the last {window}, up to {history.moment(seen[-1].at)}: {value}"
            )
    return lines


def _node_lines(history: RunHistory) -> list[str]:
    """How far nodes are apart, where that was measured."""
    from penstock.evaluation.node_use import round_trips_text

    return [f"round trips: {round_trips_text(history.round_trips)}"] if history.round_trips else []


def _events(history: RunHistory) -> Iterator[Restart | ExactnessChange | RunNote]:
    yield from history.restarts
    yield from history.exactness_changes
    yield from history.notes


def _policy(history: RunHistory) -> str | None:
    policy = (history.settings or {}).get("policy") or {}
    return policy.get("name") if isinstance(policy, dict) else None


def _policy_text(history: RunHistory) -> str:
    name = _policy(history)
    return "" if name is None else f", policy {name}"


def as_plain(history: RunHistory, decision: Decision) -> dict[str, Any]:
    """Return a decision with its outcome as plain data."""
    import json

    from penstock.evaluation.report import outcome_text
    from penstock.records import encode

    outcome = history.outcome_of(decision)
    return {
        **json.loads(encode(decision)),
        "verb": decision.verb,
        "seconds_since_start": history.since_start(decision.at),
        "outcome": None if outcome is None else json.loads(encode(outcome)),
        "outcome_text": outcome_text(history, decision),
    }
