# SPDX-License-Identifier: Apache-2.0
"""`penstock report`: how a run went, as a page and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from penstock.stores import StorePlace

from penstock.cli.failures import debug_option, json_option
from penstock.cli.runs import RunPlace


@click.command(short_help="Show how a run went: a summary, a page and a picture.")
@click.argument("run", metavar="[RUN]", required=False, type=RunPlace())
@click.option("--folder", type=click.Path(path_type=Path), help="Output folder.  [default: the run's folder]")
@json_option
@debug_option
def report(run: StorePlace | None, folder: Path | None, as_json: bool) -> None:
    """Write report.html and report.png of RUN, and show its summary.

    RUN is a run's folder, its knowledge.sqlite, or FOLDER/NAME of a master's query, whose report goes into a folder of
    its own. Default: the newest under runs/. For a run in progress the report covers what is known so far. The page is
    self-contained: send it, keep it.

    \b
    Examples:
      penstock report
      penstock report runs/demo-20260101-120000 --folder /tmp
      penstock report --json | jq .latency.p95
    """
    from penstock.cli.output import print_json, words_console
    from penstock.cli.runs import find_run, opened
    from penstock.cli.summary import summary_panel
    from penstock.errors import ConfigurationError
    from penstock.evaluation import read_history, write_report
    from penstock.evaluation.elasticity import run_elasticity

    found = find_run(run)
    if folder is not None and not folder.is_dir():
        raise ConfigurationError(f"--folder: {folder} is not a folder; create it first", field="--folder")
    with opened(found) as store:
        history = read_history(store)
        written = write_report(store, folder or _made(found.report_folder))
    console = words_console(as_json)
    if found.was_chosen:
        console.print(f"{found.folder} (the newest run)", markup=False)
    console.print(summary_panel(history.summary, written.html, is_ended=history.is_ended))
    figures = {name: run_elasticity(history, name) for name in history.operators}
    for name, one in figures.items():
        what = "not known: too little was seen" if one is None else f"{one.accuracy_text} {one.text}"
        console.print(f"elasticity of {name}: {what}", markup=False, highlight=False)
    if as_json:
        files = {"html": str(written.html), "png": str(written.png)}
        elastic = {name: None if one is None else one.to_json() for name, one in figures.items()}
        print_json(
            {
                **history.summary, "run": found.place, "is_ended": history.is_ended, "report": files,
                "elasticity": elastic,
            }
        )  # fmt: skip


def _made(folder: Path) -> Path:
    """The folder, made where it is missing: closed to other users, as what lies beside it is."""
    from penstock.adaptors.private_file import make_private_folder
    from penstock.errors import ConfigurationError

    try:
        if not folder.is_dir():
            make_private_folder(folder)
    except OSError as fault:
        raise ConfigurationError(
            f"RUN: {folder} cannot be made: {fault.strerror}; give a folder with --folder", field="RUN"
        ) from fault
    return folder
