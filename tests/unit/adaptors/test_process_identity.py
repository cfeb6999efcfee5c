# SPDX-License-Identifier: Apache-2.0
"""Processes of other containers and other boots are not taken for dead, nor for one's own."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import MISSING, fields, replace
from pathlib import Path

import psutil
import pytest

from penstock.adaptors.kafka.detached_broker import DetachedBroker
from penstock.adaptors.kafka.known_brokers import KnownBrokers
from penstock.adaptors.process import leftovers
from penstock.adaptors.process.children import Warden
from penstock.adaptors.process.detached import DetachedProcess
from penstock.adaptors.process.identity import ProcessIdentity, pid_namespace
from penstock.errors import ConfigurationError
from penstock.records import Limits, Mode
from penstock.running import operator_launcher
from penstock.running.operator_job import JobInput, OperatorJob
from penstock.running.operator_launcher import OperatorLauncher

THIS = ProcessIdentity.this_process()
GONE = replace(THIS, started=THIS.started + 1)
IN_A_CONTAINER = replace(GONE, namespace=THIS.namespace + 1)
BEFORE_THE_BOOT = replace(GONE, boot="0" * 8)


def test_an_identity_can_be_written_and_read() -> None:
    """Nothing of it is lost, and other texts are none."""
    assert ProcessIdentity.parse(str(THIS)) == THIS
    assert ProcessIdentity.parse("12:34") is None
    assert (THIS.is_running, THIS.is_dead) == (True, False)
    assert (GONE.is_running, GONE.is_dead) == (False, True)


@pytest.mark.parametrize("other", [IN_A_CONTAINER, BEFORE_THE_BOOT])
def test_what_cannot_be_judged_is_neither_alive_nor_dead(other: ProcessIdentity) -> None:
    """Its pid means something else here."""
    assert (other.is_running, other.is_dead) == (False, False)


@pytest.mark.parametrize("other", [IN_A_CONTAINER, BEFORE_THE_BOOT])
def test_a_start_touches_nothing_of_a_run_in_another_container(tmp_path: Path, other: ProcessIdentity) -> None:
    """Its folders stay; those of a run that is certainly dead go."""
    for name, owner in (("penstock-other", other), ("penstock-dead", GONE)):
        (tmp_path / name).mkdir()
        (tmp_path / name / leftovers.OWNER_FILE).write_text(str(owner))
    assert leftovers.find_leftovers(tmp_path).folders == (tmp_path / "penstock-dead",)


def test_marked_processes_of_other_namespaces_are_not_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A container may run another run with the same folder name: its processes are not those of this one."""
    with Warden() as warden:
        child = warden.start("child", ["sleep", "60"], log=tmp_path / "log")
        assert child.pid in leftovers.marked_processes()
        monkeypatch.setattr(leftovers, "pid_namespace", lambda: pid_namespace() + 1)
        assert child.pid not in leftovers.marked_processes()
        assert leftovers.end_marked(warden.mark) == []
        assert child.poll() is None


def test_an_operator_of_another_container_is_not_started_a_second_time(tmp_path: Path) -> None:
    """Two would write to one checkpoint; the error says what to do."""
    (tmp_path / "process.json").write_text(json.dumps({"process": str(IN_A_CONTAINER)}))
    launcher = OperatorLauncher("logs", tmp_path, tmp_path / "logs", {}, None)
    job = OperatorJob("logs", "a:b", "local", Limits(), Mode.ACT, str(tmp_path), "s", JobInput())
    with pytest.raises(ConfigurationError, match="another container"):
        launcher.adopt([job])


def test_a_broker_of_another_container_is_not_forgotten(tmp_path: Path) -> None:
    """It may run there; it is not used from here."""
    known, folder = KnownBrokers(tmp_path / "kafka"), tmp_path / "other"
    folder.mkdir()
    (folder / "broker.json").write_text(json.dumps({"process": str(IN_A_CONTAINER)}))
    known.remember(folder)
    assert known.running() == []
    assert known._read() == [str(folder)]
    assert DetachedBroker(folder).is_elsewhere
    (folder / "broker.json").write_text(json.dumps({"process": str(GONE)}))
    assert known.running() == []
    assert known._read() == []


