# SPDX-License-Identifier: Apache-2.0
"""A real standalone cluster for the tests that need one: started when first asked for, gone at the end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.adaptors.process.children import Warden
from penstock.adaptors.spark.cluster import EmbeddedCluster


@pytest.fixture(scope="session")
def standalone_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """One worker with four cores' worth of slots; applications connect to its `master_url`."""
    with (
        Warden() as warden,
        EmbeddedCluster(
            warden, tmp_path_factory.mktemp("cluster"), cores_per_worker=4, memory_per_worker="3g"
        ) as cluster,
    ):
        yield cluster
