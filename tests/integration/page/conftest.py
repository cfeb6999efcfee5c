# SPDX-License-Identifier: Apache-2.0
"""Chromium for the tests of the page: Debian's, started once, with a fresh profile for each test."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.integration.page.toy_pipeline import ToyPipeline

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# A busy machine is no fault of the page; nothing waits that long where it works.
PATIENCE_MS = 120_000


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """A browser without a window; skips where there is none."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("no Chromium found; mend it: sudo apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the extra [dev]")
    with playwright.sync_playwright() as driver:
        # Chromium's own sandbox does not start for root; the page is ours and loads nothing else.
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"], timeout=PATIENCE_MS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> ToyPipeline:
    """Two operators, one after the other, with two hours of past."""
    return ToyPipeline(tmp_path_factory.mktemp("run"), {"parse": "arrivals", "sessions": "parse"})


@pytest.fixture(scope="module")
def address(pipeline: ToyPipeline) -> Iterator[str]:
    """Where its page is."""
    with pipeline.served() as server:
        yield server.address
