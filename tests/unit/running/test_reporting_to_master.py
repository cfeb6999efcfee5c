# SPDX-License-Identifier: Apache-2.0
"""An operator of a run that reports to a master besides its own controller."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.adaptors.agent.master_address import CA_VARIABLE, TOKEN_FILE_VARIABLE, TOKEN_VARIABLE
from penstock.adaptors.agent.meters import Meters
from penstock.running.operator_job import OperatorJob
from penstock.running.operator_process import MASTER_VARIABLE, _reporting
from penstock.service.access import Access
from penstock.service.asking import Service
from penstock.service.events import EventFeed
from penstock.service.master import Master
from penstock.service.master_stores import TOKEN_FILE, StoreFolder
from penstock.service.server import Site

JOB = cast("OperatorJob", SimpleNamespace(name="parse", folder="/runs/logs/operators/parse"))


def until(is_so: Callable[[], bool]) -> None:
    """Wait for threads, and fail if they never get there."""
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_an_operator_reports_to_the_master_that_its_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It only measures there: nothing is scaled through it, and with its end it takes leave."""
    stores = StoreFolder(tmp_path / "masters")
    master = Master(Site(port=0), stores, Service((), Access(), EventFeed()), watch=["own_depth"], every_seconds=0.5)
    monkeypatch.setenv(TOKEN_FILE_VARIABLE, str(stores.folder / TOKEN_FILE))
    meters = Meters()
    meters.add_own("depth", "records", lambda: 3)

    def agents() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = master.view()["agents"]
        return found

    with master:
        monkeypatch.setenv(MASTER_VARIABLE, master.address)
        with _reporting(JOB, meters):
            until(lambda: bool(agents()) and "own_depth" in agents()[0]["metrics"])
            (agent,) = agents()
            assert (agent["name"], agent["scales"]) == ("parse in /runs/logs/operators/parse", False)
            assert agent["metrics"]["own_depth"]["value"] == 3.0
        until(lambda: not agents())
    stores.close()


def test_without_a_master_or_with_a_wrong_one_the_operator_runs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A mistake is logged with its fix, and ends nothing."""
    monkeypatch.delenv(MASTER_VARIABLE, raising=False)
    with _reporting(JOB, Meters()):
        assert not caplog.records
    monkeypatch.setenv(MASTER_VARIABLE, "nowhere")
    with _reporting(JOB, Meters()):
        assert "host:port" in caplog.text


def test_certificates_that_are_none_end_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The link only reports: the query goes on without it."""
    monkeypatch.setenv(TOKEN_VARIABLE, "a" * 64)
    monkeypatch.setenv(MASTER_VARIABLE, "127.0.0.1:7071")
    ca = tmp_path / "ca.pem"
    for content in (b"no certificate", b"\xff\xfe", b""):
        ca.write_bytes(content)
        monkeypatch.setenv(CA_VARIABLE, str(ca))
        caplog.clear()
        with _reporting(JOB, Meters()):
            assert "PEM" in caplog.text
            assert str(ca) in caplog.text
