# SPDX-License-Identifier: Apache-2.0
"""What ends a pipeline and what does not: a controller that is told to go leaves what can go on without it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.adaptors.process.detached import DetachedProcess
from penstock.errors import ClusterError
from penstock.knowledge.sqlite import SqliteStore
from penstock.records import Limits, Mode
from penstock.running import pipeline_run
from penstock.running.assembly import Assembly, why_it_ends
from penstock.running.back_off import BackOff
from penstock.running.operator_job import JobInput, OperatorJob
from penstock.running.operator_launcher import OperatorLauncher
from penstock.running.running_operator import RunningOperator, State
from penstock.running.topic_streams import TopicStreams
from penstock.settings import OperatorSettings, RestartSettings, RunSettings, parse_settings


def a_run(**changes: Any) -> RunSettings:
    """One operator behind a topic, on a cluster and a broker of the user's own."""
    settings: dict[str, Any] = {
        "name": "p",
        "cluster": {"master": "spark://elsewhere:7077"},
        "broker": {"servers": "elsewhere:9092"},
        "arrivals": {"shape": "constant:rate=5,duration=5s"},
        "operators": [{"name": "a", "app": "a:b"}],
        "policy": "fixed",
    }
    return parse_settings({**settings, **changes})


# --- whether it goes on -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "goes_on"),
    [
        (a_run(), True),
        (a_run(broker=None), True),
        (a_run(cluster={"master": "embedded"}), False),
        (a_run(broker={"servers": "embedded"}), False),
    ],
)
def test_what_penstock_started_ends_with_it(settings: RunSettings, goes_on: bool) -> None:
    """The embedded cluster and an embedded broker end with their controller, and the pipeline with them."""
    assert (why_it_ends(settings) is None) is goes_on


def parts_of(settings: RunSettings, *, resume: bool, has_begun: bool, is_ended: bool) -> Assembly:
    """A run at some point of its life."""
    parts = Assembly.__new__(Assembly)
    parts._settings, parts._resume = settings, resume
    parts._has_begun, parts._is_ended = has_begun, is_ended
    return parts


@pytest.mark.parametrize(
    ("state", "is_left"),
    [
        ({"resume": False, "has_begun": False, "is_ended": False}, False),  # its start failed: what it began is ended
        ({"resume": True, "has_begun": False, "is_ended": False}, True),  # a failed resume destroys nothing
        ({"resume": False, "has_begun": True, "is_ended": False}, True),  # the controller fails while it runs
        ({"resume": False, "has_begun": True, "is_ended": True}, False),
        ({"resume": True, "has_begun": True, "is_ended": True}, False),
    ],
)
def test_only_what_was_ended_or_never_began_is_cleared_away(state: dict[str, bool], is_left: bool) -> None:
    """A controller that goes in any other way leaves the pipeline as it is."""
    assert parts_of(a_run(), **state).is_left is is_left
    assert parts_of(a_run(cluster={"master": "embedded"}), **state).is_left is False


def test_one_part_that_cannot_be_closed_keeps_none_of_the_others() -> None:
    """Whatever the operators raise, the streams, the warden and the store are closed."""
    parts, closed = parts_of(a_run(), resume=True, has_begun=True, is_ended=False), []

    def refuse(*, is_left: bool) -> None:
        closed.append(f"operator {is_left}")
        raise OSError("no space")

    def note(name: str) -> Any:
        return lambda *_, **given: closed.append(f"{name} {given}" if given else name)

    parts.operators = {name: cast("Any", SimpleNamespace(close=refuse)) for name in ("a", "b")}
    parts.streams = cast("Any", SimpleNamespace(close=note("streams")))
    parts._warden = cast("Any", SimpleNamespace(close=note("warden")))
    parts.nodes = cast("Any", SimpleNamespace(stop=note("nodes")))
    parts.store, parts.cluster = cast("Any", SimpleNamespace(close=note("store"))), None
    with pytest.raises(OSError, match="no space"):
        parts.__exit__(None, None, None)
    assert closed == ["nodes", "operator True", "operator True", "streams {'is_left': True}", "warden", "store"]


