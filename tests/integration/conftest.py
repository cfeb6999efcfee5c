# SPDX-License-Identifier: Apache-2.0
"""The Spark driver of these tests: started when first asked for, gone at the end."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from tests.integration.spark_driver import SparkDriver

from penstock.adaptors.kafka.connector import connector_settings
from penstock.adaptors.kafka.maven import NotFetchedError


@pytest.fixture(scope="session")
def spark_driver(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    """One for all tests; it knows Kafka where tests that need Kafka are among them."""
    jars: tuple[str, ...] = ()
    if any(item.get_closest_marker("kafka") for item in request.session.items):
        with contextlib.suppress(NotFetchedError):  # `kafka_connector` skips the tests that need it
            jars = tuple(connector_settings()["spark.jars"].split(","))
    driver = SparkDriver(tmp_path_factory.mktemp("spark"), jars)
    yield driver
    driver.stop()
