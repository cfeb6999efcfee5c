# SPDX-License-Identifier: Apache-2.0
"""`penstock explain`: what a run decided, and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.failures import debug_option, json_option
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from penstock.evaluation import RunHistory
    from penstock.records import Decision


@click.command(short_help="Show what a run decided, why, and with what outcome.")
@click.argument("run", metavar="[RUN]", required=False, type=click.Path(path_type=Path))
@click.option("--last", type=click.IntRange(min=1), default=20, show_default=True, metavar="N", help="How many.")
@click.option("--all", "with_holds", is_flag=True, help="Also show decisions to hold.")
@click.option("--operator", metavar="NAME", help="Only this operator.")
@json_option
@debug_option
def explain(run: Path | None, last: int, with_holds: bool, operator: str | None, as_json: bool) -> None:
    """Show what RUN decided, why, and with what outcome.

    RUN is a run's folder or its knowledge.sqlite. Default: the newest under runs/. It also works while a run is in
    progress.

    \b
    Each decision shows
      when, and from what size to what size
      because ...            the policy's reason
      GUARD changed ...      how a guard (limits, cooldown, ...) changed it
      not ...                the sizes that were considered and rejected
      evidence               the measurements it was based on
      outcome                whether and how fast the change took effect

    \b
    Examples:
      penstock explain                   the last 20 changes of the newest run
      penstock explain runs/demo-20260101-120000 --all --last 5
      penstock explain --json | jq '.decisions[].reason'
    """
    from penstock.cli.output import print_json, words_console
    from penstock.cli.runs import find_run, opened
    from penstock.evaluation import read_history
    from penstock.evaluation.report import clock, outcome_text

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
        f"{found.folder}{chosen}: {history.name}, objective {history.objective_text}", markup=False, soft_wrap=True
    )
    console.print(
        f"{len(shown)} of {len(wanted)} {kind}; {len(history.decisions)} decisions in all"
        + ("" if with_holds else ", --all also shows holds"),
        markup=False,
        soft_wrap=True,
    )
    for decision in shown if not as_json else ():
        first, *rest = decision.explain().splitlines()
        console.print(
            f"\n{clock(history.since_start(decision.at)):>7}  {first}", markup=False, style="bold", soft_wrap=True
        )
        for line in rest:
            console.print(f"         {line.strip()}", markup=False, soft_wrap=True)
        if decision.is_change and decision.mode == "act":
            console.print(f"         outcome: {outcome_text(history, decision)}", markup=False, soft_wrap=True)
    if as_json:
        print_json(
            {
                "run": str(found.folder),
                "name": history.name,
                "objective": history.objective_text,
                "is_ended": history.is_ended,
                "decisions": [as_plain(history, decision) for decision in shown],
            }
        )


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
