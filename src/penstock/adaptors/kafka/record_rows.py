# SPDX-License-Identifier: Apache-2.0
"""A topic's records as the rows an operator takes, and its rows as records that carry their first arrival.

The arrival goes through a pipeline as a header of each record, not in its value: whoever measures latency at the end
needs neither the schema nor the payload. Only projections are used, so both also work in Spark's real-time mode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ARRIVAL_HEADER = "penstock-arrival-us"
"""Microseconds since 1970 at which a record's cause came to the pipeline, as decimal digits."""

# All six digits of a second's fraction, and UTC: what Spark writes if not told has three, in the session's time zone.
_WRITE = {"ignoreNullFields": "false", "timeZone": "UTC", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}


def lines_of_topic(records: DataFrame, due_header: str | None = None) -> DataFrame:
    """Give (index, arrival, value) of what Spark's Kafka source reads.

    `index` is the record's key as a number (null where it is none), `value` its payload as text. `arrival` is its
    arrival header where it has one, else the header `due_header`, else its timestamp, which has milliseconds only.

    Parameters
    ----------
    records
        The source's rows. Headers are there with its option ``includeHeaders`` set to ``true``; without them the
        timestamp is the arrival.
    due_header
        Another header with microseconds since 1970, such as `penstock.adaptors.produce.sink.DUE_HEADER`.
    """
    from pyspark.sql import functions as sf

    arrival = sf.col("timestamp")
    if "headers" in records.columns:
        told = [_header(name) for name in (ARRIVAL_HEADER, due_header) if name is not None]
        arrival = sf.coalesce(*[sf.timestamp_micros(one) for one in told], arrival)
    return records.select(
        sf.col("key").cast("string").try_cast("bigint").alias("index"),
        arrival.alias("arrival"),
        sf.col("value").cast("string").alias("value"),
    )


def arrival_headers() -> Column:
    """The column `headers` of Spark's Kafka sink: the arrival, out of the column `arrival`; null where that is null."""
    from pyspark.sql import functions as sf

    micros = sf.unix_micros("arrival").cast("string").cast("binary")
    header = sf.array(sf.struct(sf.lit(ARRIVAL_HEADER).alias("key"), micros.alias("value")))
    return sf.when(sf.col("arrival").isNotNull(), header).alias("headers")


def records_of_rows(rows: DataFrame, key: str = "index") -> DataFrame:
    """Give (key, value, headers) as Spark's Kafka sink takes them: all columns as JSON, the arrival as a header.

    Parameters
    ----------
    rows
        Rows with a column `arrival` (a timestamp).
    key
        The column whose text is the record's key.
    """
    from pyspark.sql import functions as sf

    value = sf.to_json(sf.struct("*"), _WRITE).alias("value")
    return rows.select(sf.col(key).cast("string").alias("key"), value, arrival_headers())


def _header(name: str) -> Column:
    from pyspark.sql import functions as sf

    values = sf.filter(sf.col("headers"), lambda header: header["key"] == name)
    return sf.get(values, sf.lit(0))["value"].cast("string").try_cast("bigint")
