# SPDX-License-Identifier: Apache-2.0
"""`penstock rules`: checks scaling rules before they run, and says what they mean."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.failures import BAD_INPUT, debug_option, json_option

if TYPE_CHECKING:
    from penstock.records import Limits


@click.group(short_help="Check scaling rules, and explain them.")
def rules() -> None:
    """Check scaling rules before they run, and say what they mean.

    A file that ends in .rules has rules as text, one that ends in .yaml or .yml as YAML. MODULE:NAME is a list of rules
    in Python, in a module of this folder or an installed one. docs/reference/rules.md shows all forms side by side.

    \b
    Examples:
      penstock rules check calm.rules
      penstock rules check calm.rules --pipeline pipeline.yaml
      penstock rules show calm.yaml --as text
    """


@rules.command(short_help="Report every mistake in a file of rules, and every doubt.")
@click.argument("file")
@click.option(
    "--pipeline",
    type=click.Path(path_type=Path),
    help="The settings file of the pipeline: its operators' names and limits are checked as well.",
)
@json_option
@debug_option
@click.pass_context
def check(context: click.Context, file: str, pipeline: Path | None, as_json: bool) -> None:
    """Report every mistake in FILE with line and column, and every doubt.

    Doubts are about rules that can fire together in opposite directions (with an example), rules that can never fire,
    rules that another rule always shadows, and limits that contradict each other or the operator's own. Rules with
    doubts can be run; rules with mistakes cannot.

    --json prints {"rules": COUNT, "mistakes": [...], "doubts": [...]}, each with its line, column, message and the
    names of its rules. The exit code is 0 if there is no mistake, and 2 otherwise.

    \b
    Examples:
      penstock rules check calm.rules
      penstock rules check calm.rules --pipeline pipeline.yaml
      penstock rules check my_rules:calm
      penstock rules check calm.yaml --json | jq '.doubts[].message'
    """
    from penstock.cli.output import print_json, prints_to_stderr, words_console
    from penstock.rules.checker import check_rules
    from penstock.running.modules_beside import modules_beside

    with modules_beside(pipeline or Path(file)), prints_to_stderr():
        found = check_rules(file, None if pipeline is None else _limits(pipeline))
    console = words_console(as_json)
    for kind, findings in (("mistake", found.mistakes), ("doubt", found.doubts)):
        for finding in findings:
            place = f"{finding.place.source or file}:{finding.place.line}:{finding.place.column}"
            console.print(f"{place}: {kind}: {finding.message}", markup=False, highlight=False, soft_wrap=True)
    counts = [
        _counted(found.rules, "rule"),
        _counted(len(found.mistakes), "mistake"),
        _counted(len(found.doubts), "doubt"),
    ]
    console.print(f"{file}: {', '.join(counts)}", markup=False, highlight=False, soft_wrap=True)
    if as_json:
        print_json(found.to_json())
    context.exit(BAD_INPUT if found.mistakes else 0)


@rules.command(short_help="Explain rules in plain English, or convert them to another form.")
@click.argument("file")
@click.option(
    "--as",
    "form",
    type=click.Choice(["words", "text", "yaml", "python"]),
    default="words",
    show_default=True,
    help="A plain explanation (words), or the same rules in another form.",
)
@debug_option
def show(file: str, form: str) -> None:
    """Explain the rules in FILE in plain English, or convert them to another form.

    The other forms mean exactly the same: what is shown can be written to a file and used in place of FILE.

    \b
    Examples:
      penstock rules show calm.rules
      penstock rules show calm.rules --as yaml > calm.yaml
      penstock rules show my_rules:calm --as text > calm.rules
    """
    from penstock.cli.output import prints_to_stderr
    from penstock.rules.explain import explain
    from penstock.rules.reading import read_rules
    from penstock.rules.to_python import to_python
    from penstock.rules.to_text import to_text
    from penstock.rules.yaml_form import to_yaml
    from penstock.running.modules_beside import modules_beside

    forms = {"words": explain, "text": to_text, "yaml": to_yaml, "python": to_python}
    with modules_beside(Path(file)), prints_to_stderr():
        found = read_rules(file)
    click.echo(forms[form](found), nl=False)


def _limits(pipeline: Path) -> dict[str, Limits]:
    """What each operator may have; where it sets no CPU shares, it has those of the policy."""
    from dataclasses import replace

    from penstock.evaluation.policy_text import policy_in
    from penstock.settings import load_settings

    settings = load_settings(pipeline)
    shares = policy_in(settings, settings.path_objectives().values()).cpu_shares
    return {
        operator.name: operator.limits() if operator.cpu_shares else replace(operator.limits(), cpu_shares=shares)
        for operator in settings.operators
    }


def _counted(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
