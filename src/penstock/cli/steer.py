# SPDX-License-Identifier: Apache-2.0
"""`penstock status`, `pause`, `resume` and `policy`: look at a run that goes on, and steer it, over its HTTP API."""

from __future__ import annotations

import getpass
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from penstock.cli.failures import debug_option, json_option
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from rich.console import Console

F = TypeVar("F", bound=Callable[..., Any])

_run = click.argument("run", metavar="[RUN]", required=False, type=click.Path(path_type=Path))
_operator = click.option("--operator", metavar="NAME", help="Of one operator.  [default: all]")


def order_options(command: F) -> F:
    """Add who and why to a command that steers."""
    command = click.option("--by", metavar="NAME", help="Who says so.  [default: your user name]")(command)
    return click.option("--reason", default="", metavar="TEXT", help="Why: it is kept, and shown.")(command)


@click.command(short_help="What happens in a run now, and why.")
@_run
@json_option
@debug_option
def status(run: Path | None, as_json: bool) -> None:
    """Show what a run that goes on has, and what happens now, with the reason.

    RUN is the folder of a run that was started with --page, or FOLDER/NAME of a master's query. Default: the newest
    under runs/.

    \b
    Examples:
      penstock status
      penstock status runs/logs-20260101-120000
      penstock status --json | jq '.operators[].why'
    """
    from penstock.cli.output import print_json, words_console
    from penstock.cli.service_client import pipeline_path, service_of_run

    service = service_of_run(run)
    shown = service.get(pipeline_path(service.pipeline()))
    _show(shown, words_console(as_json))
    if as_json:
        print_json(shown)


@click.command(short_help="Let a run go on without being scaled.")
@_run
@_operator
@order_options
@json_option
@debug_option
def pause(run: Path | None, operator: str | None, reason: str, by: str | None, as_json: bool) -> None:
    """Watch a run and decide nothing until `penstock resume`. The pipeline itself goes on.

    Lost executors are still asked for again, and every hold says who paused it and why.

    \b
    Examples:
      penstock pause --reason "deploying the sink"
      penstock pause runs/logs-20260101-120000 --operator parser
    """
    _order(run, "pause", {"operator": operator}, reason=reason, by=by, as_json=as_json)


@click.command(short_help="Let a run be scaled again.")
@_run
@_operator
@order_options
@json_option
@debug_option
def resume(run: Path | None, operator: str | None, reason: str, by: str | None, as_json: bool) -> None:
    """Lift a pause, and end a size that was set by hand.

    This is about a run that goes on. To go on with a run whose controller died, use `penstock run --resume`.

    \b
    Examples:
      penstock resume
      penstock resume runs/logs-20260101-120000 --operator parser
    """
    _order(run, "resume", {"operator": operator}, reason=reason, by=by, as_json=as_json)


