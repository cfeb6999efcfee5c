# SPDX-License-Identifier: Apache-2.0
"""The Spark driver and the browser of these tests: started when first asked for, gone at the end."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.integration.page.watched_page import PATIENCE_MS
from tests.integration.spark_driver import SparkDriver

from penstock.adaptors.kafka.connector import connector_settings
from penstock.adaptors.kafka.maven import NotFetchedError

if TYPE_CHECKING:
    from playwright.sync_api import Browser


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


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium without a window, with a fresh profile for each test; skips where there is none."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("no Chromium found; mend it: sudo apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the extra [dev]")
    with playwright.sync_playwright() as driver:
        # Chromium's own sandbox does not start for root; the page is ours and loads nothing else.
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"], timeout=PATIENCE_MS)
        yield browser
        browser.close()
