# SPDX-License-Identifier: Apache-2.0
"""The options of the operators, checked without Spark."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import ConfigurationError
from penstock.units import parse_seconds, parse_whole_number

Options = Mapping[str, str]

_OPTIONS = {
    "machines": ("shedding", "groups", "output"),
    "cluster": ("every", "lateness", "output"),
    "google_cluster": ("shedding", "groups", "every", "lateness", "output"),
}
_WRITE_RESULTS = ("cluster", "google_cluster")
_WORDS = {"on": True, "true": True, "off": False, "false": False}
_MOST_GROUPS = 100_000


def check_options(operator: str, options: Options) -> None:
    """Check an operator's options before anything starts.

    Raises
    ------
    ConfigurationError
        Lists every mistake: unknown option, wrong value, no output folder.
    """
    if operator not in _OPTIONS:
        raise ConfigurationError(
            f"operator: there is no {operator!r} here; there are {', '.join(_OPTIONS)}", field="operator"
        )
    known = _OPTIONS[operator]
    faults = [f"{name}: unknown option; known: {', '.join(known)}" for name in options if name not in known]
    if operator in _WRITE_RESULTS and not options.get("output"):
        faults.append("output: is missing; give the folder for results.json")
    for name, check in (
        ("shedding", is_shedding), ("groups", group_count), ("every", every_us), ("lateness", lateness_us),
    ):  # fmt: skip
        if name in known:
            try:
                check(options)
            except ConfigurationError as fault:
                faults.append(str(fault))
    if faults:
        raise ConfigurationError.of_all(f"options of {operator}", faults)


def is_shedding(options: Options) -> bool:
    """Whether events that change no machine's state are dropped first; by default they are."""
    text = str(options.get("shedding", "on")).strip().lower()
    if text not in _WORDS:
        raise ConfigurationError(f"shedding: {text!r} is neither on nor off", field="shedding")
    return _WORDS[text]


def group_count(options: Options) -> int:
    """Into how many groups the machines are divided; a group's state is kept, and handed to a task, as one."""
    return parse_whole_number("groups", options.get("groups", "128"), least=1, most=_MOST_GROUPS)


def every_us(options: Options) -> int:
    """Trace time from one result to the next."""
    return _microseconds(options, "every", "15m", least=1)


def lateness_us(options: Options) -> int:
    """By how much trace time events may come out of order."""
    return _microseconds(options, "lateness", "0s", least=0)


def _microseconds(options: Options, name: str, default: str, *, least: int) -> int:
    text = options.get(name, default)
    found = round(parse_seconds(text, name) * 1e6)
    if found < least:
        raise ConfigurationError(f'{name}: {text!r} is too short; give a time such as "{default}"', field=name)
    return found
