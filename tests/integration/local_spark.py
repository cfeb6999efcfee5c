# SPDX-License-Identifier: Apache-2.0
"""A small Spark session in the test's own process, for tests that need a driver and no cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def local_session(
    folders: pytest.TempPathFactory, name: str, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Two threads on the loopback, without a web page and with little memory, but for what `settings` say."""
    from pyspark.sql import SparkSession

    own = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "600m",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.warehouse.dir": str(folders.mktemp("spark") / "warehouse"),
        "spark.log.level": "OFF",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        builder = SparkSession.builder.master("local[2]").appName(name)
        for key, value in {**own, **(settings or {})}.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
        try:
            yield session
        finally:
            session.stop()
