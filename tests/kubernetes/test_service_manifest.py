# SPDX-License-Identifier: Apache-2.0
"""The manifest of the service: a master in a pod, with its certificate and its agents' token from secrets."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kubernetes.api_of_tests import Api
from tests.kubernetes.local_service import AGENTS, start_service

pytestmark = pytest.mark.kubernetes


def test_the_service_runs_by_its_manifest(space: Api, tmp_path: Path) -> None:
    """Its pod gets ready, and answers under its name with its certificate, on the page's port and the agents'."""
    service = start_service(space, tmp_path)
    status, _ = service.ask("/")
    assert status == 200
    with service.connect(AGENTS) as agents:
        assert agents.version() is not None
