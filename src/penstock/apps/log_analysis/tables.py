# SPDX-License-Identifier: Apache-2.0
"""The tables behind the operators, for streams and files alike: only Spark expressions, no Python per row.

The executors' own code does the work, which is CPU-bound: it searches a message for each of the patterns.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from penstock.apps.log_analysis.lines import LineFormat
from penstock.apps.log_analysis.patterns import Pattern

_SEPARATOR = "\x01"
_LINE_ENDS = "\r\n"


def parse(stream: DataFrame, line_format: LineFormat) -> DataFrame:
    """Return every line with its fields and `is_parsed`. A line whose time does not exist is also malformed."""
    # One search finds all fields: the line is rewritten as its fields with separators, then split there.
    # A line that does not match stays as it is, and only such a line does (see LineFormat.regex).
    order = (line_format.timestamp, line_format.level, line_format.component, line_format.message)
    rewritten = _SEPARATOR.join("" if group is None else f"${group}" for group in order)
    lines = stream.select("index", "arrival", sf.rtrim(sf.col("value"), sf.lit(_LINE_ENDS)).alias("line"))
    lines = lines.withColumn("rewritten", sf.regexp_replace("line", sf.lit(line_format.regex), sf.lit(rewritten)))
    lines = lines.select(
        "index",
        "arrival",
        (sf.col("rewritten") != sf.col("line")).alias("matches"),
        sf.split("rewritten", _SEPARATOR, len(order)).alias("fields"),
    )
    fields = sf.when(sf.col("matches"), sf.col("fields"))
    time = fields[0]
    if not line_format.has_year:
        time = sf.concat_ws(" ", sf.year("arrival").cast("string"), time)
    timestamp = (
        sf.try_to_timestamp(time)
        if line_format.time_pattern is None
        else sf.try_to_timestamp(time, sf.lit(line_format.time_pattern))
    )
    return lines.select(
        "index",
        "arrival",
        timestamp.alias("timestamp"),
        sf.nullif(fields[1], sf.lit("")).alias("level"),
        fields[2].alias("component"),
        fields[3].alias("message"),
    ).withColumn("is_parsed", sf.col("timestamp").isNotNull())


def component_counts(parsed: DataFrame) -> DataFrame:
    """Return (kind, key, count) with one row for each component."""
    return parsed.groupBy(sf.lit("component").alias("kind"), sf.col("component").alias("key")).count()


def pattern_counts(parsed: DataFrame, patterns: Sequence[Pattern], longest: int) -> DataFrame:
    """Return (kind, key, count) with one row for each pattern that was found, the total, and the messages cut.

    Of a message that is longer than `longest` characters only these are searched.
    """
    matches = _matches(sf.col("message"), patterns, longest)
    entries = sf.array_compact(sf.array(_entry("total", sf.lit("")), *matches))
    return parsed.select(sf.inline(entries)).groupBy("kind", "key").count()


def analysis_counts(stream: DataFrame, line_format: LineFormat, patterns: Sequence[Pattern], longest: int) -> DataFrame:
    """Return (kind, key, count) of everything in one pass over the raw lines."""
    total = _entry("total", sf.lit(""))
    matches = _matches(sf.col("message"), patterns, longest)
    entries = sf.when(
        sf.col("is_parsed"), sf.array_compact(sf.array(total, _entry("component", sf.col("component")), *matches))
    ).otherwise(sf.array(total, _entry("malformed", sf.lit(""))))
    return parse(stream, line_format).select(sf.inline(entries)).groupBy("kind", "key").count()


def _entry(kind: str, key: Column) -> Column:
    return sf.struct(sf.lit(kind).alias("kind"), key.alias("key"))


def _matches(message: Column, patterns: Sequence[Pattern], longest: int) -> list[Column]:
    # Each expression is a literal: Spark compiles it once per task, not once per row.
    searched = sf.substring(message, 1, longest)
    found = [sf.when(searched.rlike(regex), _entry("pattern", sf.lit(name))) for name, regex in patterns]
    return [*found, sf.when(sf.char_length(message) > longest, _entry("cut", sf.lit("")))]
