# SPDX-License-Identifier: Apache-2.0
"""A pipeline for the tests of the page, served as a run serves it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.integration.page.toy_pipeline import ToyPipeline


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> ToyPipeline:
    """Two operators, one after the other, with two hours of past."""
    return ToyPipeline(tmp_path_factory.mktemp("run"), {"parse": "arrivals", "sessions": "parse"})


@pytest.fixture(scope="module")
def address(pipeline: ToyPipeline) -> Iterator[str]:
    """Where its page is."""
    with pipeline.served() as server:
        yield server.address
