# SPDX-License-Identifier: Apache-2.0
"""The process that keeps YARN, around a cluster that is made up."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

from penstock.adaptors.process.log_rotation import MOST_BYTES
from penstock.adaptors.yarn_server import keeper
from penstock.adaptors.yarn_server.keeper import CLUSTER_FOLDER, write_plan
from penstock.adaptors.yarn_server.site_files import YarnPlan
from penstock.adaptors.yarn_server.yarn_cluster import LOGS_FOLDER


class FakeWarden:
    """Keeps nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def remove_on_exit(self, folder: Path) -> None:
        """The folder stays: the test looks at it."""


class FakeYarn(FakeWarden):
    """A cluster that runs for two looks."""

    network_pid, version = 1, "3.5"

    def __init__(self, _warden: FakeWarden, folder: Path, *_: object, **__: object) -> None:
        self.folder, self.looks = folder, 0

    def check_manager(self) -> None:
        """The ResourceManager ends before the second look."""
        self.looks += 1
        if self.looks > 1:
            raise EOFError


@pytest.fixture(autouse=True)
def handlers_as_before() -> Iterator[None]:
    """The keeper sets handlers of signals for its own process."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


def test_logs_of_servers_have_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster may be kept for weeks: logs that are full are kept aside, its own and those of its servers."""
    monkeypatch.setattr(keeper, "Warden", FakeWarden)
    monkeypatch.setattr(keeper, "YarnCluster", FakeYarn)
    monkeypatch.setattr(keeper, "_LOOK_SECONDS", 0.0)
    write_plan(tmp_path, YarnPlan())
    logs = [tmp_path / "keeper.log", tmp_path / CLUSTER_FOLDER / LOGS_FOLDER / "resourcemanager.log"]
    logs[1].parent.mkdir(parents=True)
    for log in logs:
        with log.open("wb") as file:
            file.truncate(MOST_BYTES + 1)
    with pytest.raises(EOFError):
        keeper.main(tmp_path)
    assert [log.stat().st_size for log in logs] == [0, 0]
    assert all(log.with_name(f"{log.name}.1").stat().st_size == MOST_BYTES + 1 for log in logs)
