# SPDX-License-Identifier: Apache-2.0
"""Runs on disk and a run that needs no cluster, for the tests of the commands."""

from __future__ import annotations

import json
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.account import PathOutcome, RunSummary
from penstock.knowledge import SqliteStore
from penstock.records import LatencySummary, Objective
from penstock.settings import RunSettings
from penstock.testing.synthetic_run import START, fill_store, synthetic_reports


def a_summary(settings_name: str = "synthetic", folder: str = "") -> RunSummary:
    """How a run of four minutes might have gone."""
    decisions = [r.decision for r in synthetic_reports() if r.decision is not None and r.decision.is_change]
    return RunSummary(
        name=settings_name, folder=folder, mode="act", started_at=START, ended_at=START + 240,
        paths=(PathOutcome(("log-analysis",), Objective("p95", 3.0), LatencySummary(1000, 1.0, 0.9, 2.5, 4.0, 5.0)),),
        records_due=1000, records_read=1000, records_done=1000,
        executor_seconds=380.0,
        capacity_seconds=266.0, static_capacity_seconds=480.0, decisions=tuple(decisions),
    )  # fmt: skip


@pytest.fixture(autouse=True)
def heard_signals() -> Iterator[None]:
    """A terminal's signals, also where the tests run behind `nohup` or `&`, which ignore them for all they start."""
    usual: dict[signal.Signals, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    ignored = [number for number in usual if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, usual[number])
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture
def invoke() -> Callable[..., Any]:
    """Call a command in this process."""
    from penstock.cli import main

    def call(*arguments: str) -> Any:
        return CliRunner().invoke(main, list(arguments))

    return call


@pytest.fixture(scope="session")
def filled_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an ended run in it; not to be changed."""
    folder = tmp_path_factory.mktemp("filled") / "synthetic-20260102-030405"
    folder.mkdir()
    store = SqliteStore(folder / "knowledge.sqlite")
    fill_store(store, "log-analysis")
    store.set_fact("summary", json.dumps(a_summary().to_json()))
    store.close()
    return folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run_here(here: Path, filled_run: Path) -> Path:
    """The filled run as the only one under runs/ of the working folder."""
    return Path(shutil.copytree(filled_run, here / "runs" / filled_run.name))


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without the packages for reports; also spares the time of drawing."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)


class FakePipeline:
    """Stands for `penstock.running.pipeline_run`: plays synthetic reports to the listener, or raises an error."""

    def __init__(self) -> None:
        self.settings: RunSettings | None = None
        self.fault: Exception | None = None
        self.before_end: Callable[[], None] = lambda: None
        self.on_started: Callable[[Any], None] | None = None
        self.policy: Any = None
        self.has_own_policy = False

    def check_run(self, settings: RunSettings, *, has_own_policy: bool = False) -> None:
        """Accept all settings."""
        self.settings, self.has_own_policy = settings, has_own_policy

    def run_pipeline(
        self,
        settings: RunSettings,
        folder: Path,
        *,
        listener: Any,
        stop: Any,
        resume: bool = False,
        leave: Any = None,
        policy: Any = None,
        on_started: Callable[[Any], None] | None = None,
    ) -> RunSummary:
        """Play a run."""
        self.on_started, self.policy = on_started, policy
        store = SqliteStore(folder / "knowledge.sqlite")
        fill_store(store, "log-analysis", seconds=60)
        store.close()
        listener.phase("starting the Spark cluster", 0.5)
        for report in synthetic_reports(60):
            listener.report(report)
        listener.fault("log-analysis", "the operator did not answer")
        self.before_end()
        if self.fault is not None:
            raise self.fault
        is_left = leave is not None and leave.is_set() and settings.cluster.master != "embedded"
        return replace(a_summary(settings.name, str(folder)), is_left=is_left)


@pytest.fixture
def pipeline(monkeypatch: pytest.MonkeyPatch) -> FakePipeline:
    """No cluster: runs are played."""
    import penstock.running.checks
    import penstock.running.pipeline_run

    fake = FakePipeline()
    monkeypatch.setattr(penstock.running.checks, "check_run", fake.check_run)
    monkeypatch.setattr(penstock.running.pipeline_run, "run_pipeline", fake.run_pipeline)
    return fake
