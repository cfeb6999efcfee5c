# SPDX-License-Identifier: Apache-2.0
"""`penstock measure`: the maximum sustainable throughput of an application, for several numbers of executors."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.failures import INTERRUPTED, Failure, Interrupted, as_failure, debug_option, json_option
from penstock.errors import ConfigurationError, PenstockError

if TYPE_CHECKING:
    from rich.console import Console

    from penstock.measuring.plan import MeasurePlan
    from penstock.measuring.sample_file import SampleFile

_EVERYTHING = "constant:rate=10000,duration=24h"
"""864 million records: more than a measurement reads."""
PICTURE = "throughput.png"


@click.command(short_help="The maximum sustainable throughput of an application, by executors.")
@click.argument("app", metavar="APP")
@click.option("--executors", required=True, metavar="N,N,...", help="Sizes, rising, such as 1,2,4,8.")
@click.option("--cpu-share", type=float, help="Hold each executor to this part of its cores (cgroups, needs root).")
@click.option("--cores", type=int, default=1, show_default=True, help="Cores of an executor.")
@click.option("--units", type=int, default=1, show_default=True, help="Processing units that run side by side (n).")
@click.option("--repeats", type=int, default=3, show_default=True, help="How often each size is started.")
@click.option("--each", "samples_each", type=int, default=1, show_default=True, help="Samples of each start.")
@click.option("--batch", default="5s", show_default=True, help="How long a batch should take.")
@click.option("--cap", type=int, help="Most records of a batch for each executor, in place of --batch.")
@click.option("--warm-up", default="15s", show_default=True, help="Least time without a cap on the CPU, before.")
@click.option("--warm-up-most", default="120s", show_default=True, help="Most time for that: until it is warm.")
@click.option("--converge", default="90s", show_default=True, help="Most time to wait for a steady throughput.")
@click.option(
    "--agree", default="4/5", show_default=True, metavar="K/N", help="Steady: K of the latest N batches are close."
)
@click.option("--within", type=float, default=0.05, show_default=True, help="Close: this part of the batch before.")
@click.option("--sample", default="20s", show_default=True, help="How long a sample is.")
@click.option("--rest", default="10s", show_default=True, help="Pause between two applications.")
@click.option("--others", type=float, default=0.1, show_default=True, help="CPU that others may use: part of the host.")
@click.option("--steal", type=float, default=0.05, show_default=True, help="CPU that may be stolen: part of the host.")
@click.option("--tries", type=int, default=3, show_default=True, help="How often a disturbed sample is taken, at most.")
@click.option("--source-check/--no-source-check", default=True, show_default=True, help="Measure the source alone too.")
@click.option("--option", "options", multiple=True, metavar="NAME=VALUE", help="Of the application; may be repeated.")
@click.option("--shape", help=f"Generated records.  [default: {_EVERYTHING}]")
@click.option("--trace", type=click.Path(path_type=Path), help="A file of arrival times; all are due at once.")
@click.option(
    "--payload", help="Text of the records, such as log, text or file:PATH.  [default: the application's, or log]"
)
@click.option(
    "--source-option", "source_options", multiple=True, metavar="NAME=VALUE", help="Of the replay; may be repeated."
)
@click.option(
    "--topic", metavar="kafka://HOST:PORT/TOPIC", help="A topic that is filled already, in place of a replay."
)
@click.option(
    "--broker-option", "broker_options", multiple=True, metavar="NAME=VALUE", help="Of the broker; may be repeated."
)
@click.option("--master", default="embedded", show_default=True, help="Where Spark runs, such as spark://host:7077.")
@click.option("--executor-memory", default="600m", show_default=True, help="Heap of an executor.")
@click.option("--driver-memory", default="1g", show_default=True, help="Heap of the driver.")
@click.option("--spark", "spark", multiple=True, metavar="NAME=VALUE", help="Of Spark; may be repeated.")
@click.option("--folder", type=click.Path(path_type=Path), help="Results.  [default: runs/measure-TIME]")
@click.option("--resume", is_flag=True, help="Go on with the measurement in --folder.")
@click.option("--check", "only_check", is_flag=True, help="Only say what would be measured, and for how long.")
@click.option("--plot", type=click.Path(path_type=Path), help=f"Picture.  [default: {PICTURE} in the folder]")
@json_option
@debug_option
@click.pass_context
def measure(
    ctx: click.Context,
    /,
    *,
    folder: Path | None,
    resume: bool,
    only_check: bool,
    plot: Path | None,
    as_json: bool,
    broker_options: tuple[str, ...],
    **given: Any,
) -> None:
    """Measure how many records per second an application can sustain, with each of several numbers of executors.

    APP is a PySpark function, module:function, that takes (stream, options); it is found in this folder or on
    PYTHONPATH. Applications of Penstock have short names, such as log-analysis.

    Everything the application reads is there from the start, so it runs as fast as it can. For each size it is started,
    warmed up, held to its size, and sampled once its throughput is steady. Sizes take turns, so that a drift of the
    machine falls on all of them.

    \b
    Examples:
      penstock measure log-analysis --executors 1,2,4 --cpu-share 0.2
      penstock measure my_app:count --executors 1,2,4,8 --payload file:lines.txt --option window=10s
      penstock measure my_app:count --executors 2,4 --topic kafka://localhost:9092/lines --master spark://host:7077
      penstock measure my_app:count --executors 1,2,4 --folder runs/mine --resume

    The folder gets samples.jsonl (every sample, kept as soon as it is taken), samples.csv (executors, cpu_share,
    throughput, bytes_per_second, ...), throughput.png and logs/. A sample is marked where it did not converge, where
    others used the machine, where the source is the bottleneck, and where executors left CPU unused.
    Ctrl-C keeps what was measured and ends all that was started (exit code 130).
    """
    from penstock.cli.output import print_json, words_console
    from penstock.cli.output_files import check_picture
    from penstock.running.measurement import check_plan
    from penstock.running.modules_beside import modules_beside

    check_picture(plot)
    _check_place(folder, resume=resume)
    broker = _pairs(broker_options, "--broker-option")
    if broker and given["topic"] is None:
        raise ConfigurationError(
            "--broker-option: is an option of a topic's broker, and a replay has none; give --topic, or leave it out",
            field="--broker-option",
        )
    plan = read_plan(**given)
    console = words_console(as_json)
    with modules_beside(Path("measure")):
        with _in_option_words():
            check_plan(plan)
        if only_check:
            _say_plan(plan, console)
            if as_json:
                print_json({"ok": True, "turns": len(plan.turns()), "seconds": _seconds(plan)})
            return
        file = _open_file(folder, plan, resume=resume)
        stop = threading.Event()
        fault = _carry_out(plan, file, broker, console, stop)
        result = _conclude(plan, file, plot or file.folder / PICTURE, console)
    if as_json:
        print_json({**result, "failure": None if fault is None else str(fault)})
    if fault is not None:
        kind = Interrupted if stop.is_set() else type(as_failure(fault))
        raise kind(_with_hint(fault, file)) from fault
    ctx.exit(INTERRUPTED if stop.is_set() else 0)


def read_plan(
    *,
    app: str,
    executors: str,
    options: tuple[str, ...],
    source_options: tuple[str, ...],
    spark: tuple[str, ...],
    agree: str,
    within: float,
    converge: str,
    others: float,
    steal: float,
    batch: str,
    sample: str,
    warm_up: str,
    warm_up_most: str,
    rest: str,
    shape: str | None,
    trace: Path | None,
    payload: str | None,
    topic: str | None,
    **same: Any,
) -> MeasurePlan:
    """The plan that the options describe; every mistake names its option."""
    from penstock.measuring.convergence import Convergence
    from penstock.measuring.disturbance import DisturbanceLimits
    from penstock.measuring.plan import MeasurePlan
    from penstock.running.app_names import app_path
    from penstock.units import parse_seconds, parse_whole_number, positive_seconds

    sizes = tuple(_size(part.strip(), executors) for part in executors.split(","))
    agreeing, slash, window = agree.partition("/")
    if not slash:
        raise ConfigurationError(f"--agree: cannot read {agree!r}; write K/N, such as 4/5", field="--agree")
    together, latest = (
        parse_whole_number("--agree", agreeing, least=1), parse_whole_number("--agree", window, least=2)
    )  # fmt: skip
    if together > latest:
        raise ConfigurationError(
            f"--agree: {agree!r} asks for {together} of {latest} batches; write K/N with K at most N, such as 4/5",
            field="--agree",
        )
    source: dict[str, str] = {}
    servers = name = None
    if topic is not None:
        if shape is not None or trace is not None or source_options:
            raise ConfigurationError(
                "--topic: a topic is read in place of a replay; leave --shape, --trace and --source-option out",
                field="--topic",
            )
        servers, name = _topic(topic)
    elif shape is not None and trace is not None:
        raise ConfigurationError("--shape: give either --shape or --trace", field="--shape")
    else:
        main = {"trace": str(trace.absolute())} if trace is not None else {"shape": shape or _EVERYTHING}
        source = {**main, "payload": _payload(payload, app), **_pairs(source_options, "--source-option")}
    try:
        return MeasurePlan(
            app=app_path(app),
            executors=sizes,
            options=_pairs(options, "--option"),
            source=source,
            topic=name,
            servers=servers,
            batch_seconds=positive_seconds("--batch", batch),
            sample_seconds=positive_seconds("--sample", sample),
            warm_up_seconds=parse_seconds(warm_up, "--warm-up"),
            warm_up_most_seconds=parse_seconds(warm_up_most, "--warm-up-most"),
            rest_seconds=parse_seconds(rest, "--rest"),
            convergence=Convergence(
                window=latest,
                agreeing=together,
                within=within,
                at_most_seconds=positive_seconds("--converge", converge),
            ),
            disturbance=DisturbanceLimits(others=others, steal=steal),
            spark=_pairs(spark, "--spark"),
            **same,
        )
    except ConfigurationError as fault:
        text = str(fault)
        is_named = text.startswith(("--", "APP"))
        raise ConfigurationError(text if is_named else f"--{text}", field=fault.field) from fault


def _size(text: str, of: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) < 1:
        raise ConfigurationError(
            f"--executors: {of!r} are not whole numbers from 1 with commas; write them like 1,2,4", field="--executors"
        )
    return int(text)


_OPTION_WORDS = (
    ("operators.0.app: ", "APP: "), ("operators.0.options.", "--option "),
    ("operators.0.executor_memory", "--executor-memory"),
    ("operators.0.driver_memory", "--driver-memory"), ("operators.0.", ""),
    ("arrivals.options.payload", "--payload"), ("arrivals.payload", "--payload"),
    ("arrivals.shape", "--shape"), ("arrivals.trace", "--trace"),
    ("arrivals.options.", "--source-option "),
    ("arrivals.", "--source-option: "), ("cluster.master", "--master"),
)  # fmt: skip
"""Where the checks of a run find something, and the option that it came from."""


@contextmanager
def _in_option_words() -> Iterator[None]:
    """Let the checks of a run speak of this command's options."""
    try:
        yield
    except ConfigurationError as fault:
        faults = []
        for text in fault.faults:
            ours = next(((path, option) for path, option in _OPTION_WORDS if text.startswith(path)), ("", ""))
            said = ours[1] + text.removeprefix(ours[0])
            faults.append(said.replace("beside the settings file", "in this folder"))  # a measurement has none
        raise ConfigurationError.of_all("measure", faults) from fault


