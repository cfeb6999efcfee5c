# SPDX-License-Identifier: Apache-2.0
"""`penstock demo`: a real streaming query on a real Spark, scaled before your eyes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.failures import debug_option, json_option
from penstock.cli.page import page_option
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from penstock.settings import RunSettings

DEFAULT_MINUTES = 4.0
_DURATION = re.compile(r"(?<=[:,])\s*duration\s*=[^,]*")


@click.command(short_help="A real pipeline on a real Spark, scaled before your eyes.")
@click.option("--minutes", type=float, metavar="M", help=f"How long records arrive.  [default: {DEFAULT_MINUTES:g}]")
@click.option("--objective", metavar="STAT=TIME", help="Latency bound: mean, p50, p95 or p99.  [default: p95=6s]")
@click.option(
    "--policy",
    metavar="NAME",
    help="What decides, of those that `penstock policies` lists; fixed: nothing changes.  [default: the policy that "
    "plans for the objective]",
)
@click.option("--mode", type=click.Choice(["act", "recommend"]), help="recommend: decide and report, but do not act.")
@click.option("--executors", metavar="MIN:MAX", help="Fewest and most executors.  [default: 1:2; with --geo 1:3]")
@click.option(
    "--cpu-shares", metavar="S,S,...", help="CPU shares allowed.  [default: 0.4,0.55,0.7,0.85,1.0; with --geo 1.0]"
)
@click.option("--shape", metavar="SHAPE", help="Another load, such as steps:60s@2000,60s@9000")
@click.option("--trace", type=click.Path(path_type=Path), help="Replay the arrival times in a file instead.")
@click.option("--patterns", type=click.Path(path_type=Path), help="File of patterns to look for, `name: regex` lines.")
@click.option("--geo", is_flag=True, help="Taxi rides on nodes that are 10 to 200 ms apart, in networks of their own.")
@click.option(
    "--round-trips", metavar="A:B=TIME,...", help="With --geo: others, such as home:far=300ms; the rest stays as it is."
)
@click.option("--folder", type=click.Path(path_type=Path), help="Run folder.  [default: runs/demo-TIME]")
@click.option("--no-view", is_flag=True, help="Plain lines instead of the live view.")
@page_option
@json_option
@debug_option
@click.pass_context
def demo(
    ctx: click.Context, /, *, folder: Path | None, no_view: bool, page_port: int | None, as_json: bool, **options: Any
) -> None:
    """Watch a real streaming query on a real Spark being given and denied CPU and executors.

    Starts a Spark cluster on this machine, replays a load with peaks into a log-analysis query (log lines are
    parsed, counted by component and searched for patterns) and keeps the query's latency inside an objective.
    The view shows load, latency and size as they change, and the reason of every change. When the load is over,
    cluster and processes are gone, and the run folder holds a report.

    \b
    Examples:
      penstock demo                                 four minutes, with the live view
      penstock demo --minutes 2 --objective p95=2s
      penstock demo --page                          watched and steered over HTTP
      penstock demo --policy fixed --executors 2:2 --cpu-shares 1.0     to compare with
      penstock demo --shape constant:rate=4000,duration=3m --mode recommend
      penstock demo --minutes 2 --no-view --json | tail -1
      sudo -E env PATH=$PATH penstock demo --geo --round-trips home:far=300ms

    With --geo the cluster has a worker on each of the nodes near, middle and far, with half a core each and delays
    between them and to the driver's node, home; the query finds the nearest attraction of taxi rides. It needs root.
    With --shape, --minutes sets its duration; with --trace, the trace is played so fast that it takes M minutes
    (without --minutes: as long as it says). With --json the last line holds records_due, records_read,
    records_done, objective, latency (seconds), cpu_share_mean, executor_seconds, decisions (each with reason).
    Afterwards: penstock explain, penstock report.
    """
    from penstock.cli.run import carry_out

    ctx.exit(carry_out(demo_settings(**options), folder, is_live=not no_view, as_json=as_json, page_port=page_port))


def demo_settings(
    *,
    minutes: float | None = None,
    objective: str | None = None,
    policy: str | None = None,
    mode: str | None = None,
    executors: str | None = None,
    cpu_shares: str | None = None,
    shape: str | None = None,
    trace: Path | None = None,
    patterns: Path | None = None,
    geo: bool = False,
    round_trips: str | None = None,
) -> RunSettings:
    """The settings of the demo with what the user asked for; every mistake is reported at once."""
    import yaml

    from penstock.policies import policy_entry
    from penstock.running.policy_choice import with_policy
    from penstock.settings import parse_settings

    name = "demo_geo.yaml" if geo else "demo.yaml"
    data = yaml.safe_load(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    operator, faults = data["operators"][0], []

    def put(target: dict[str, Any], key: str, read: Any, *given: Any) -> None:
        if given[0] is not None:
            try:
                target[key] = read(*given)
            except ConfigurationError as fault:
                faults.append(str(fault))

    put(data, "objective", read_objective, objective)
    put(operator, "executors", read_executors, executors)
    put(operator, "cpu_shares", read_cpu_shares, cpu_shares)
    if geo and patterns is not None:
        faults.append("--patterns: taxi rides have none; leave it out, or --geo")
    else:
        put(operator.setdefault("options", {}), "patterns", lambda path: str(path.resolve()), patterns)
    if round_trips is not None and not geo:
        faults.append("--round-trips: are those of --geo; give both")
    elif round_trips is not None:
        put(data["cluster"]["geo"], "round_trips", read_round_trips, round_trips, data["cluster"]["geo"]["round_trips"])
    put(data, "mode", str, mode)
    if policy is not None:
        put(data, "policy", lambda name: {"name": policy_entry(name).name}, policy)
    try:
        data["arrivals"] = arrivals(data["arrivals"], minutes, shape, trace)
    except ConfigurationError as fault:
        faults.append(str(fault))
    try:
        settings = parse_settings(data, "demo")
    except ConfigurationError as fault:
        if not faults:
            raise
        # Both kinds of mistakes in one list: those of the texts, and those of what they say.
        raise ConfigurationError.of_all("demo", [*faults, *fault.faults]) from fault
    if faults:
        raise ConfigurationError.of_all("demo", faults)
    return with_policy(settings)


def arrivals(base: dict[str, Any], minutes: float | None, shape: str | None, trace: Path | None) -> dict[str, Any]:
    """The demo's arrivals: the built-in shape or another, or a trace, over so many minutes."""
    if minutes is not None and not 0 < minutes <= 24 * 60:
        raise ConfigurationError(
            f"--minutes: {minutes:g} is not between 0 and {24 * 60}; give minutes, such as 4", field="--minutes"
        )
    if shape is not None and trace is not None:
        raise ConfigurationError("--trace: give either a trace or a shape", field="--trace")
    options = dict(base["options"])
    if trace is not None:
        if minutes is not None:
            from penstock.arrivals import load_trace

            options["speed"] = load_trace(trace).duration_seconds / (60 * minutes)
        return {"trace": str(trace.resolve()), "options": options}
    text = shape if shape is not None else base["shape"]
    return {"shape": lasting(text, minutes), "options": options}


