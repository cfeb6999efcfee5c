# SPDX-License-Identifier: Apache-2.0
"""The query: divide the records into groups, keep the newest of each in a ring buffer, sort it every x seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.apps.application_options import ApplicationOptions, Options, microseconds, whole_number

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SORTED_SCHEMA = "at_us BIGINT, records BIGINT, first STRING, last STRING, checksum BIGINT, group INT"
"""What a sort gives. The sorted records themselves stay where they are, as in the original."""

_OPTIONS = ApplicationOptions(
    "rolling_sort",
    every=microseconds("60s"),
    buffer=whole_number(10_000, least=1, most=10_000_000),
    groups=whole_number(8, least=1, most=10_000),
)
check_options = _OPTIONS.check


def rolling_sort(stream: DataFrame, options: Options) -> DataFrame:
    """Return a row for each sort of a group's buffer, as `SORTED_SCHEMA` says.

    Parameters
    ----------
    stream
        Rows with at least `index`, `arrival` and `value`. Batches must come in order, as those of a replay or of a
        topic with one partition do; otherwise the buffers hold what came last, not what arrived last.
    options
        ``every``: time from one sort to the next (default 60s). ``buffer``: records in a group's ring buffer (default
        10000). ``groups``: how many groups there are (default 8); several for each task.
    """
    from pyspark.sql import functions as sf

    from penstock.apps.one_value_state import keep_state_in_rocksdb
    from penstock.apps.rolling_sort.processor import SortProcessor

    values = _OPTIONS.read(options)
    keep_state_in_rocksdb(stream.sparkSession)
    records = stream.where(sf.col("value").isNotNull()).select(
        sf.pmod("index", sf.lit(values["groups"])).cast("int").alias("group"),
        "index",
        sf.unix_micros("arrival").alias("arrival_us"),
        "value",
    )
    processor = SortProcessor(values["buffer"], values["every"])
    return records.groupBy("group").transformWithStateInPandas(
        processor, SORTED_SCHEMA, outputMode="Append", timeMode="None"
    )