def _topic(text: str) -> tuple[str, str]:
    servers, slash, name = text.removeprefix("kafka://").partition("/")
    if not text.startswith("kafka://") or not slash or not servers or not name:
        raise ConfigurationError(f"--topic: cannot read {text!r}; write kafka://HOST:PORT/TOPIC", field="--topic")
    return servers, name


def _payload(text: str | None, app: str) -> str:
    from penstock.apps.catalogue import APPLICATIONS

    if text is None:
        return APPLICATIONS[app].payload if app in APPLICATIONS else "log"
    path = text.removeprefix("file:")
    return text if path == text else f"file:{Path(path).absolute()}"


def _pairs(texts: tuple[str, ...], field: str) -> dict[str, str]:
    from penstock.cli.produce import read_options

    return read_options(texts, field)


def _check_place(folder: Path | None, *, resume: bool) -> None:
    """Refuse a place for the results that cannot be one."""
    if resume and folder is None:
        raise ConfigurationError("--resume: name the measurement to go on with by --folder", field="--resume")
    if folder is not None and folder.exists() and not folder.is_dir():
        raise ConfigurationError(f"--folder: {folder} is not a folder; name another place", field="--folder")


def _open_file(folder: Path | None, plan: MeasurePlan, *, resume: bool) -> SampleFile:
    from penstock.cli.runs import make_run_folder
    from penstock.measuring.sample_file import SampleFile

    place = folder if resume and folder is not None else make_run_folder("measure", folder)
    return SampleFile(place.absolute(), plan, resume=resume)


