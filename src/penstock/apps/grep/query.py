# SPDX-License-Identifier: Apache-2.0
"""The query: search each line for a regular expression, count the lines in which it is found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.apps.application_options import ApplicationOptions, Option, Options, whole_number
from penstock.apps.counts import counts_writer
from penstock.apps.log_analysis.patterns import Pattern, check_in_java, fault_of, in_python
from penstock.apps.pattern_trial import DEFAULT_LIMIT, check_in_time, read_limit
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

DEFAULT_PATTERN = r"\b(?:st|th)\w*(?:ing|ed)\b"
"""Finds something in about every third generated line of text."""

LONGEST_LINE = 2000
"""How many characters of a line are searched by default. A user's pattern may take time, and Java's stack, that grow
faster than the line."""


def _pattern(name: str, text: str) -> str:
    if not text:
        raise ConfigurationError(f"{name}: is empty; give a regular expression", field=name)
    if fault := fault_of(Pattern(name, text)):
        raise ConfigurationError(fault.removeprefix("patterns: "), field=name)
    return text


_OPTIONS = ApplicationOptions(
    "grep",
    writes="counts.json",
    pattern=Option(DEFAULT_PATTERN, _pattern),
    longest_line=whole_number(LONGEST_LINE, least=10, most=1_000_000),
    pattern_seconds=Option(DEFAULT_LIMIT, read_limit),
)


def check_options(operator: str, options: Options) -> None:
    """Check the options, as a run does before it starts anything. A pattern of the user's is tried, too."""
    _OPTIONS.check(operator, options)
    _try_pattern(options)


def _try_pattern(options: Options) -> None:
    if "pattern" in options:
        values = _OPTIONS.read(options)
        tried = {"pattern": in_python(Pattern("pattern", values["pattern"]))}
        check_in_time(tried, values["longest_line"], values["pattern_seconds"], "pattern")


def grep(stream: DataFrame, options: Options) -> DataStreamWriter:
    """Count the lines searched (``total``), those with a match (``matched``), and those searched in part (``cut``).

    Parameters
    ----------
    stream
        Rows with at least `value`.
    options
        ``output``: the folder for the result. ``pattern``: a regular expression in Java's dialect.
        ``longest_line``: how many characters of a line are searched (default 2000). ``pattern_seconds``: how long a
        pattern of yours may take on a text made to keep it busy (default 1s; 0: it is not tried).
    """
    from pyspark.sql import functions as sf

    values = _OPTIONS.read(options)
    _try_pattern(options)
    check_in_java([Pattern("pattern", values["pattern"])], stream.sparkSession)
    line, longest = sf.col("value"), values["longest_line"]
    is_matched = sf.substring(line, 1, longest).rlike(values["pattern"])
    kinds = sf.array_compact(
        sf.array(
            sf.lit("total"),
            sf.when(is_matched, sf.lit("matched")),
            sf.when(sf.char_length(line) > longest, sf.lit("cut")),
        )
    )
    found = stream.select(sf.explode(kinds).alias("kind"), sf.lit("").alias("key"))
    return counts_writer(found.groupBy("kind", "key").count(), values["output"])