# --- a run that is told to go ------------------------------------------------------------------------------------


class ToyParts:
    """A run on a cluster of the user's own, of which it is noted what becomes of it."""

    made: ToyParts

    def __init__(self, settings: RunSettings, folder: Path, **_: Any) -> None:
        self.store, self.streams, self.listener = SqliteStore(folder / "knowledge.sqlite"), SimpleNamespace(), None
        self.operators: dict[str, Any] = {}
        self.cycles: dict[str, Any] = {}
        self.orders = self.build_policy = None
        self.streams.load = None
        self.did: list[str] = []
        self._settings = settings
        ToyParts.made = self

    def __enter__(self) -> ToyParts:
        return self

    def __exit__(self, *_: object) -> None:
        self.kept = self.store.fact("summary")
        self.store.close()

    def start(self) -> None:
        """Nothing to start."""

    @property
    def is_left(self) -> bool:
        """Until it is ended."""
        return why_it_ends(self._settings) is None and "ended" not in self.did

    def leave(self) -> None:
        """Note it."""
        self.did.append("left")

    def end_operators(self) -> None:
        """Note it."""
        self.did.append("ended")


class ToySupervision:
    """Sees at once that it was told to stop."""

    failure: ClusterError | None = None

    def __init__(self, *_: Any, leave: threading.Event | None, **__: Any) -> None:
        self.runner, self.faults, self.missed_turns = None, 0, 0

    def run(self) -> None:
        """Nothing to run."""


def stopped_run(
    monkeypatch: pytest.MonkeyPatch, folder: Path, *, leaves: bool, failure: ClusterError | None = None, **changes: Any
) -> tuple[list[str], str | None]:
    """What becomes of a run that is stopped, and the summary that is kept of it."""
    monkeypatch.setattr(pipeline_run, "Assembly", ToyParts)
    monkeypatch.setattr(ToySupervision, "failure", failure)
    monkeypatch.setattr(pipeline_run, "Supervision", ToySupervision)
    monkeypatch.setattr(pipeline_run, "Helm", lambda *_, **__: SimpleNamespace(end_sizes=None))
    monkeypatch.setattr(pipeline_run, "check_run", lambda *_, **__: None)
    monkeypatch.setattr(
        pipeline_run, "summarise", lambda *_, is_left, **__: SimpleNamespace(is_left=is_left, to_json=lambda: {})
    )
    stop, leave = threading.Event(), threading.Event()
    stop.set()
    if leaves:
        leave.set()
    listener = cast("Any", SimpleNamespace(phase=lambda *_: None, fault=lambda *_: None, report=None))
    try:
        summary = pipeline_run.run_pipeline(a_run(**changes), folder, listener=listener, stop=stop, leave=leave)
        assert summary.is_left is ("left" in ToyParts.made.did)
    except ClusterError:
        assert failure is not None
    return ToyParts.made.did, ToyParts.made.kept


def test_a_pipeline_that_can_go_on_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It has no summary, for it has not come to its end and can be resumed."""
    assert stopped_run(monkeypatch, tmp_path, leaves=True) == (["left"], None)


def test_a_person_who_stops_a_pipeline_ends_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Ctrl-C, or `stop` from Python, ends the operators wherever they run."""
    assert stopped_run(monkeypatch, tmp_path, leaves=False) == (["ended"], "{}")


def test_what_cannot_go_on_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On the embedded cluster every stop is an end."""
    assert stopped_run(monkeypatch, tmp_path, leaves=True, cluster={"master": "embedded"}) == (["ended"], "{}")


def test_a_pipeline_that_failed_is_not_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An operator that cannot run ends the run, also where a signal comes meanwhile."""
    failure = ClusterError("it died too often", target="a")
    assert stopped_run(monkeypatch, tmp_path, leaves=True, failure=failure)[0] == ["ended"]


# --- operators and topics ------------------------------------------------------------------------------------------


