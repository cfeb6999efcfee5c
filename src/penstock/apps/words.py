# SPDX-License-Identifier: Apache-2.0
"""The words of text lines: what stands between spaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def words_of(stream: DataFrame) -> DataFrame:
    """Return a row (arrival, word) for each word of each line. A line without text has none."""
    from pyspark.sql import functions as sf

    # Without null and empty words: a line may be null, begin with a space, or hold two in a row.
    words = stream.select("arrival", sf.explode(sf.split("value", r"\s+")).alias("word"))
    return words.where(sf.col("word") != "")
