# SPDX-License-Identifier: Apache-2.0
"""`penstock run`: run and scale a pipeline; also what `demo` shares with it."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.failures import INTERRUPTED, Interrupted, as_failure, debug_option, json_option
from penstock.cli.page import page_option

if TYPE_CHECKING:
    from rich.console import Console

    from penstock.running.handed_over import HandedOver
    from penstock.settings import RunSettings


@click.command(short_help="Run and scale a pipeline of your own.")
@click.argument("settings_file", metavar="SETTINGS.yaml", type=click.Path(path_type=Path))
@click.option("--mode", type=click.Choice(["act", "recommend"]), help="Overrides the file; recommend does all but act.")
@click.option("--check", "only_check", is_flag=True, help="Only look through the settings and say what would run.")
@click.option("--folder", type=click.Path(path_type=Path), help="Run folder.  [default: runs/NAME-TIME]")
@click.option(
    "--resume",
    is_flag=True,
    help="Go on with the run in --folder whose controller died (cluster and broker not embedded).",
)
@click.option(
    "--end-on-stop", is_flag=True, help="End the pipeline on SIGTERM and SIGHUP too, where it could go on without this."
)
@click.option(
    "--master", metavar="HOST:PORT[,...]",
    help="Let a master decide on the sizes of all operators (penstock serve).",
)  # fmt: skip
@click.option("--no-view", is_flag=True, help="Plain lines instead of the live view.")
@page_option
@json_option
@debug_option
@click.pass_context
def run(
    ctx: click.Context,
    /,
    *,
    settings_file: Path,
    mode: str | None,
    only_check: bool,
    folder: Path | None,
    resume: bool,
    end_on_stop: bool,
    master: str | None,
    no_view: bool,
    page_port: int | None,
    as_json: bool,
) -> None:
    """Run the pipeline described in SETTINGS.yaml, and keep it inside its objective.

    The pipeline's Spark applications are started (on an embedded cluster, or on the master the file names), its
    arrivals replayed, and every operator is given executors and CPU as its load asks. At the end everything that
    was started is gone, and the run folder holds knowledge.sqlite, report.html, report.png and logs/.

    \b
    Examples:
      penstock run --check pipeline.yaml          all mistakes of the file at once; starts nothing
      penstock run pipeline.yaml                  with the live view
      penstock run pipeline.yaml --master 127.0.0.1:7071    a master decides (docs/how-to/run-a-master.md)
      penstock run pipeline.yaml --page           watched and steered over HTTP, or with penstock status, pause, policy
      penstock run pipeline.yaml --mode recommend --no-view --json > result.json

    \b
    A file that runs:
      name: words
      arrivals: {shape: "constant:rate=500,duration=2m", options: {payload: log}}
      operators:
        - {name: analysis, app: "penstock.apps.log_analysis:log_analysis", executors: [1, 2]}
      objective: {p95: 2s}

    An app of your own, such as "my_app:count", is found beside the file (my_app.py) or on PYTHONPATH.

    With --json the last line holds: records_due, records_read, records_done, objective (with met and met_steady),
    latency of all records (mean, p50, p95, p99 in seconds), latency_steady (after the start-up), latency_start_up,
    cpu_share_mean, executor_seconds, decisions (each with its reason), machine (cores, load_average, pressure, steal;
    busy: what is too much in words, or null), is_left (the pipeline goes on without this command).
    Ctrl-C stops the run in good order (exit code 130), its summary and report are written all the same. SIGTERM and a
    closed terminal do that too on the embedded cluster; on a cluster of your own they end this command and leave the
    pipeline running (docs/how-to/stop-a-run.md).
    """
    from penstock.cli.output import print_json
    from penstock.errors import ConfigurationError
    from penstock.running.checks import load_checked
    from penstock.running.modules_beside import modules_beside

    with modules_beside(settings_file):
        try:
            settings = load_checked(settings_file)
            if mode is not None:
                settings = changed(settings, {"mode": mode}, str(settings_file))
            if only_check:
                show_check(settings, as_json)
                return
        except ConfigurationError as fault:
            if only_check and as_json:
                print_json({"ok": False, "mistakes": list(fault.faults)})
            raise
        if resume and folder is None:
            raise ConfigurationError("--resume: name the run to take over with --folder", field="--resume")
        if resume and folder is not None and not (folder / "knowledge.sqlite").exists():
            raise ConfigurationError(
                f"--folder: {folder} holds no run to take over; name the folder that the run was started with, "
                "or start a new run without --resume",
                field="--folder",
            )
        ctx.exit(
            carry_out(
                settings, folder, is_live=not no_view, as_json=as_json, resume=resume, page_port=page_port,
                end_on_stop=end_on_stop, master=master,
            )
        )  # fmt: skip


def changed(settings: RunSettings, changes: dict[str, Any], where: str) -> RunSettings:
    """The settings with some of their fields replaced, looked through again."""
    from penstock.settings import WITH_SECRETS, parse_settings

    return parse_settings({**settings.model_dump(mode="json", context=WITH_SECRETS), **changes}, where)


def carry_out(
    settings: RunSettings,
    folder: Path | None,
    *,
    is_live: bool,
    as_json: bool,
    resume: bool = False,
    page_port: int | None = None,
    end_on_stop: bool = False,
    master: str | None = None,
) -> int:
    """Run a pipeline with a view of it, then its summary and report; gives the exit code."""
    from penstock.adaptors.host_state import HostWatch
    from penstock.adaptors.machine import root_note
    from penstock.cli.log_file import logging_to
    from penstock.cli.output import print_json, words_console
    from penstock.cli.page import watched
    from penstock.cli.runs import make_run_folder
    from penstock.cli.signals import stopping_on_signals
    from penstock.cli.summary import summary_panel
    from penstock.cli.view import make_view
    from penstock.errors import PenstockError
    from penstock.running.checks import check_run
    from penstock.running.pipeline_run import run_pipeline

    handed = None if master is None else handed_to(master, settings)
    if handed is not None:
        settings = handed.own_settings
    check_run(settings, has_own_policy=handed is not None)
    run_folder = folder if resume and folder is not None else make_run_folder(settings.name, folder)
    console = words_console(as_json)
    if (note := root_note()) is not None:
        console.print(note, style="yellow", soft_wrap=True)
    host = HostWatch()
    stop, leave = threading.Event(), None if end_on_stop else threading.Event()
    view = make_view(settings, console, load_seconds=load_seconds(settings), is_live=is_live)
    with logging_to(run_folder / "logs" / "controller.log"), stopping_on_signals(stop, view.stopping, leave):
        try:
            with watched(page_port, run_folder, view, console) as page, view, handed or nullcontext():
                summary = run_pipeline(
                    settings,
                    run_folder,
                    listener=page.listener,
                    stop=stop,
                    resume=resume,
                    leave=leave,
                    policy=handed,
                    on_started=page.on_started if handed is None else handed.before(page.on_started),
                )
        except PenstockError as fault:
            kind = Interrupted if stop.is_set() else type(as_failure(fault))
            hint = f"The logs are in {run_folder / 'logs'}; `penstock report {run_folder}` shows the run up to there."
            raise kind(f"{fault}\n{hint}") from fault
    html = write_report_of(run_folder, console)
    machine = {**asdict(state := host.state()), "busy": state.busy_text}
    result = {**summary.to_json(), "machine": machine, "report": None if html is None else str(html)}
    console.print(summary_panel(result, html))
    if summary.is_left:
        console.print(
            f"The pipeline goes on without a controller, and without CPU caps. penstock run --resume --folder "
            f"{run_folder} takes it over.",
            style="yellow",
            markup=False,
            soft_wrap=True,
        )
    if as_json:
        print_json(result)
    return INTERRUPTED if stop.is_set() else 0


def handed_to(master: str, settings: RunSettings) -> HandedOver:
    """What decides in a run that a master scales."""
    from penstock.adaptors.agent.master_address import master_address
    from penstock.running.handed_over import HandedOver

    return HandedOver(settings, master_address(master))


def load_seconds(settings: RunSettings) -> float | None:
    """How long records arrive, in seconds of the wall clock; None: nobody knows."""
    from penstock.adaptors.replay.options import ReplayOptions, open_arrivals

    if not settings.arrivals.is_replayed:
        return None
    options = ReplayOptions.parse(settings.arrivals.replay_options())
    return open_arrivals(options).duration_seconds / options.speed


def write_report_of(folder: Path, console: Console) -> Path | None:
    """Write the report of an ended run; where that is not possible say why: the run itself went well."""
    from penstock.cli.runs import find_run, opened
    from penstock.errors import PenstockError
    from penstock.evaluation import write_report

    try:
        with opened(find_run(folder)) as store:
            return write_report(store, folder).html
    except PenstockError as fault:
        console.print(f"no report was written: {fault}", style="yellow", markup=False)
        return None


def show_check(settings: RunSettings, as_json: bool) -> None:
    """Look through the settings and say what would run; nothing is started."""
    from rich.table import Table

    from penstock.cli.output import print_json, words_console
    from penstock.running.checks import check_run, not_contacted, unreachable_objectives
    from penstock.running.run_nodes import run_nodes
    from penstock.secrets import without_secrets
    from penstock.settings import objectives_text
    from penstock.units import clock

    check_run(settings)
    console = words_console(as_json)
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    arrivals, seconds = settings.arrivals, load_seconds(settings)
    table.add_row("pipeline", settings.name)
    span = "until it is stopped" if seconds is None else f"for {clock(seconds)} (min:s)"
    table.add_row("arrivals", f"{arrivals.topic or arrivals.exchange or arrivals.trace or arrivals.shape} {span}")
    if settings.broker is not None:
        address = settings.broker.rabbitmq
        kind = f"Kafka, {settings.broker.servers}" if address is None else f"RabbitMQ, {without_secrets(address)}"
        table.add_row("broker", kind)
    for operator in settings.operators:
        low, high = operator.executors
        shares = ", ".join(f"{share:.0%}" for share in operator.limits().cpu_shares)
        each = f"{operator.executor_cores} cores and {operator.executor_memory}"
        size = f"{low} to {high} executors of {each}; CPU shares {shares}"
        table.add_row(f"operator {operator.name}", f"{operator.app} on {operator.input}\n{size}")
    table.add_row("objective", objectives_text(settings.path_objectives()))
    table.add_row("policy", f"{settings.policy.name} {settings.policy.all_options or ''}".strip())
    table.add_row("mode", settings.mode)
    geo = settings.cluster.geo
    table.add_row("cluster", settings.cluster.master + ("" if geo is None else f", nodes {', '.join(geo.nodes)}"))
    if (nodes := run_nodes(settings)) is not None:
        table.add_row("nodes", str(nodes))
    console.print(table)
    warnings = [f"{name}: {line}" for name, line in unreachable_objectives(settings).items()]
    for line in warnings:
        console.print(f"warning: {line}", style="yellow", markup=False, soft_wrap=True)
    verdict = "The settings can be read" if warnings else "The settings are in order"
    outside = " and ".join(not_contacted(settings))
    asked = f"{outside} {'were' if ' and ' in outside else 'was'} not contacted" if outside else ""
    console.print("; ".join(part for part in (verdict, "nothing was started", asked) if part) + ".", soft_wrap=True)
    if as_json:
        document = {"ok": True, "settings": settings.model_dump(mode="json"), "warnings": warnings}
        print_json({**document, "not_contacted": not_contacted(settings)})