def test_a_clock_that_is_set_does_not_make_another_process_of_it(tmp_path: Path) -> None:
    """The identity holds kernel ticks, and no time of the wall clock."""
    started = DetachedProcess.start(
        "p", ["sleep", "60"], log=tmp_path / "log", env=os.environ, cwd=tmp_path, identity=tmp_path / "id"
    )
    try:
        known = ProcessIdentity.parse(json.loads((tmp_path / "id").read_text())["process"])
        assert known == ProcessIdentity.of(started.pid)
        adopted = DetachedProcess.adopt("p", log=tmp_path / "log", identity=tmp_path / "id")
        assert adopted is not None
        assert adopted.pid == started.pid
    finally:
        started.stop()


def test_a_clock_that_is_set_does_not_end_what_was_adopted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was taken over runs on, whatever its start would be by a wall clock that was set since."""
    started = DetachedProcess.start(
        "p", ["sleep", "60"], log=tmp_path / "log", env=os.environ, cwd=tmp_path, identity=tmp_path / "id"
    )
    try:
        adopted = DetachedProcess.adopt("p", log=tmp_path / "log", identity=tmp_path / "id")
        assert adopted is not None
        monkeypatch.setattr(psutil.Process, "create_time", lambda self: 0.0)
        monkeypatch.setattr(psutil.Process, "__eq__", lambda self, other: False)  # as another start makes it
        assert adopted.poll() is None
        assert adopted.wait(0.0) is None
    finally:
        started.stop()


@pytest.mark.parametrize("file", ["missing", "broken", "of a dead process", "of an earlier version"])
def test_a_live_driver_is_never_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    """Whatever became of the file that names it, a resume takes the driver over, and a start ends it first."""
    monkeypatch.setattr(operator_launcher, "_PROGRAM", "operator_in_a_test")
    job = OperatorJob("logs", "a:b", "local", Limits(), Mode.ACT, str(tmp_path), "s", JobInput())
    program = [sys.executable, "-c", "import time; time.sleep(600)", "operator_in_a_test"]
    first = OperatorLauncher("logs", tmp_path, tmp_path / "logs", {}, None, command=lambda _: program)
    running = first.start(job)
    identity = tmp_path / "process.json"
    try:
        identity.unlink()
        if file != "missing":
            # The last one as it reads where the wall clock was set since it was written.
            legacy = json.dumps({"pid": running.pid, "created": 1.0})
            texts = {"broken": "{", "of a dead process": json.dumps({"process": str(GONE)})}
            identity.write_text(texts.get(file, legacy))
        second = OperatorLauncher("logs", tmp_path, tmp_path / "logs", {}, None, command=lambda _: program)
        found = second.adopt([replace(job, name="other"), job])
        assert found is not None
        adopted, does = found
        assert does is job
        assert adopted.pid == running.pid
        assert DetachedProcess.adopt("logs", log=adopted.log, identity=identity) is not None
        other = second.start(job)
        try:
            assert running.wait(5.0) is not None, "two drivers on one checkpoint"
        finally:
            second.stop(other)
    finally:
        first.stop(running)


def test_a_driver_that_an_earlier_version_started_is_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its job has not what that version did not know; the rest is the same."""
    monkeypatch.setattr(operator_launcher, "_PROGRAM", "operator_in_a_test")
    job = OperatorJob("logs", "a:b", "local", Limits(), Mode.ACT, str(tmp_path), "s", JobInput())
    program = [sys.executable, "-c", "import time; time.sleep(600)", "operator_in_a_test"]
    launcher = OperatorLauncher("logs", tmp_path, tmp_path / "logs", {}, None, command=lambda _: program)
    running = launcher.start(job)
    try:
        plain = json.loads((tmp_path / "job.json").read_text())
        optional = next(field.name for field in fields(OperatorJob) if field.default is not MISSING)
        del plain[optional]
        (tmp_path / "job.json").write_text(json.dumps(plain))
        found = launcher.adopt([job])
        assert found is not None
        assert found[1] is job
    finally:
        launcher.stop(running)


def test_a_driver_that_does_none_of_the_jobs_is_not_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was started with other settings: a controller that took it over would scale something else."""
    monkeypatch.setattr(operator_launcher, "_PROGRAM", "operator_in_a_test")
    job = OperatorJob("logs", "a:b", "local", Limits(), Mode.ACT, str(tmp_path), "s", JobInput())
    program = [sys.executable, "-c", "import time; time.sleep(600)", "operator_in_a_test"]
    launcher = OperatorLauncher("logs", tmp_path, tmp_path / "logs", {}, None, command=lambda _: program)
    running = launcher.start(job)
    try:
        with pytest.raises(ConfigurationError, match="other settings"):
            launcher.adopt([replace(job, app="c:d")])
        assert running.poll() is None
    finally:
        launcher.stop(running)
