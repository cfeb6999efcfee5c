# SPDX-License-Identifier: Apache-2.0
"""For all tests: no example is timed, where tests with a real Spark, broker or kernel belong, cluster and browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from penstock.adaptors.spark.cluster import EmbeddedCluster

# No deadline for an example: a busy machine is no fault of the code.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

# Where scripts/run_tests.py looks for tests with these markers.
REAL = {"spark", "cgroups", "namespaces", "e2e", "kafka", "rabbitmq", "postgresql", "prometheus", "browser", "install"}
REAL_FOLDERS = ("tests/integration/", "tests/e2e/")
CLUSTER_FOLDERS = {"kubernetes": "tests/kubernetes/", "yarn": "tests/yarn/"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a test where it would not be run: in another folder."""
    for item in items:
        names = {mark.name for mark in item.iter_markers()}
        if names & REAL and not item.nodeid.startswith(REAL_FOLDERS):
            raise pytest.UsageError(f"{item.nodeid}: tests with {names} belong in one of {REAL_FOLDERS}")
        for mark, folder in CLUSTER_FOLDERS.items():
            if (mark in names) is not item.nodeid.startswith(folder):
                raise pytest.UsageError(f"{item.nodeid}: tests with `{mark}` alone belong in {folder}")
        if names & {"core", "long"} and not names & REAL:
            raise pytest.UsageError(f"{item.nodeid}: what is only computed is neither `core` nor `long`")
        if names >= {"core", "long"}:
            raise pytest.UsageError(f"{item.nodeid}: a test is in one part, `core` or `long`")


@pytest.fixture(scope="session")
def standalone_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """One worker with four cores' worth of slots, for all tests that do it no harm."""
    from penstock.adaptors.process.children import Warden
    from penstock.adaptors.spark.cluster import EmbeddedCluster

    with (
        Warden() as warden,
        EmbeddedCluster(
            warden,
            tmp_path_factory.mktemp("cluster"),
            cores_per_worker=4,
            memory_per_worker="3g",
            timeout_seconds=400.0,  # a busy machine is no fault of the code
        ) as cluster,
    ):
        yield cluster


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium without a window, with a fresh profile for each test; skips where there is none."""
    from tests.integration.page.watched_page import PATIENCE_MS

    program = shutil.which("chromium")
    if program is None:
        pytest.skip("no Chromium found; mend it: sudo apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the extra [dev]")
    with playwright.sync_playwright() as driver:
        # Chromium's own sandbox does not start for root; the page is ours and loads nothing else.
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"], timeout=PATIENCE_MS)
        yield browser
        browser.close()
