# SPDX-License-Identifier: Apache-2.0
"""What Penstock's own streaming sources need of PySpark: sources in Python whose batches have a bound (Spark 4.2)."""

from __future__ import annotations

import importlib.metadata

from penstock.errors import ConfigurationError

try:
    from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
except ModuleNotFoundError as fault:
    if (fault.name or "").startswith("pyspark.sql."):
        raise ConfigurationError(
            "pyspark: the sources penstock_replay and penstock_rabbitmq need Spark 4.2 or newer, and "
            f"{importlib.metadata.version('pyspark')} is installed; run: pip install 'pyspark>=4.2,<4.4', or read from "
            "Kafka, files or another source of your own",
            field="pyspark",
        ) from fault
    raise

__all__ = [
    "DataSource",
    "DataSourceStreamReader",
    "InputPartition",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
]