def lasting(shape: str, minutes: float | None) -> str:
    """The shape's text with its duration set to `minutes`; None: as it says itself, or the default.

    Examples
    --------
    >>> lasting("constant:rate=5,duration=9s", 2), lasting("constant:rate=5,duration=9s", None)
    ('constant:rate=5,duration=120s', 'constant:rate=5,duration=9s')
    """
    says_itself = _DURATION.search(shape) is not None
    is_steps = shape.removeprefix("sampled:").startswith("steps:")
    if minutes is None and (says_itself or is_steps):
        return shape
    seconds = f"duration={60 * (DEFAULT_MINUTES if minutes is None else minutes):g}s"
    return _DURATION.sub(seconds, shape) if says_itself else f"{shape},{seconds}"


def read_objective(text: str) -> dict[str, float]:
    """Read ``p95=6s``."""
    from penstock.settings import make_objective

    statistic, equals, bound = (part.strip() for part in text.partition("="))
    if not equals or not bound:
        raise ConfigurationError(f"--objective: cannot read {text!r}; write it like p95=6s", field="--objective")
    try:
        objective = make_objective({statistic: bound})
    except ConfigurationError as fault:
        raise ConfigurationError(f"--{fault}", field="--objective") from fault
    assert objective.seconds is not None  # a bound was given
    return {statistic: objective.seconds}


def read_round_trips(text: str, others: dict[str, Any]) -> dict[str, Any]:
    """Read ``home:far=300ms,near:far=1s``; `others` stay as they are.

    Examples
    --------
    >>> read_round_trips("far:home=300ms", {"home:far": "200ms", "home:near": "10ms"})
    {'home:near': '10ms', 'far:home': 0.3}
    """
    from penstock.units import parse_seconds

    given: dict[str, Any] = {}
    for entry in filter(None, map(str.strip, text.split(","))):
        pair, equals, time = (part.strip() for part in entry.partition("="))
        if not equals or pair.count(":") != 1:
            raise ConfigurationError(
                f"--round-trips: cannot read {entry!r}; write it like home:far=300ms", field="--round-trips"
            )
        given[pair] = parse_seconds(time, field="--round-trips")
    replaced = {frozenset(pair.split(":")) for pair in given}
    return {pair: trip for pair, trip in others.items() if frozenset(pair.split(":")) not in replaced} | given


def read_executors(text: str) -> tuple[int, int]:
    """Read ``1:4``, or ``2`` for always two."""
    from penstock.records import Limits

    low, colon, high = text.partition(":")
    try:
        least = int(low)
        most = int(high) if colon else least
    except ValueError:
        raise ConfigurationError(
            f"--executors: cannot read {text!r}; write MIN:MAX, such as 1:4", field="--executors"
        ) from None
    try:
        Limits(least, most)
    except ConfigurationError as fault:
        raise ConfigurationError(f"--{fault}", field="--executors") from fault
    return least, most


def read_cpu_shares(text: str) -> tuple[float, ...]:
    """Read ``0.4,0.7,1.0``."""
    from penstock.records import Limits

    try:
        shares = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ConfigurationError(
            f"--cpu-shares: cannot read {text!r}; write fractions, such as 0.4,0.7,1.0", field="--cpu-shares"
        ) from None
    try:
        Limits(cpu_shares=shares)
    except ConfigurationError as fault:
        text = str(fault).replace("cpu_shares", "--cpu-shares", 1)
        raise ConfigurationError(text, field="--cpu-shares") from fault
    return shares