@click.command(short_help="Let another policy decide in a run that goes on.")
@click.argument("name", metavar="[NAME]", required=False)
@click.option("--run", "run", type=click.Path(path_type=Path), help="Folder of the run.  [default: the newest]")
@click.option("--option", "options", multiple=True, metavar="NAME=VALUE", help="An option; may be given several times.")
@click.option("--rules", metavar="RULES", help="Rules: a .rules or .yaml file, or a list in Python as module:name.")
@click.option("--dry-run", is_flag=True, help="Only say what it would decide now; nothing changes.")
@click.option("--rollback", is_flag=True, help="Let the policy before decide again.")
@order_options
@json_option
@debug_option
def policy(
    *,
    name: str | None,
    run: Path | None,
    options: tuple[str, ...],
    rules: str | None,
    dry_run: bool,
    rollback: bool,
    reason: str,
    by: str | None,
    as_json: bool,
) -> None:
    """Let the policy NAME decide in a run that goes on, without a pause of the pipeline.

    It is checked as that of a settings file is; one that is wrong changes nothing. Values of options are YAML.
    With --rules alone, rules decide; with NAME and --rules, the rules stand around the policy.

    \b
    Examples:
      penstock policy threshold --option upper=0.7 --dry-run
      penstock policy threshold --option upper=0.7 --reason "spare some"
      penstock policy --rules calm.rules
      penstock policy --rollback
    """
    from penstock.cli.service_client import pipeline_path, service_of_run

    if rollback and (name or options or rules):
        raise ConfigurationError("--rollback: takes no policy; give it alone, or with --dry-run", field="--rollback")
    if not rollback and name is None and rules is None:
        raise ConfigurationError("NAME: is missing; name a policy (`penstock policies`), or give --rules", field="NAME")
    if rollback:
        _order(run, "policy/rollback", {"dry_run": dry_run}, reason=reason, by=by, as_json=as_json)
        return
    body = {
        "policy": name,
        "options": dict(map(_option, options)),
        "rules": None if rules is None else _rules_text(rules),
        "dry_run": dry_run,
        **_who(reason, by),
    }
    service = service_of_run(run)
    answer = service.send("PUT", pipeline_path(service.pipeline(), "policy"), body)
    _say(answer, as_json)


def _order(run: Path | None, what: str, body: dict[str, Any], *, reason: str, by: str | None, as_json: bool) -> None:
    from penstock.cli.service_client import pipeline_path, service_of_run

    service = service_of_run(run)
    answer = service.send("POST", pipeline_path(service.pipeline(), what), {**body, **_who(reason, by)})
    _say(answer, as_json)


def _who(reason: str, by: str | None) -> dict[str, str]:
    return {"reason": reason, "by": by or getpass.getuser()}


def _rules_text(given: str) -> str:
    """Rules as text, wherever they stand here: the service takes no names of files."""
    from penstock.rules import read_rules
    from penstock.rules.to_text import to_text

    return to_text(read_rules(given))


def _option(text: str) -> tuple[str, Any]:
    import yaml

    name, equals, value = text.partition("=")
    try:
        read = yaml.safe_load(value) if equals else None
    except yaml.YAMLError:
        read = None
    if not equals or not name.strip():
        raise ConfigurationError(f"--option: cannot read {text!r}; write it like upper=0.7", field="--option")
    return name.strip(), read


def _say(answer: dict[str, Any], as_json: bool) -> None:
    from penstock.cli.output import print_json, words_console

    console = words_console(as_json)
    entry = answer.get("audit")
    if entry is not None:
        console.print(entry["text"], markup=False, soft_wrap=True)
    elif not answer.get("dry_run"):
        console.print("it was so already; nothing was changed")
    for decision in answer.get("would_decide") or ():
        would = "would decide" if answer.get("dry_run") else "decides"
        console.print(f"{answer['policy']['name']} {would}: {decision['explanation']}", markup=False, soft_wrap=True)
    for note in answer.get("notes") or ():
        console.print(note, style="yellow", markup=False, soft_wrap=True)
    if as_json:
        print_json(json.loads(json.dumps(answer)))


def _show(shown: dict[str, Any], console: Console) -> None:
    from rich.table import Table

    policy_name = (shown["policy"] or {}).get("name")
    phase = f", {shown['phase']}" if shown["phase"] else ""
    console.print(f"{shown['name']}: mode {shown['mode']}, policy {policy_name}{phase}", markup=False, soft_wrap=True)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("operator", "has", "may have", "objective", "now"):
        table.add_column(title, overflow="fold")
    for one in shown["operators"]:
        limits = one["limits"]
        has = "-" if one["observed"] is None else one["observed"]["text"]
        met = {True: " (met)", False: " (broken)", None: ""}[one["is_meeting_objective"]]
        table.add_row(
            one["name"],
            has,
            f"{limits['min_executors']} to {limits['max_executors']} executors",
            f"{one['objective']['text']}{met}",
            one["why"],
        )
    console.print(table)
