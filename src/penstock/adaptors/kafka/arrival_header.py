# SPDX-License-Identifier: Apache-2.0
"""The header in which a record carries the first arrival among its causes.

It is not in the value, so that measuring latency at the end needs neither the schema nor the payload.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

ARRIVAL_HEADER = "penstock-arrival-us"
"""When a record's cause entered the pipeline: microseconds since 1970, as decimal digits."""


def arrival_headers() -> Column:
    """Return the column `headers` of Spark's Kafka sink: the column `arrival` as a header, null where that is null."""
    from pyspark.sql import functions as sf

    micros = sf.unix_micros("arrival").cast("string").cast("binary")
    header = sf.array(sf.struct(sf.lit(ARRIVAL_HEADER).alias("key"), micros.alias("value")))
    return sf.when(sf.col("arrival").isNotNull(), header).alias("headers")
