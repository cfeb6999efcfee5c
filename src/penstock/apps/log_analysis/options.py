# SPDX-License-Identifier: Apache-2.0
"""The options of each operator, checked before anything starts, and the schema of its output."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from penstock.apps.counts import COUNTS_SCHEMA
from penstock.apps.log_analysis.lines import LineFormat, line_format
from penstock.apps.log_analysis.patterns import DEFAULT_PATTERNS, Pattern, in_python, load_patterns, take
from penstock.apps.pattern_trial import DEFAULT_LIMIT, check_in_time, read_limit
from penstock.errors import ConfigurationError

Options: TypeAlias = Mapping[str, str]

PARSED_SCHEMA = "index BIGINT, arrival TIMESTAMP, timestamp TIMESTAMP, level STRING, component STRING, message STRING"
MATCHES_SCHEMA = "index BIGINT, arrival TIMESTAMP, pattern STRING"
"""The output schema of `match_lines` (DDL)."""
_SCHEMAS = {
    "parser": PARSED_SCHEMA,
    "counter": COUNTS_SCHEMA,
    "matcher": COUNTS_SCHEMA,
    "log_analysis": COUNTS_SCHEMA,
    "match_lines": MATCHES_SCHEMA,
}
_OPTIONS = {
    "parser": ("format", "output"),
    "counter": ("output",),
    "matcher": ("patterns", "pattern_count", "longest_message", "pattern_seconds", "output"),
    "log_analysis": ("format", "patterns", "pattern_count", "longest_message", "pattern_seconds", "output"),
    "match_lines": ("format", "patterns", "pattern_count", "longest_message", "pattern_seconds", "output"),
}
_WRITTEN_BY_THE_RUN = ("parser", "match_lines")
"""Whoever runs these operators writes their output, so they need no folder."""
MOST_PATTERNS = 1000
LONGEST_MESSAGE = 2000
"""How many characters of a message are searched by default."""
_MESSAGE_RANGE = (10, 1_000_000)


def stream_schema(operator: str) -> str:
    """Return the schema (DDL) of an operator's output, so that a reader needs no inference.

    Examples
    --------
    >>> stream_schema("counter")
    'kind STRING, key STRING, count BIGINT'
    """
    if operator not in _SCHEMAS:
        raise ConfigurationError(
            f"operator: unknown operator {operator!r}; known: {', '.join(_SCHEMAS)}", field="operator"
        )
    return _SCHEMAS[operator]


def check_options(operator: str, options: Options) -> None:
    """Check an operator's options without Spark, before anything starts.

    Raises
    ------
    ConfigurationError
        Lists every mistake: unknown option, unknown format, a pattern that does not compile or takes too long, no
        output folder.
    """
    stream_schema(operator)
    known = _OPTIONS[operator]
    faults = [f"{name}: unknown option; known: {', '.join(known)}" for name in options if name not in known]
    if operator not in _WRITTEN_BY_THE_RUN and not options.get("output"):
        faults.append("output: is missing; give the folder for counts.json")
    checks: tuple[tuple[str, Callable[[Options], object]], ...] = (
        ("format", chosen_format),
        ("patterns", _pattern_set),
        ("pattern_count", chosen_patterns),
        ("longest_message", longest_message),
        ("pattern_seconds", pattern_seconds),
    )
    for name, check in checks:
        if name in known and name in options:
            try:
                check(options)
            except ConfigurationError as fault:
                if str(fault) not in faults:
                    faults.append(str(fault))
    if not faults and "patterns" in known and "patterns" in options:
        tried = {pattern.name: in_python(pattern) for pattern in _pattern_set(options)}
        check_in_time(tried, longest_message(options), pattern_seconds(options), "patterns")
    if faults:
        raise ConfigurationError.of_all(f"options of {operator}", faults)


def chosen_format(options: Options) -> LineFormat:
    """Return the line format that the options name, by default ``penstock``."""
    return line_format(options.get("format", "penstock"))


def _pattern_set(options: Options) -> tuple[Pattern, ...]:
    path = options.get("patterns")
    return DEFAULT_PATTERNS if path is None else load_patterns(path)


def chosen_patterns(options: Options) -> tuple[Pattern, ...]:
    """Return the patterns of the file that the options name (or the built-in ones), as many as they ask for."""
    available = _pattern_set(options)
    text = options.get("pattern_count")
    if text is None:
        return available
    if not text.strip().isdecimal() or not 1 <= int(text) <= MOST_PATTERNS:
        raise ConfigurationError(
            f"pattern_count: {text!r} is not a whole number from 1 to {MOST_PATTERNS}", field="pattern_count"
        )
    return take(available, int(text))


def longest_message(options: Options) -> int:
    """Return how many characters of a message are searched for patterns.

    A pattern may take time, and Java's stack, that grow faster than the message: what lies behind is not searched, and
    such messages are counted.
    """
    text = options.get("longest_message", str(LONGEST_MESSAGE))
    low, high = _MESSAGE_RANGE
    if not text.strip().isdecimal() or not low <= int(text) <= high:
        raise ConfigurationError(
            f"longest_message: {text!r} is not a whole number from {low} to {high}", field="longest_message"
        )
    return int(text)


def pattern_seconds(options: Options) -> float:
    """Return how long a user's pattern may take, on the CPU, on a text made to keep it busy; 0: it is not tried."""
    return read_limit("pattern_seconds", options.get("pattern_seconds", DEFAULT_LIMIT))
