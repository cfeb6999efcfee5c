# SPDX-License-Identifier: Apache-2.0
"""The query: split lines into words, count each word within a period, output the counts when the period is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.apps.application_options import ApplicationOptions, Options, microseconds
from penstock.apps.words import words_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OPTIONS = ApplicationOptions(
    "rolling_count", every=microseconds("60s"), lateness=microseconds("10s", may_be_zero=True)
)
check_options = _OPTIONS.check


def rolling_count(stream: DataFrame, options: Options) -> DataFrame:
    """Return (start, end, word, count) of the words that arrived in each period, once it is over.

    Parameters
    ----------
    stream
        Rows with at least `arrival` and `value`.
    options
        ``every``: the length of a period of arrival times (default 60s). ``lateness``: by how much records may come out
        of order, which delays the output (default 10s): partitions of a topic are not read evenly. Later ones are
        dropped. A replay comes in order and needs 0s.
    """
    from pyspark.sql import functions as sf

    values = _OPTIONS.read(options)
    words = words_of(stream).withWatermark("arrival", f"{values['lateness']} microseconds")
    period = sf.window("arrival", f"{values['every']} microseconds")
    counts = words.groupBy(period.alias("period"), "word").count()
    return counts.select("period.start", "period.end", "word", "count")
