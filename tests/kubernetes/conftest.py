# SPDX-License-Identifier: Apache-2.0
"""One real Kubernetes for all tests of this folder. The tests' own thread is inside its network."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kubernetes.api_of_tests import Api

from penstock.adaptors.kubernetes_server.distribution import why_not_here
from penstock.adaptors.kubernetes_server.local_cluster import LocalCluster

EXAMPLES = Path(__file__).parents[2] / "examples" / "kubernetes"
MANIFEST = EXAMPLES / "rbac.yaml"
NAMESPACE = "streams"


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A ready cluster; it is built where it was never built before."""
    reason = why_not_here()
    if reason is not None:
        pytest.skip(f"no Kubernetes can be started here: {reason}")
    pytest.importorskip("kubernetes", reason="needs the extra [kubernetes]")
    folder = tmp_path_factory.mktemp("kubernetes")
    folder.rmdir()
    with LocalCluster(folder) as made, made.entered():
        yield made


@pytest.fixture(scope="session")
def api(cluster: LocalCluster) -> Api:
    """The administrator, in a namespace with the rights of the manifest."""
    return namespace_with_rights(cluster, NAMESPACE)


@pytest.fixture
def space(cluster: LocalCluster, request: pytest.FixtureRequest) -> Iterator[Api]:
    """A namespace of the test's own."""
    made = namespace_with_rights(cluster, request.node.name.replace("_", "-")[5:40].strip("-"))
    yield made
    made.core.delete_namespace(made.namespace)


def namespace_with_rights(cluster: LocalCluster, name: str) -> Api:
    """Make a namespace, and apply the manifest to it."""
    made = Api(cluster, name)
    made.create_namespace()
    for document in yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8").replace(NAMESPACE, name)):
        made.apply(document)
    return made


@pytest.fixture
def manifest() -> list[dict[str, Any]]:
    """The documents of the manifest."""
    return list(yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8")))


@pytest.fixture(scope="session")
def driver_login(api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Log in with no more rights than the manifest gives. A driver's Java reads this once, when it starts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(api.kubeconfig_of("streaming-driver", tmp_path_factory.mktemp("login"))))
        yield


@pytest.fixture
def server_is_killed() -> Iterator[None]:
    """For a test that kills the API server: Python forgets to close a socket that is reset before its TLS handshake."""
    warnings.filterwarnings("ignore", "unclosed <ssl.SSLSocket", ResourceWarning)  # until the end of this test
    yield
    gc.collect()
