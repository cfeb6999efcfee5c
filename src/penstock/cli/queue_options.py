# SPDX-License-Identifier: Apache-2.0
"""Parses arrivals, service times, percentiles and allocations on the command line of the models."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from penstock.errors import ConfigurationError, InvalidProcessError
from penstock.units import format_seconds, parse_number, parse_rate, positive_seconds

if TYPE_CHECKING:
    from penstock.markov import MAP, PH

F = TypeVar("F", bound=Callable[..., Any])

SERVICE_FORMS = "exp:MEAN, erlang:PHASES:MEAN, hyper2:MEAN:SCV or ph:FILE"
_MOST_PHASES = 200
_MOST_ARRIVAL_PHASES = 32
"""Arrivals steadier than this many phases are almost an even stream, and cost much more to solve."""
_MOST_EXECUTORS = 10_000


def apply_options(command: F, options: tuple[Callable[[F], F], ...]) -> F:
    """Add options to a command. They show in this order."""
    for option in reversed(options):
        command = option(command)
    return command


def percentiles_option(default: str = "0.5,0.95,0.99") -> Callable[[F], F]:
    """Add `--percentiles` to a command."""
    return click.option(
        "--percentiles", metavar="P,P,...", help=f"Shares of the records, between 0 and 1.  [default: {default}]"
    )


def plot_option(what: str) -> Callable[[F], F]:
    """Add `--plot` to a command."""
    return click.option("--plot", type=click.Path(path_type=Path), help=f"Draw {what} into this PNG file.")


def parse_percentiles(text: str, field: str = "--percentiles") -> dict[str, float]:
    """Return the probabilities in ``"0.5,0.95"``, by their text.

    Examples
    --------
    >>> parse_percentiles("0.5, 0.95")
    {'0.5': 0.5, '0.95': 0.95}
    """
    found: dict[str, float] = {}
    for word in (part.strip() for part in text.split(",")):
        probability = parse_number(field, word, example='a list such as "0.5,0.95"')
        if not 0.0 < probability < 1.0:
            meant = f"{probability / 100:g}" if 1.0 < probability < 100.0 else "the 95th percentile as 0.95"
            raise ConfigurationError(f"{field}: {word} is outside (0, 1), both excluded; write {meant}", field=field)
        found[word] = probability
    return found


def parse_service(text: str, field: str = "--service") -> PH:
    """Return the service time in ``"erlang:2:10ms"``. Means are in seconds or carry their unit.

    Examples
    --------
    >>> parse_service("erlang:2:10ms")
    PH(order=2, mean=0.01, scv=0.5)
    """
    from penstock.markov import PH, fit_mean_scv

    family, _, rest = text.partition(":")
    if family == "ph" and rest:
        return _service_file(Path(rest), field)
    words = rest.split(":") if rest else []
    if family in ("det", "d", "deterministic", "constant"):
        raise ConfigurationError(
            f"{field}: a constant time is not a phase-type distribution; approximate it with erlang:100:MEAN",
            field=field,
        )
    wanted = {"exp": 1, "erlang": 2, "hyper2": 2}
    if family not in wanted or len(words) != wanted[family]:
        raise ConfigurationError(f"{field}: cannot read {text!r}; write {SERVICE_FORMS}", field=field)
    if family == "exp":
        return PH.exponential(mean=positive_seconds(field, words[0]))
    if family == "erlang":
        if not words[0].isdecimal() or not 1 <= int(words[0]) <= _MOST_PHASES:
            raise ConfigurationError(
                f"{field}: {words[0]!r} phases: give a whole number from 1 to {_MOST_PHASES}, as in erlang:2:10ms",
                field=field,
            )
        return PH.erlang(int(words[0]), mean=positive_seconds(field, words[1]))
    scv = parse_number(field, words[1], example="a squared coefficient of variation such as 4")
    if scv < 1.0:
        raise ConfigurationError(
            f"{field}: a hyperexponential time has an SCV of at least 1, not {words[1]}; or write erlang:PHASES:MEAN",
            field=field,
        )
    return fit_mean_scv(positive_seconds(field, words[0]), scv).distribution


def read_maps(path: Path, field: str = "--map") -> list[MAP]:
    """Return the processes in a file: an object with D0 and D1, or what `penstock fit --json` prints (best first)."""
    from penstock.markov import MAP

    document = _read_json(path, field, '{"D0": [[-1]], "D1": [[1]]}')
    found = document.get("maps") if isinstance(document, dict) else None
    several = isinstance(found, list) and bool(found)
    processes = []
    for number, one in enumerate(found if several and found else [document]):
        where = f"{path}, maps[{number}]" if several else str(path)
        if not isinstance(one, dict) or not {"D0", "D1"} <= set(one):
            raise ConfigurationError(
                f'{field}: {where} has no D0 and D1; write an object such as {{"D0": [[-1]], "D1": [[1]]}}, '
                "rates per second, as `penstock fit --map` does",
                field=field,
            )
        try:
            processes.append(MAP.from_json(one))
        except InvalidProcessError as fault:
            raise ConfigurationError(f"{field}: {where} is not an arrival process: {fault}", field=field) from fault
    return processes


def arrivals_of(map_file: Path | None, rate: str | None, scv: float | None) -> tuple[MAP, list[str]]:
    """Return the process that `--map`, or `--rate` and `--scv`, describe, and notes about it."""
    from penstock.markov import MAP, fit_mean_scv

    if (map_file is None) == (rate is None):
        raise ConfigurationError("--map: give either --map FILE or --rate R (optionally with --scv S)", field="--map")
    if map_file is not None:
        if scv is not None:
            raise ConfigurationError("--scv: works only with --rate; the process in --map has its own", field="--scv")
        maps = read_maps(map_file)
        several = f"{map_file} has {len(maps)} processes; the first (best) is used"
        return maps[0], [several] if len(maps) > 1 else []
    assert rate is not None
    per_second = parse_rate(rate, "--rate")
    if per_second == 0.0:
        raise ConfigurationError('--rate: nothing would ever arrive at 0; give a rate such as "100/s"', field="--rate")
    if scv is None:
        return MAP.poisson(per_second), []
    if not (math.isfinite(scv) and scv > 0.0):
        raise ConfigurationError(f"--scv: {scv!r} must be positive and finite", field="--scv")
    fitted = fit_mean_scv(1.0 / per_second, scv, max_phases=_MOST_ARRIVAL_PHASES)
    return MAP.renewal(fitted.distribution), list(fitted.moved)


def parse_executors(text: str, field: str = "--executors") -> tuple[int, ...]:
    """Return the numbers in ``"1-4"``, ``"2"`` or ``"1,2,8"``.

    Examples
    --------
    >>> parse_executors("1-4"), parse_executors("8,2")
    ((1, 2, 3, 4), (2, 8))
    """
    found: set[int] = set()
    for word in (part.strip() for part in text.split(",")):
        first, dash, last = (part.strip() for part in word.partition("-"))
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ConfigurationError(f'{field}: cannot read {text!r}; write "1-4", "2" or "1,2,8"', field=field)
        low, high = int(first), int(last) if dash else int(first)
        if not 1 <= low <= high <= _MOST_EXECUTORS:
            raise ConfigurationError(
                f"{field}: {word!r} is not a range of executors within 1 to {_MOST_EXECUTORS}; write it like 1-4",
                field=field,
            )
        found.update(range(low, high + 1))
    return tuple(sorted(found))


def parse_shares(text: str, field: str = "--cpu-shares") -> tuple[float, ...]:
    """Return the levels in ``"0.4,0.7,1.0"``, rising.

    Examples
    --------
    >>> parse_shares("1.0,0.4")
    (0.4, 1.0)
    """
    shares = {parse_number(field, word.strip(), example='levels such as "0.4,0.7,1.0"') for word in text.split(",")}
    for share in sorted(shares):
        if not 0.0 < share <= 1.0:
            raise ConfigurationError(
                f"{field}: {share:g} is outside (0, 1]; a share is a fraction of an executor's cores", field=field
            )
    return tuple(sorted(shares))


def optional_seconds(text: str | None, field: str) -> float | None:
    """Return the seconds in an option that must be above 0, or None if it was not given."""
    return None if text is None else positive_seconds(field, text)


def format_time(seconds: float) -> str:
    """Format a time for people, from nanoseconds to infinity.

    Examples
    --------
    >>> format_time(2e-5), format_time(0.25), format_time(float("inf"))
    ('20 us', '250 ms', 'infinite')
    """
    if math.isinf(seconds):
        return "infinite"
    for factor, unit in ((1e9, "ns"), (1e6, "us")):
        if 0.0 < seconds * factor < 999.5:
            return f"{seconds * factor:.3g} {unit}"
    return format_seconds(seconds)


def write_picture(path: Path, png: bytes) -> None:
    """Write the picture of `--plot`."""
    try:
        path.write_bytes(png)
    except OSError as fault:
        raise ConfigurationError(f"--plot: {path} is not writable: {fault.strerror}", field="--plot") from fault


def _service_file(path: Path, field: str) -> PH:
    from penstock.markov import PH

    example = '{"alpha": [1, 0], "T": [[-200, 200], [0, -200]]}'
    document = _read_json(path, field, example)
    if not isinstance(document, dict) or not {"alpha", "T"} <= set(document):
        raise ConfigurationError(f"{field}: {path} has no alpha and T; write an object such as {example}", field=field)
    try:
        return PH.from_json(document)
    except InvalidProcessError as fault:
        raise ConfigurationError(f"{field}: {path} is not a phase-type distribution: {fault}", field=field) from fault


def _read_json(path: Path, field: str, example: str) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as fault:
        raise ConfigurationError(f"{field}: {path} cannot be read: {fault.strerror}", field=field) from fault
    except (ValueError, RecursionError) as fault:
        raise ConfigurationError(
            f"{field}: {path} is not JSON: {fault}; write an object such as {example}", field=field
        ) from fault
