# SPDX-License-Identifier: Apache-2.0
"""The matcher line by line: reports which patterns a line contains as soon as the line arrives.

`matcher` counts over the whole stream. `match_lines` returns a row for every match and keeps no state. It parses the
raw lines itself, so that it can stand first behind a topic: Spark's real-time mode needs a topic before and after a
query, and each further hop would be one more broker to wait for. It consists of projections, a filter and one
generator, which that mode allows. In micro-batches it is the same query with the same rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def match_lines(stream: DataFrame, options: Options) -> DataFrame:
    """Return (index, arrival, pattern): a row for each line and each pattern found in its message.

    A malformed line, and one without a match, yields no row. One with a message too long to be searched as a whole
    yields a row with the pattern ``cut``.

    Parameters
    ----------
    stream
        Raw lines: rows with at least `index`, `arrival` and `value`, such as the replay source's, or a topic's as
        `penstock.adaptors.kafka.operator_stream.read_topic` returns them.
    options
        ``format``: the name of a line format (default ``penstock``). ``patterns``: a file of patterns (default: a
        built-in set). ``pattern_count``: how many of them to look for (default: all of them once).
        ``longest_message``: how many characters of a message are searched (default 2000). ``pattern_seconds``: how
        long a pattern of yours may take on a text made to keep it busy (default 1s; 0: it is not tried). ``output``
        is accepted and ignored: whoever runs the query writes the rows.

    Raises
    ------
    ConfigurationError
        Lists every mistake in the options, as `check_match_options` does, or names a pattern that Java refuses.
    """
    from pyspark.sql import functions as sf

    from penstock.apps.log_analysis.tables import parse

    check_match_options(options)
    patterns = chosen_patterns(options)
    check_in_java(patterns, stream.sparkSession)
    message, longest = sf.col("message"), longest_message(options)
    searched, is_cut = sf.substring(message, 1, longest), sf.char_length(message) > longest
    # Each expression is a literal: Spark compiles it once per task, not once per row.
    names = [sf.when(searched.rlike(regex), sf.lit(name)) for name, regex in patterns]
    found = sf.array_compact(sf.array(*names, sf.when(is_cut, sf.lit("cut"))))
    lines = parse(stream, chosen_format(options)).where("is_parsed")
    return lines.select("index", "arrival", sf.explode(found).alias("pattern"))


def check_match_options(options: Options) -> None:
    """Check the options of `match_lines` without Spark, before anything starts.

    Raises
    ------
    ConfigurationError
        Lists every mistake: unknown option, unknown format, a pattern that does not compile.
    """
    check_options("match_lines", options)
