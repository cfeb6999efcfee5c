# SPDX-License-Identifier: Apache-2.0
"""`penstock policies` and `penstock metrics`: what a settings file, a rule or a page can name."""

from __future__ import annotations

import click

from penstock.cli.failures import debug_option, json_option


@click.command(short_help="The policies there are, what they need, and their options.")
@click.argument("name", required=False)
@json_option
@debug_option
def policies(name: str | None, as_json: bool) -> None:
    """List the policies that a settings file, `attach` and `simulate` can name; with NAME, one with its options.

    A policy that does not plan for a latency bound scales by something else, such as utilisation. Where no policy is
    named, the one marked as default for the goal is used. Packages of other people add policies through the entry
    point group `penstock.policies` (docs/how-to/write-a-policy.md). One that cannot be used is listed with the reason;
    the others can be used all the same.

    --json prints {"policies": [...], "broken": [...]}: of each policy name, summary, needs, reads_objective,
    default_for, cpu_shares, and options with name, default and meaning; of each that cannot be used name, origin and
    reason.

    \b
    Examples:
      penstock policies
      penstock policies mead
      penstock policies --json | jq '.policies[].name'
    """
    from rich.table import Table

    from penstock.cli.output import print_json, words_console
    from penstock.policies import broken_policies, policy_entries, policy_entry

    entries = list(policy_entries().values()) if name is None else [policy_entry(name)]
    broken = [policy for policy in broken_policies() if name in (None, policy.name)]
    console = words_console(as_json)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("policy", no_wrap=True)
    table.add_column("what it does", overflow="fold")
    table.add_column("plans for latency", no_wrap=True)
    table.add_column("needs", overflow="fold")
    for entry in entries:
        default = "" if entry.default_for is None else f" (default for {entry.default_for})"
        needs = ", ".join(sorted(str(need) for need in entry.needs)) or "-"
        table.add_row(entry.name, f"{entry.summary}{default}", "yes" if entry.reads_objective else "no", needs)
    console.print(table)
    if name is not None:
        options = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
        options.add_column("option", no_wrap=True)
        options.add_column("default", no_wrap=True)
        options.add_column("meaning", overflow="fold")
        for option in entries[0].all_options:
            options.add_row(option.name, "null" if option.default is None else str(option.default), option.meaning)
        console.print()
        console.print(options)
    else:
        console.print("\n`penstock policies NAME` shows the options of one.")
    for policy in broken:
        console.print(f"\nbroken: {policy}", markup=False, highlight=False, soft_wrap=True)
    if as_json:
        print_json(
            {"policies": [entry.to_json() for entry in entries], "broken": [policy.to_json() for policy in broken]}
        )


@click.command(short_help="The metrics of an operator, with units and where they come from.")
@json_option
@debug_option
def metrics(as_json: bool) -> None:
    """List the metrics of an operator that rules and pages can name: unit, meaning, and where the number comes from.

    \b
    Examples:
      penstock metrics
      penstock metrics --json
    """
    from rich.table import Table

    from penstock.cli.output import print_json, words_console
    from penstock.metrics import catalogue

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("metric", "unit", "meaning", "origin"):
        table.add_column(heading, overflow="fold")
    for metric in catalogue():
        older = "".join(f" (before: {name})" for name in metric["older_names"])
        table.add_row(metric["name"] + older, *(metric[column] for column in ("unit", "meaning", "origin")))
    words_console(as_json).print(table)
    if as_json:
        print_json({"metrics": catalogue()})
