# SPDX-License-Identifier: Apache-2.0
"""`penstock doctor`: what this machine lacks, and the command that fixes it."""

from __future__ import annotations

import click

from penstock.cli.failures import FAILED, debug_option, json_option


@click.command(short_help="Check what this machine lacks, with the command that fixes it.")
@json_option
@debug_option
@click.pass_context
def doctor(ctx: click.Context, as_json: bool) -> None:
    """Check what this machine lacks to run and scale pipelines, and show the command that fixes each lack.

    Nothing is changed. Exit code 0: everything required is present; 1: a requirement is missing. Optional features
    (such as the rights for CPU shares) are listed too, but do not fail.

    \b
    Examples:
      penstock doctor
      penstock doctor --json | jq '.checks[] | select(.ok | not)'
    """
    from rich.table import Table
    from rich.text import Text

    from penstock.adaptors.machine import check_machine
    from penstock.cli.output import print_json, words_console

    checks = check_machine()
    needed = [c for c in checks if not c.ok and c.severity == "needed"]
    console = words_console(as_json)
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in checks:
        mark = Text("ok", "green")
        if not check.ok:
            mark = Text("missing", "bold red") if check in needed else Text("limited", "yellow")
        detail = Text(check.detail)
        if not check.ok and check.mend:
            detail.append(f"\nfix it: {check.mend}", style="bold")
        table.add_row(mark, check.name, detail)
    console.print(table)
    if needed:
        console.print(f"{len(needed)} of {len(checks)} checks found a missing requirement.", style="red")
    else:
        console.print("Everything required is present: try `penstock demo`.", style="green")
    if as_json:
        fields = ("name", "ok", "severity", "detail", "mend")
        print_json({"ok": not needed, "checks": [{f: getattr(c, f) for f in fields} for c in checks]})
    ctx.exit(FAILED if needed else 0)
