# SPDX-License-Identifier: Apache-2.0
"""The query: search each line for a regular expression, count the lines in which it is found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.apps.application_options import ApplicationOptions, Option, Options
from penstock.apps.counts import counts_writer
from penstock.apps.log_analysis.patterns import Pattern, check_in_java, fault_of
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

DEFAULT_PATTERN = r"\b(?:st|th)\w*(?:ing|ed)\b"
"""Finds something in about every third generated line of text."""


def _pattern(name: str, text: str) -> str:
    if not text:
        raise ConfigurationError(f"{name}: is empty; give a regular expression", field=name)
    if fault := fault_of(Pattern(name, text)):
        raise ConfigurationError(fault.removeprefix("patterns: "), field=name)
    return text


_OPTIONS = ApplicationOptions("grep", writes="counts.json", pattern=Option(DEFAULT_PATTERN, _pattern))
check_options = _OPTIONS.check


def grep(stream: DataFrame, options: Options) -> DataStreamWriter:
    """Count the lines searched (kind ``total``) and those with a match (kind ``matched``).

    Parameters
    ----------
    stream
        Rows with at least `value`.
    options
        ``output``: the folder for the result. ``pattern``: a regular expression in Java's dialect.
    """
    from pyspark.sql import functions as sf

    values = _OPTIONS.read(options)
    check_in_java([Pattern("pattern", values["pattern"])], stream.sparkSession)
    is_matched = sf.coalesce(sf.col("value").rlike(values["pattern"]), sf.lit(False))
    kinds = sf.when(is_matched, sf.array(sf.lit("total"), sf.lit("matched"))).otherwise(sf.array(sf.lit("total")))
    found = stream.select(sf.explode(kinds).alias("kind"), sf.lit("").alias("key"))
    return counts_writer(found.groupBy("kind", "key").count(), values["output"])
