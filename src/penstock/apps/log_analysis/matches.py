# SPDX-License-Identifier: Apache-2.0
"""The matcher, line by line: which patterns are found in which line, the moment the line comes.

Where `matcher` counts over the whole stream, `match_lines` gives a row for every find and keeps no state. It parses
the raw lines itself, so that it can stand first behind a topic: Spark's real-time mode wants a topic before and after
it, and each hop more would be one more broker to wait for. It is made of projections, a filter and one generator,
which that mode allows; under micro-batches it is the same query with the same rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.apps.log_analysis.options import Options, check_options, chosen_format, chosen_patterns
from penstock.apps.log_analysis.patterns import check_in_java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def match_lines(stream: DataFrame, options: Options) -> DataFrame:
    """Give (index, arrival, pattern): a row for each line and each pattern found in its message.

    A malformed line, and one in which nothing is found, gives no row.

    Parameters
    ----------
    stream
        Raw lines: rows with at least `index`, `arrival` and `value`, such as the replay source's, or a topic's as
        `penstock.adaptors.kafka.operator_stream.read_topic` gives them.
    options
        ``format``: the name of a line format (default ``penstock``). ``patterns``: a file of patterns (default: a
        built-in set). ``pattern_count``: how many of them to look for (default: all of them once). ``output`` is
        taken and not used: the rows are written by whoever runs the query.

    Raises
    ------
    ConfigurationError
        With every mistake in the options, as `check_match_options` finds them, or a pattern that Java refuses.
    """
    from pyspark.sql import functions as sf

    from penstock.apps.log_analysis.tables import parse

    check_match_options(options)
    patterns = chosen_patterns(options)
    check_in_java(patterns, stream.sparkSession)
    message = sf.col("message")
    # Each expression is a literal: Spark compiles it once for a task, not once for a row.
    found = sf.array_compact(sf.array(*[sf.when(message.rlike(regex), sf.lit(name)) for name, regex in patterns]))
    lines = parse(stream, chosen_format(options)).where("is_parsed")
    return lines.select("index", "arrival", sf.explode(found).alias("pattern"))


def check_match_options(options: Options) -> None:
    """Look through the options of `match_lines` without Spark, before anything is started.

    Raises
    ------
    ConfigurationError
        With every mistake: unknown option, unknown format, a pattern that does not compile.
    """
    check_options("match_lines", options)
