# SPDX-License-Identifier: Apache-2.0
"""Parses shapes as users write them: one line of text, or a mapping in a settings file.

::

    constant:rate=500,duration=5m
    periodic:base=500,peak=5000,period=60s,width=20s,duration=5m,smooth=false
    steps:30s@500,10s@5000,30s@500
    sampled:periodic:base=500,peak=5000,period=60s,width=20s,duration=5m,seed=7
    map:file=/data/map.json,rate=500,duration=5m,seed=7
    synt:rate=500,duration=30m,seed=7
    taxi-days:rate=170,duration=288m,variant=3
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from penstock.arrivals.contract import Arrivals
from penstock.arrivals.from_map import MapArrivals, load_map
from penstock.arrivals.sampled import Sampled
from penstock.arrivals.shapes import Constant, Periodic, Shape, Steps
from penstock.arrivals.synt import synt
from penstock.arrivals.taxi_days import TaxiDays
from penstock.errors import ConfigurationError
from penstock.units import parse_rate, parse_seconds

_Reader = Callable[[Any, str], Any]


def parse_shape(description: str | Mapping[str, Any], *, seed: int = 0) -> Arrivals:
    """Return the shape in a text or a mapping.

    Parameters
    ----------
    description
        Text as above, or a mapping with the same fields and the shape's name under ``shape``, for example
        ``{"shape": "steps", "steps": [["30s", 500], ["10s", 5000]]}``; ``sampled: true`` makes arrivals random.
    seed
        For random arrivals without their own seed: sampled shapes, ``map`` (a file with D0 and D1 as ``penstock fit``
        writes it; the default rate is the process's own) and ``synt`` (`penstock.arrivals.synt`).

    Raises
    ------
    ConfigurationError
        Lists all unknown, missing and wrong fields at once.

    Examples
    --------
    >>> parse_shape("constant:rate=500,duration=2s")
    Constant(rate=500.0, duration_seconds=2.0)
    """
    name, fields, is_sampled = _split(description) if isinstance(description, str) else _unpack(description)
    _check_name(name)
    if name in _RANDOM_SHAPES:
        if is_sampled:
            raise ConfigurationError(f"shape: {name} is random already; leave out sampled", field="shape")
        return _build_random(name, _read_fields(name, {"seed": seed, **fields}))
    if is_sampled:
        seed = _read_seed(fields.pop("seed", seed), "seed")
    shape = _build(name, _read_fields(name, fields))
    return Sampled(shape, seed) if is_sampled else shape


def _split(text: str) -> tuple[str, dict[str, Any], bool]:
    rest = text.strip()
    is_sampled = rest.startswith("sampled:")
    name, _, body = rest.removeprefix("sampled:").partition(":")
    name = name.strip()
    _check_name(name)  # before the fields, whose form depends on it
    fields: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in body.split(","))):
        key, equals, value = (word.strip() for word in part.partition("="))
        if equals:
            if key in fields:
                raise ConfigurationError(f"shape: {key} is given twice in {text!r}", field="shape")
            fields[key] = value
        elif name == "steps":
            fields.setdefault("steps", []).append(part)
        else:
            raise ConfigurationError(
                f"shape: cannot read {part!r} in {text!r}; write field=value, such as duration=5m", field="shape"
            )
    return name, fields, is_sampled


def _check_name(name: str) -> None:
    if name not in _SHAPE_FIELDS:
        near = get_close_matches(name, _SHAPE_FIELDS, n=1)
        meant = f"did you mean {near[0]}? Known" if near else "known"
        raise ConfigurationError(
            f"shape: unknown shape {name!r}; {meant} shapes: {', '.join(_SHAPE_FIELDS)}, "
            f"and as sampled:NAME:... {', '.join(n for n in _SHAPE_FIELDS if n not in _RANDOM_SHAPES)}",
            field="shape",
        )


def _unpack(mapping: Mapping[str, Any]) -> tuple[str, dict[str, Any], bool]:
    fields = dict(mapping)
    return str(fields.pop("shape", "")), fields, _read_bool(fields.pop("sampled", False), "sampled")


def _read_fields(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    readers, required = _SHAPE_FIELDS[name]
    faults = [
        f"unknown field {field!r}; known fields of {name}: {', '.join(readers)}"
        for field in fields
        if field not in readers
    ]
    faults += [f"{field} is missing; {name} needs {', '.join(required)}" for field in required if field not in fields]
    values: dict[str, Any] = {}
    for field, reader in readers.items():
        if field in fields:
            try:
                values[field] = reader(fields[field], field)
            except ConfigurationError as fault:
                faults.append(str(fault))
    if faults:
        raise ConfigurationError.of_all(f"shape {name}", faults)
    return values


def _build_random(name: str, values: Mapping[str, Any]) -> Arrivals:
    if name == "synt":
        return synt(values["rate"], values["duration"], seed=values["seed"])
    process = load_map(values["file"])
    if "rate" in values:
        if not values["rate"] > 0:
            raise ConfigurationError("rate: 0 is not a rate of arrivals; give one above 0", field="rate")
        process = process.with_rate(values["rate"])
    return MapArrivals(process, seconds=values["duration"], seed=values["seed"])


def _build(name: str, values: Mapping[str, Any]) -> Shape:
    if name == "constant":
        return Constant(values["rate"], values["duration"])
    if name == "steps":
        return Steps(values["steps"], values["duration"]) if "duration" in values else Steps.once(values["steps"])
    if name == "taxi-days":
        return TaxiDays(values["rate"], values["duration"], values.get("variant", 0))
    return Periodic(
        values["base"],
        values["peak"],
        values["period"],
        values["width"],
        values["duration"],
        values.get("smooth", True),
    )


def _read_bool(value: Any, field: str) -> bool:
    if isinstance(value, bool):
        return value
    known = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if str(value).strip().lower() not in known:
        raise ConfigurationError(f"{field}: {value!r} is neither true nor false", field=field)
    return known[str(value).strip().lower()]


def _read_file(value: Any, field: str) -> str:
    if not Path(str(value)).is_absolute():
        # Executors open it too, and each has its own working folder.
        raise ConfigurationError(f"{field}: {value!r} is not an absolute path; start it with /", field=field)
    return str(value)


def _read_seed(value: Any, field: str) -> int:
    try:
        return int(value)
    except (TypeError, ValueError) as fault:
        raise ConfigurationError(f"{field}: {value!r} is not a whole number", field=field) from fault


def _read_steps(value: Any, field: str) -> tuple[tuple[float, float], ...]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise ConfigurationError(f'{field}: {value!r} is not a list of steps such as "30s@500"', field=field)
    return tuple(_read_step(step, field) for step in value)


def _read_step(step: Any, field: str) -> tuple[float, float]:
    seconds, rate = step.split("@", 1) if isinstance(step, str) and "@" in step else (step, None)
    if rate is None and isinstance(step, Sequence) and not isinstance(step, str) and len(step) == 2:
        seconds, rate = step
    if rate is None:
        raise ConfigurationError(f'{field}: cannot read {step!r}; write a step like "30s@500"', field=field)
    return parse_seconds(seconds, field), parse_rate(rate, field)


# The fields of each shape with their readers, and the required fields.
_SHAPE_FIELDS: dict[str, tuple[dict[str, _Reader], tuple[str, ...]]] = {
    "constant": ({"rate": parse_rate, "duration": parse_seconds}, ("rate", "duration")),
    "periodic": (
        {
            "base": parse_rate,
            "peak": parse_rate,
            "period": parse_seconds,
            "width": parse_seconds,
            "duration": parse_seconds,
            "smooth": _read_bool,
        },
        ("base", "peak", "period", "width", "duration"),
    ),
    "steps": ({"steps": _read_steps, "duration": parse_seconds}, ("steps",)),
    "taxi-days": ({"rate": parse_rate, "duration": parse_seconds, "variant": _read_seed}, ("rate", "duration")),
    "map": (
        {"file": _read_file, "rate": parse_rate, "duration": parse_seconds, "seed": _read_seed},
        ("file", "duration"),
    ),
    "synt": ({"rate": parse_rate, "duration": parse_seconds, "seed": _read_seed}, ("rate", "duration")),
}
_RANDOM_SHAPES = ("map", "synt")
