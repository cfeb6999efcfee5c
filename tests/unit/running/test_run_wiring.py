# SPDX-License-Identifier: Apache-2.0
"""What keeps a run safe is wired: the lock of its folder, the store whose loss lifts caps, the beats of its leases."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.clock import SystemClock, VirtualClock
from penstock.errors import AdaptorError, ConfigurationError
from penstock.knowledge import SqliteStore
from penstock.running import assembly, pipeline_run
from penstock.running.assembly import Assembly
from penstock.running.lease_beats import LeaseBeats
from penstock.running.run_lock import run_lock
from penstock.running.supervision import Supervision
from penstock.settings import RunSettings, parse_settings
from penstock.testing.synthetic_run import synthetic_reports


def a_run() -> RunSettings:
    """One operator on a cluster and a broker of the user's."""
    return parse_settings(
        {
            "name": "p",
            "cluster": {"master": "spark://elsewhere:7077"},
            "broker": {"servers": "elsewhere:9092"},
            "arrivals": {"shape": "constant:rate=5,duration=5s"},
            "operators": [{"name": "a", "app": "a:b"}],
        }
    )


class Listener:
    """Keeps what the user would read."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def phase(self, text: str, fraction: float | None = None) -> None:
        """Not looked at."""

    def report(self, report: Any) -> None:
        """Not looked at."""

    def fault(self, operator: str, text: str) -> None:
        """Remember."""
        self.said.append(f"{operator}: {text}")


@pytest.mark.parametrize("resume", [False, True])
def test_a_second_controller_of_a_folder_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resume: bool
) -> None:
    """Neither a new run nor a resumed one: it is refused before any part is made."""
    made: list[Any] = []
    monkeypatch.setattr(pipeline_run, "check_run", lambda *_, **__: None)
    monkeypatch.setattr(pipeline_run, "Assembly", lambda *given, **_: made.append(given))
    tmp_path.chmod(0o700)
    with run_lock(tmp_path), pytest.raises(ConfigurationError, match="another controller"):
        pipeline_run.run_pipeline(a_run(), tmp_path, listener=Listener(), stop=threading.Event(), resume=resume)
    assert made == []


def test_a_run_whose_store_is_lost_lifts_its_caps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A night's cap must not stay where nothing can be decided any more; the user is told."""

    class FailingStore(SqliteStore):
        """A store on a disk that is full from some moment on."""

        is_full = False

        def add_observation(self, observation: Any) -> None:
            """Keep it, or fail."""
            if self.is_full:
                raise AdaptorError("No space left on device", target="store")
            super().add_observation(observation)

    monkeypatch.setattr(assembly, "SqliteStore", FailingStore)
    listener, done = Listener(), list[str]()
    with Assembly(
        a_run(), tmp_path, listener=listener, clock=VirtualClock(), stop=threading.Event(), resume=False, policy=None
    ) as parts:
        parts.cycles["a"] = cast("Any", SimpleNamespace(let_go=lambda: done.append("let go")))
        parts.actuators["a"] = cast("Any", SimpleNamespace(open_shares=lambda _: done.append("opened")))
        (report,) = synthetic_reports(1)
        parts.store.add_observation(report.observation)
        FailingStore.is_full = True
        for _ in range(assembly._FAILED_PASSES - 1):
            with pytest.raises(AdaptorError, match="No space left"):
                parts.store.add_observation(report.observation)
        assert done == []
        parts.store.add_observation(report.observation)
        assert done == ["let go", "opened"]
        parts.cycles.clear()
    assert any("No space left" in line for line in listener.said)


def test_a_run_beats_for_its_operators_while_passes_succeed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The beats begin with the loop and end with it, and a pass says that the controller decides."""
    beaten, stop, passed = threading.Event(), threading.Event(), list[str]()
    remote = SimpleNamespace(beat=beaten.set)
    operator = SimpleNamespace(remote=remote, starts=1)
    parts = SimpleNamespace(operators={"a": operator}, cycles={})
    supervision = Supervision(
        a_run(), cast("Any", parts), listener=cast("Any", Listener()), clock=SystemClock(), stop=stop
    )
    monkeypatch.setattr(LeaseBeats, "passed", lambda _, name: passed.append(name))
    running = threading.Thread(target=supervision.run)
    running.start()
    try:
        assert beaten.wait(20.0)
    finally:
        stop.set()
        running.join(20.0)
    assert not running.is_alive()
    beaten.clear()
    assert not beaten.wait(1.5)
    (report,) = synthetic_reports(1)
    parts.operators[report.observation.operator] = cast("Any", SimpleNamespace(name="a", take=lambda _: 1 / 0))
    with pytest.raises(ZeroDivisionError):
        supervision.take(report)
    assert passed == ["a"]