def _carry_out(
    plan: MeasurePlan, file: SampleFile, broker: dict[str, str], console: Console, stop: threading.Event
) -> PenstockError | None:
    """Take the samples; returns what went wrong, for what was measured before is shown all the same."""
    from penstock.adaptors.machine import root_note
    from penstock.cli.log_file import logging_to
    from penstock.cli.measure_view import MeasureView
    from penstock.cli.progress import step_bar
    from penstock.cli.signals import stopping_on_signals
    from penstock.running.measurement import measure as take

    left = len(plan.left(file.samples))
    if (note := root_note()) is not None:
        console.print(note, style="yellow", soft_wrap=True)
    console.print(f"{left} of {len(plan.turns())} applications to start; results in {file.folder}", markup=False)

    def on_signal(again: bool) -> None:
        console.print("still ending what was started" if again else "stopping; what was measured is kept")

    with (
        logging_to(file.folder / "logs" / "measure.log"),
        stopping_on_signals(stop, on_signal),
        step_bar("measuring") as steps,
    ):
        try:
            take(plan, file, listener=MeasureView(plan, console, steps), stop=stop, broker=broker)
        except PenstockError as fault:
            return fault
    return None


def _conclude(plan: MeasurePlan, file: SampleFile, plot: Path, console: Console) -> dict[str, Any]:
    """Print the table, draw the picture, and give the result as plain data."""
    from penstock.cli.measure_view import mark_lines, summary_table
    from penstock.evaluation.measure_pictures import throughput_picture
    from penstock.evaluation.source_version import source_version
    from penstock.measuring.summary import kept_samples, summarise

    sizes = summarise(file.samples)
    picture = None
    if sizes:
        console.print(summary_table(sizes))
        for line in mark_lines(sizes):
            console.print(line, markup=False)
        kept = [sample for sample in kept_samples(file.samples) if not sample.is_source]
        try:
            plot.write_bytes(throughput_picture(plan.app, sizes, kept))
            picture = str(plot)
        except OSError as fault:
            raise Failure(f"--plot: {plot} cannot be written: {fault.strerror}") from fault
        console.print(f"samples: {file.table}\npicture: {plot}", markup=False)
    return {
        "app": plan.app, "cpu_share": plan.cpu_share, "sizes": [size.to_json() for size in sizes],
        "samples": len(file.samples), "left": len(plan.left(file.samples)), "folder": str(file.folder),
        "table": str(file.table), "picture": picture, **source_version(),
    }  # fmt: skip


def _with_hint(fault: PenstockError, file: SampleFile) -> str:
    return (
        f"{fault}\nWhat was measured is kept, the logs are in {file.folder / 'logs'}; "
        f"go on with: --folder {file.folder} --resume"
    )


def _seconds(plan: MeasurePlan) -> float:
    return len(plan.turns()) * plan.seconds_of_a_turn()


def _say_plan(plan: MeasurePlan, console: Console) -> None:
    from penstock.units import format_seconds

    sizes = ", ".join(map(str, plan.executors))
    cores = "1 core" if plan.cores == 1 else f"{plan.cores} cores"
    share = "all their CPU" if plan.cpu_share is None else f"a CPU share of {plan.cpu_share:g}"
    reads = f"topic {plan.topic}" if plan.topic is not None else plan.source.get("trace") or plan.source.get("shape")
    console.print(f"{plan.app} with {sizes} executors ({cores} each, {share}), reading {reads}", markup=False)
    console.print(
        f"{len(plan.turns())} applications are started one after the other, about {format_seconds(_seconds(plan))} in "
        "all; nothing was started"
    )
