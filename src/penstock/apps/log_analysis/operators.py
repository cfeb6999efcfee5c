# SPDX-License-Identifier: Apache-2.0
"""The operators: parser, counter, matcher, and log_analysis, which is all three as one query.

Each takes a stream and its options and returns a stream, or a writer that is not yet started.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.apps.counts import counts_writer
from penstock.apps.log_analysis.options import (
    Options,
    check_options,
    chosen_format,
    chosen_patterns,
    longest_message,
)
from penstock.apps.log_analysis.patterns import check_in_java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

PARSER_METRICS = "penstock_parser"
"""The name of the parser's counts among a progress's observed metrics."""


def parser(stream: DataFrame, options: Options) -> DataFrame:
    """Return the well-formed lines as (index, arrival, timestamp, level, component, message).

    Malformed lines are discarded and counted: the progress of each batch has `parsed` and `malformed` among its
    observed metrics, under ``penstock_parser``. They belong to the batch, and a batch that is run again reports them
    again: add them up by batch id.

    Parameters
    ----------
    stream
        Rows with at least `index`, `arrival` and `value`, such as the replay source's.
    options
        ``format``: the name of a line format (default ``penstock``).
    """
    from pyspark.sql import functions as sf

    from penstock.apps.log_analysis.tables import parse

    check_options("parser", options)
    lines = parse(stream, chosen_format(options)).observe(
        PARSER_METRICS,
        sf.count_if(sf.col("is_parsed")).alias("parsed"),
        sf.count_if(~sf.col("is_parsed")).alias("malformed"),
    )
    return lines.where("is_parsed").drop("is_parsed")


def counter(stream: DataFrame, options: Options) -> DataStreamWriter:
    """Count the events of each component of parsed lines. Option ``output``: the folder for the result."""
    from penstock.apps.log_analysis.tables import component_counts

    check_options("counter", options)
    return counts_writer(component_counts(stream), options["output"])


def matcher(stream: DataFrame, options: Options) -> DataStreamWriter:
    """Count, for each pattern, the parsed lines whose message contains it, and the lines searched.

    Parameters
    ----------
    stream
        The parser's rows.
    options
        ``output``: the folder for the result. ``patterns``: a file of patterns (default: a built-in set).
        ``pattern_count``: how many patterns to look for, which sets the work per line (default: all of them once).
        ``longest_message``: how many characters of a message are searched (default 2000). Longer messages are counted
        as ``cut``. ``pattern_seconds``: how long a pattern of yours may take on a text made to keep it busy (default
        1s; 0: it is not tried).
    """
    from penstock.apps.log_analysis.tables import pattern_counts

    check_options("matcher", options)
    patterns = chosen_patterns(options)
    check_in_java(patterns, stream.sparkSession)
    return counts_writer(pattern_counts(stream, patterns, longest_message(options)), options["output"])


def log_analysis(stream: DataFrame, options: Options) -> DataStreamWriter:
    """Parse, count and match in one query, with the options of all three.

    The counts have the kinds ``component``, ``pattern``, ``malformed``, ``total`` and, for messages that were
    searched in part, ``cut``; the components' counts and the malformed lines add up to the total.
    """
    from penstock.apps.log_analysis.tables import analysis_counts

    check_options("log_analysis", options)
    patterns = chosen_patterns(options)
    check_in_java(patterns, stream.sparkSession)
    counts = analysis_counts(stream, chosen_format(options), patterns, longest_message(options))
    return counts_writer(counts, options["output"])
