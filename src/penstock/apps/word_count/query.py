# SPDX-License-Identifier: Apache-2.0
"""The query: split lines into words, count each word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.apps.application_options import ApplicationOptions, Options
from penstock.apps.counts import counts_writer
from penstock.apps.words import words_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_OPTIONS = ApplicationOptions("word_count", writes="counts.json")
check_options = _OPTIONS.check


def word_count(stream: DataFrame, options: Options) -> DataStreamWriter:
    """Count the words of all lines so far, in counts of the kind ``word``. Option ``output``: the result's folder."""
    from pyspark.sql import functions as sf

    output = _OPTIONS.read(options)["output"]
    counts = words_of(stream).groupBy(sf.lit("word").alias("kind"), sf.col("word").alias("key")).count()
    return counts_writer(counts, output)
