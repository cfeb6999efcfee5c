# SPDX-License-Identifier: Apache-2.0
"""A run's report: one self-contained HTML page and one picture, written beside the run's knowledge."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from penstock.errors import ConfigurationError
from penstock.evaluation.elasticity import run_elasticity
from penstock.evaluation.history import RunHistory
from penstock.evaluation.judged_plans import judged_plans
from penstock.evaluation.node_use import node_seconds, round_trips_text
from penstock.evaluation.run_reading import read_history
from penstock.money import Cost, money_text
from penstock.ports import KnowledgeStore
from penstock.records import STATISTICS, Decision, Mode, OutcomeStatus
from penstock.units import clock, format_seconds

if TYPE_CHECKING:
    from penstock.evaluation.pictures import Picture

MISSED_TURNS = "passes that fell out: the one before took longer than the interval, so decisions came late"
_DECISIONS_SHOWN = 500
_NOTES_SHOWN = 40
_JUDGED_SHOWN = 100
_SVG_UP_TO = 6000  # observations; beyond it the page carries the PNG, or it would grow by megabytes


@dataclass(frozen=True, slots=True)
class Report:
    """Where a report was written."""

    html: Path
    png: Path


@dataclass(frozen=True, slots=True)
class Card:
    """One figure at the top of the page; `verdict` is "good", "bad" or nothing."""

    title: str
    value: str
    note: str = ""
    verdict: str = ""


def write_report(store: KnowledgeStore, folder: Path) -> Report:
    """Write ``report.html`` and ``report.png`` of the run in `store` into `folder`, each whole or not at all.

    Raises
    ------
    ConfigurationError
        The folder cannot be written to, or the packages for pictures are not installed.
    """
    if not folder.is_dir():
        raise ConfigurationError(f"folder: {folder} is not a folder; make it first, or give another", field="folder")
    history = read_history(store)
    try:
        from penstock.evaluation.pictures import picture_of

        picture = picture_of(history)
        page = render_page(history, picture)
    except ModuleNotFoundError as fault:
        raise ConfigurationError(
            f"report: the package {fault.name} is missing; install it with: pip install 'penstock[report]'",
            field="report",
        ) from fault
    report = Report(folder / "report.html", folder / "report.png")
    try:
        _write_whole(report.png, picture.png)
        _write_whole(report.html, page.encode())
    except OSError as fault:
        raise ConfigurationError(
            f"folder: {folder} cannot be written to: {fault.strerror}; give another one", field="folder"
        ) from fault
    return report


def render_page(history: RunHistory, picture: Picture) -> str:
    """The page as text; whatever came from users or machines is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("penstock.evaluation", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(seconds=format_seconds, clock=clock, moment=history.moment)
    count = sum(len(o) for o in history.observations.values())
    held_back = [d for d in history.decisions if d.amended_by and not d.is_change]
    return environment.get_template("report.html").render(
        history=history,
        cards=cards(history),
        # Markup: our own drawing, whose texts matplotlib has turned into shapes.
        svg=Markup(picture.svg) if count <= _SVG_UP_TO else None,
        png=base64.b64encode(picture.png).decode(),
        changes=history.changes[-_DECISIONS_SHOWN:],
        changes_left_out=max(0, len(history.changes) - _DECISIONS_SHOWN),
        held_back=held_back[-_DECISIONS_SHOWN:],
        held_back_total=len(held_back),
        outcome_text=lambda decision: outcome_text(history, decision),
        notes=history.missing_notes[:_NOTES_SHOWN],
        notes_left_out=max(0, len(history.missing_notes) - _NOTES_SHOWN),
        settings=None if history.settings is None else settings_text(history.settings),
        started=_date(history.started_at),
        latencies=latency_rows(history.summary),
        judged=(judged := judged_plans(history.decisions))[-_JUDGED_SHOWN:],
        judged_left_out=max(0, len(judged) - _JUDGED_SHOWN),
        whole=whole,
    )


def cards(history: RunHistory) -> list[Card]:
    """The figures a reader looks for first."""
    s = history.summary
    result: list[Card] = []
    result += _latency_cards(history)
    for operator in history.operators:
        above = history.time_above_objective(operator)
        if above is not None:
            suffix = f" ({operator})" if len(history.operators) > 1 else ""
            result.append(
                Card(
                    f"Time above the objective{suffix}",
                    f"{above:.0%}",
                    "of the time in which that is known; stalls count",
                )
            )
    due, done = s.get("records_due"), s.get("records_done")
    result.append(Card("Records done", whole(done), f"of {whole(due)} due", _all_done(due, done, history.is_ended)))
    saved = saved_fraction(s)
    if saved is not None:
        result.append(Card("Capacity saved", f"{saved:.0%}", "against the top allocation all the time"))
    if (cost := cost_of(s)) is not None:
        result.append(Card("Cost", money_text(cost.amount, cost.currency), str(cost).partition("; ")[2]))
    share = s.get("cpu_share_mean")
    if share is not None:
        result.append(Card("Mean CPU share", f"{share:.0%}", f"{s.get('executor_seconds', 0.0):.0f} executor-seconds"))
    for path, newest in {one.path: one for one in judged_plans(history.decisions)}.items():
        suffix = f" ({path})" if len(history.operators) > 1 else ""
        note = f"of {newest.judged} plans; confidence asked for: {newest.confidence:.0%}" if newest.confidence else ""
        result.append(Card(f"Measured within the upper end{suffix}", f"{newest.coverage:.0%}", note))
    ups = sum(d.is_growth and not d.is_restart for d in history.changes)
    restarts = sum(d.is_restart for d in history.changes)
    downs = len(history.changes) - ups - restarts
    others = f", {restarts} by restart" if restarts else ""
    note = f"{ups} up, {downs} down{others}; {len(history.decisions)} decisions in all"
    result.append(Card("Changes", str(len(history.changes)), note))
    for operator in history.operators:
        figures = run_elasticity(history, operator)
        if figures is not None:
            suffix = f" ({operator})" if len(history.operators) > 1 else ""
            result.append(Card(f"Elasticity{suffix}", figures.accuracy_text, figures.text))
    for operator in history.operators:
        stood = node_seconds(history.observations.get(operator, ()))
        if stood:
            suffix = f" ({operator})" if len(history.operators) > 1 else ""
            on = ", ".join(f"{node} {seconds / 60.0:.1f}" for node, seconds in stood.items())
            apart = round_trips_text(history.round_trips)
            note = f"executor-minutes on {on}" + (f"; round trips {apart}" if apart else "")
            result.append(Card(f"Nodes used{suffix}", str(len(stood)), note))
    if s.get("faults"):
        result.append(Card("Failed looks", str(s["faults"]), "cycles that could not reach an operator", "bad"))
    if s.get("missed_turns"):
        result.append(Card("Missed turns", str(s["missed_turns"]), MISSED_TURNS, "bad"))
    return result


def _latency_cards(history: RunHistory) -> list[Card]:
    """The steady part first; beside it all records, and while a run goes on those of the last seconds."""
    s = history.summary
    objective, whole_run, steady = s.get("objective") or {}, s.get("latency"), s.get("latency_steady")
    statistic, bound = objective.get("statistic") or "p95", objective.get("seconds")
    result: list[Card] = []
    for latency, met, title in (
        (steady, objective.get("met_steady"), f"Latency {statistic}"),
        (whole_run, objective.get("met"), f"Latency {statistic}{' with the start-up' if steady else ''}"),
    ):
        if latency is not None:
            aim = (
                "no bound was set" if bound is None else f"{'met' if met else 'not met'}: bound {format_seconds(bound)}"
            )
            others = ", ".join(f"{n} {format_seconds(latency.get(n))}" for n in STATISTICS if n != statistic)
            part = "after the start-up; " if latency is steady else ""
            verdict = "" if met is None else "good" if met else "bad"
            result.append(Card(title, format_seconds(latency.get(statistic)), f"{part}{aim}; {others}", verdict))
    if not history.is_ended:
        for operator in history.operators:
            seen = history.observations[operator][-1] if history.observations.get(operator) else None
            if seen is not None and seen.latency is not None:
                suffix = f" ({operator})" if len(history.operators) > 1 else ""
                is_met = history.objective_of(operator).is_met_by(seen.latency)
                verdict = "" if is_met is None else "good" if is_met else "bad"
                value, window = seen.latency.statistic(statistic), format_seconds(seen.window_seconds)
                result.append(
                    Card(f"Latency {statistic} now{suffix}", format_seconds(value), f"last {window}", verdict)
                )
    return result


def latency_rows(summary: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """The parts of the run whose latency is known, each with its name: the steady one, the start-up, all records."""
    named = (("after the start-up", "latency_steady"), ("start-up", "latency_start_up"), ("all records", "latency"))
    return [(name, summary[key]) for name, key in named if summary.get(key) is not None]


def saved_fraction(summary: Mapping[str, Any]) -> float | None:
    """How much less capacity was paid for than the top allocation would have cost; None where it is not known."""
    top, paid = summary.get("static_capacity_seconds"), summary.get("capacity_seconds")
    return None if not top or paid is None else 1.0 - paid / top


def cost_of(summary: Mapping[str, Any]) -> Cost | None:
    """What the run came to in money; None where no prices were given."""
    kept = summary.get("cost")
    return None if not kept else Cost(kept["amount"], kept["static"], str(kept.get("currency") or ""))


def outcome_text(history: RunHistory, decision: Decision) -> str:
    """What became of a decision, in words."""
    if not decision.is_change:
        return "nothing to do"
    if decision.mode is Mode.RECOMMEND:
        return "recommended only"
    outcome = history.outcome_of(decision)
    if outcome is None or outcome.status is OutcomeStatus.PENDING:
        return "no outcome recorded" if history.is_ended else "under way"
    drain = history.draining_since(outcome)
    if outcome.status is OutcomeStatus.DRAINING:
        lasted = f"{max(0.0, (history.ended_at or outcome.at) - outcome.at):.0f} s"
        return f"draining, {lasted}{', when the run ended' if history.is_ended else ''}: {outcome.detail}"
    after, why = format_seconds(outcome.after_seconds), f": {outcome.detail}" if outcome.detail else ""
    if outcome.status is OutcomeStatus.DONE:
        drained = "" if drain is None else f", of which draining {outcome.at - drain:.0f} s"
        return f"done after {after}{drained}{why}"
    word = "failed" if outcome.status is OutcomeStatus.FAILED else "replaced by a later decision"
    return f"{word} after {after}{why}"


def settings_text(settings: Mapping[str, Any]) -> str:
    """Settings as YAML, in the order they were given."""
    return str(yaml.safe_dump(dict(settings), sort_keys=False, allow_unicode=True, default_flow_style=None))


def whole(count: int | None) -> str:
    """A count with its thousands apart; a dash where it is not known."""
    return "-" if count is None else f"{count:,}"


def _all_done(due: int | None, done: int | None, is_ended: bool) -> str:
    if due is None or done is None or not is_ended:
        return ""
    return "good" if due == done else "bad"


def _date(at: float | None) -> str:
    return "-" if at is None else time.strftime("%Y-%m-%d %H:%M:%S (UTC%z)", time.localtime(at))


def _write_whole(path: Path, content: bytes) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
