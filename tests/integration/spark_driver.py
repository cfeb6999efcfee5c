# SPDX-License-Identifier: Apache-2.0
"""The Spark driver in the tests' own process: one local driver for all tests, or one on a cluster in its place."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.adaptors.spark.cluster import EmbeddedCluster


class SparkDriver:
    """Starts the one driver that a process can have; the local one is kept until a driver on a cluster is needed.

    Parameters
    ----------
    folder
        Where its tables would be.
    jars
        What the driver's Java finds besides Spark. It is started once and cannot be given more later.
    """

    def __init__(self, folder: Path, jars: tuple[str, ...] = ()) -> None:
        self._common = {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "700m",
            "spark.driver.extraClassPath": ":".join(jars),
            "spark.log.level": "OFF",
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.ui.port": "0",
            "spark.ui.showConsoleProgress": "false",
        }
        self._local: SparkSession | None = None

    @contextmanager
    def local(self, settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
        """A session on two threads; settings, sources and queries are its own, and its queries end with it."""
        if self._local is None:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
                self._local = self._start("local[2]", {})
        session = self._local.newSession()
        for key, value in (settings or {}).items():
            session.conf.set(key, value)
        try:
            yield session
        finally:
            for query in session.streams.active:
                query.stop()

    @contextmanager
    def on_cluster(self, cluster: EmbeddedCluster, settings: Mapping[str, str]) -> Iterator[SparkSession]:
        """A session on a cluster, with a driver of its own; the local driver is stopped before."""
        self.stop()
        with pytest.MonkeyPatch.context() as patch:
            for name, value in cluster.spark_environment().items():
                patch.setenv(name, value)
            # A Java that runs already does not read the cluster's files again, so the secret is given here.
            session = self._start(cluster.master_url, {**cluster.authentication, **settings})
            try:
                yield session
            finally:
                session.stop()

    def stop(self) -> None:
        """Stop the local driver; the next test that asks for it gets another."""
        if self._local is not None:
            self._local.stop()
            self._local = None

    def _start(self, master: str, settings: Mapping[str, str]) -> SparkSession:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master(master).appName("tests")
        for key, value in {**self._common, **settings}.items():
            builder = builder.config(key, value)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYSPARK_PYTHON", sys.executable)
            return builder.getOrCreate()