class SleepingLauncher(OperatorLauncher):
    """Starts processes that sleep and outlive their controller."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._name, self._own, self._warden = folder, "sleeper", folder / "own", None
        self.started: list[tuple[OperatorJob, DetachedProcess]] = []

    def start(self, job: OperatorJob) -> Any:
        """One that does nothing for a minute."""
        code = "import time; time.sleep(60)"
        log, identity = self._folder / "sleeper.log", self._folder / "process.json"
        child = DetachedProcess.start(
            "sleeper", [sys.executable, "-c", code], log=log, env={}, cwd=self._folder, identity=identity
        )
        self.started.append((job, child))
        return child


@pytest.fixture
def launcher(tmp_path: Path) -> Any:
    """Nothing of it outlives the test."""
    made = SleepingLauncher(tmp_path)
    yield made
    for _, child in made.started:
        child.stop(grace_seconds=0.1)


def an_operator(launcher: OperatorLauncher, folder: Path) -> RunningOperator:
    """An operator whose process was just started."""
    job = OperatorJob("sleeper", "a:b", "local", Limits(1, 1), Mode.ACT, str(folder), "s", JobInput(replay={}))
    operator = RunningOperator(
        OperatorSettings(name="sleeper", app="a:b"),
        {None: job},
        launcher=launcher,
        remote=cast("Any", SimpleNamespace(beat=lambda: None, close=lambda: None, stop_at_border=lambda _: None)),
        back_off=BackOff(RestartSettings(first_wait=20.0)),
    )
    operator.start(0.0)
    assert operator.is_ready(0.0)
    return operator


def test_an_operator_that_is_left_goes_on(launcher: SleepingLauncher, tmp_path: Path) -> None:
    """Otherwise letting go of it ends its process."""
    operator = an_operator(launcher, tmp_path)
    operator.close(is_left=True)
    ((_, child),) = launcher.started
    assert child.poll() is None
    operator.close()
    assert child.poll() is not None


@pytest.mark.parametrize("state", [State.DOWN, State.STOPPING])
def test_an_operator_is_not_left_without_a_process(launcher: SleepingLauncher, tmp_path: Path, state: State) -> None:
    """One that waits for its next start, or is on its way to another size, is started before its controller goes."""
    operator = an_operator(launcher, tmp_path)
    if state is State.STOPPING:
        operator.restart_with(None, 1.0, 60.0)
    else:
        os.kill(launcher.started[0][1].pid, signal.SIGKILL)
        launcher.started[0][1].wait(10.0)
        operator.watch(1.0, lambda _: None)
    assert operator.state is state
    operator.leave(2.0, lambda _: None)
    operator.close(is_left=True)
    assert [child.poll() is None for _, child in launcher.started] == [False, True]


@pytest.mark.parametrize("is_left", [True, False])
def test_topics_of_a_pipeline_that_is_left_stay(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_left: bool) -> None:
    """Its operators read and write them."""
    pytest.importorskip("confluent_kafka", reason="needs the extra [kafka]")
    from penstock.adaptors.kafka import operator_topics

    deleted: list[str] = []
    monkeypatch.setattr(operator_topics, "delete_topics", lambda _, names: deleted.extend(names))
    streams = TopicStreams(a_run(), tmp_path, {}, cast("Any", None), say=print, clock=lambda: 0.0)
    streams._connection, streams._made = cast("Any", object()), ("p.arrivals", "p.a")
    streams.close(is_left=is_left)
    assert deleted == ([] if is_left else ["p.arrivals", "p.a"])


def test_a_left_process_is_in_a_session_of_its_own(launcher: SleepingLauncher, tmp_path: Path) -> None:
    """So a closed terminal, whose signal goes to a whole session, does not reach it."""
    an_operator(launcher, tmp_path)
    ((_, child),) = launcher.started
    found = subprocess.run(["ps", "-o", "sid=", "-p", str(child.pid)], capture_output=True, text=True, check=True)
    assert int(found.stdout) == child.pid != os.getsid(0)
