# SPDX-License-Identifier: Apache-2.0
"""The header in which a record carries the first arrival of what it came from.

Not in its value: whoever measures latency at the end needs neither the schema nor the payload.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

ARRIVAL_HEADER = "penstock-arrival-us"
"""Microseconds since 1970 at which a record's cause came to the pipeline, as decimal digits."""


def arrival_headers() -> Column:
    """The column `headers` of Spark's Kafka sink: the arrival, out of the column `arrival`; null where that is null."""
    from pyspark.sql import functions as sf

    micros = sf.unix_micros("arrival").cast("string").cast("binary")
    header = sf.array(sf.struct(sf.lit(ARRIVAL_HEADER).alias("key"), micros.alias("value")))
    return sf.when(sf.col("arrival").isNotNull(), header).alias("headers")
