# SPDX-License-Identifier: Apache-2.0
"""The options of a replayed load, checked before anything starts. Needs no Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from penstock.arrivals import TRACE_FORMATS, Arrivals, ReplayArrivals, load_trace, parse_shape
from penstock.arrivals.file_cache import default_cache_dir, fingerprint
from penstock.arrivals.trace_times import KINDS, ORIGINS
from penstock.errors import ConfigurationError
from penstock.units import parse_number, parse_seconds, parse_whole_number

_LARGEST_LONG = (1 << 63) - 1
_OptionReader = Callable[[Any, str], Any]

NAMED_PAYLOADS = ("none", "log", "text", "web-log", "features", "taxi-ride")
PAYLOADS = (*NAMED_PAYLOADS, "file:PATH")


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """What is replayed, how fast, and with what text.

    Parameters
    ----------
    trace, shape
        The path of a trace file, or the description of a shape (`penstock.arrivals.parse_shape`). Give one of the two.
    unit, column, kind, origin, format
        How a trace file is read (`penstock.arrivals.load_trace`).
    speed
        How many times faster than real time.
    partitions
        The number of tasks in a batch.
    payload
        The text of each record: ``none``; generated: ``log`` (system log lines), ``text`` (lines of words), ``web-log``
        (accesses to 100 sites), ``features`` (labelled instances for a classifier) or ``taxi-ride`` (rides, each three
        times); or ``file:PATH`` (the lines of a file, repeated).
    malformed
        The fraction of malformed log lines.
    seed
        Seeds generated lines, random shapes without their own seed, and the places of counted records in their
        period.
    max_rows_per_batch
        The most records in a batch. None: all that are due.
    max_rows_file
        A file beside the driver that holds the most records in a batch. It is read before every batch, so that a
        running query can be given another limit. None: there is no such file.
    start_at
        Time zero of the trace in seconds since the epoch. None: when the query first starts.
    cache_dir
        The folder for converted files on each machine. None: a private folder under the temporary one.
    """

    trace: str | None = None
    shape: str | None = None
    unit: str | None = None
    column: str | None = None
    kind: str | None = None
    origin: str | None = None
    format: str = "auto"
    speed: float = 1.0
    partitions: int = 2
    payload: str = "none"
    malformed: float = 0.01
    seed: int = 0
    max_rows_per_batch: int | None = None
    max_rows_file: str | None = None
    start_at: float | None = None
    cache_dir: str | None = None

    @classmethod
    def parse(cls, options: Mapping[str, Any]) -> ReplayOptions:
        """Read the options of ``spark.readStream``. Their names are not case-sensitive.

        Raises
        ------
        ConfigurationError
            Lists every unknown option and wrong value at once. `open_arrivals` checks the trace file itself.
        """
        known = {name.lower(): (name, field, read) for name, (field, read) in _OPTIONS.items()}
        values: dict[str, Any] = {}
        faults = []
        for option, value in options.items():
            if option.lower() not in known:
                faults.append(f"unknown option {option!r}; known options: {', '.join(_OPTIONS)}")
                continue
            name, field, read = known[option.lower()]
            if field in values:
                faults.append(f"{name}: {field} is given twice; write it once")
            try:
                values[field] = read(value, name)
            except ConfigurationError as fault:
                faults.append(str(fault))
        if not faults:
            faults += _faults_between(values)
        if faults:
            raise ConfigurationError.of_all("replay options", faults)
        return cls(**values)

    @property
    def epoch_us(self) -> int | None:
        """Time zero in microseconds since 1970, or None if it was not given."""
        return None if self.start_at is None else round(self.start_at * 1e6)

    @property
    def cache_path(self) -> Path:
        """The folder for converted files on this machine."""
        return Path(self.cache_dir) if self.cache_dir is not None else default_cache_dir()


def open_arrivals(options: ReplayOptions) -> Arrivals:
    """Return the arrivals that the options describe. A trace file is read once and memory-mapped afterwards."""
    if options.trace is None:
        return _open_shape(options.shape or "", options.seed)
    return _open_trace(options, fingerprint(Path(options.trace), "trace"))


def replay_arrivals(options: ReplayOptions | Mapping[str, Any]) -> ReplayArrivals:
    """Return the exact arrival times of a replay with these options."""
    parsed = options if isinstance(options, ReplayOptions) else ReplayOptions.parse(options)
    return ReplayArrivals(open_arrivals(parsed), parsed.speed, epoch_us=parsed.epoch_us)


# Cached per process: Python workers outlive batches and need not open the same file for each task.
@lru_cache(maxsize=4)
def _open_shape(text: str, seed: int) -> Arrivals:
    return parse_shape(text, seed=seed)


@lru_cache(maxsize=4)
def _open_trace(options: ReplayOptions, state: tuple[str, int, int]) -> Arrivals:
    return load_trace(
        state[0],
        column=options.column,
        unit=options.unit,
        kind=options.kind,
        origin=options.origin,
        format=options.format,
        seed=options.seed,
        cache_dir=options.cache_path,
    )


def _faults_between(values: Mapping[str, Any]) -> list[str]:
    if ("trace" in values) == ("shape" in values):
        return ['give either trace (the path of a file) or shape (such as "constant:rate=500,duration=5m")']
    if "shape" in values:
        return [
            f"{field}: applies only to a trace file, not to a shape; leave it out"
            for field in ("unit", "column", "kind", "origin", "format")
            if field in values
        ] + _faults_of_shape(values["shape"], values.get("seed", 0))
    return []


def _faults_of_shape(text: str, seed: int) -> list[str]:
    try:
        _open_shape(text, seed)
    except ConfigurationError as fault:
        return [str(fault)]
    return []


def _text(value: Any, name: str) -> str:
    if not str(value).strip():
        raise ConfigurationError(f"{name}: is empty; give a value or leave it out", field=name)
    return str(value).strip()


def _one_of(known: tuple[str, ...]) -> Callable[[Any, str], str]:
    def read(value: Any, name: str) -> str:
        if value not in known:
            raise ConfigurationError(f"{name}: unknown {value!r}; known: {', '.join(known)}", field=name)
        return str(value)

    return read


def _unit(value: Any, name: str) -> str:
    parse_seconds(f"1{value}", field=name)
    return str(value)


def _number(*, above: float | None = None, least: float | None = None, most: float | None = None) -> _OptionReader:
    return lambda value, name: parse_number(name, value, above=above, least=least, most=most)


def _whole_number(*, least: int) -> _OptionReader:
    return lambda value, name: parse_whole_number(name, value, least=least, most=_LARGEST_LONG)


def _payload(value: Any, name: str) -> str:
    text = str(value).strip()
    if text not in NAMED_PAYLOADS and not (text.startswith("file:") and text != "file:"):
        raise ConfigurationError(f"{name}: unknown {value!r}; known: {', '.join(PAYLOADS)}", field=name)
    return text


# Each option as Spark's users write it: the field it sets, and the function that reads its value.
_OPTIONS: dict[str, tuple[str, _OptionReader]] = {
    "trace": ("trace", _text),
    "path": ("trace", _text),  # what load("trace.txt") sets
    "shape": ("shape", _text),
    "unit": ("unit", _unit),
    "column": ("column", _text),
    "kind": ("kind", _one_of(KINDS)),
    "origin": ("origin", _one_of(ORIGINS)),
    "format": ("format", _one_of(("auto", "plain", *TRACE_FORMATS))),
    "speed": ("speed", _number(above=0)),
    "partitions": ("partitions", _whole_number(least=1)),
    "payload": ("payload", _payload),
    "malformed": ("malformed", _number(least=0, most=1)),
    "seed": ("seed", _whole_number(least=0)),
    "maxRowsPerBatch": ("max_rows_per_batch", _whole_number(least=1)),
    "maxRowsFile": ("max_rows_file", _text),
    "startAt": ("start_at", _number(least=0, most=253402300799)),
    "cacheDir": ("cache_dir", _text),
}
