# SPDX-License-Identifier: Apache-2.0
"""Thinking beside the loop: never waited for, never queued."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import psutil
import pytest

from penstock.errors import ConfigurationError, ModelError, NotReadyError
from penstock.policies.background import AnalysisEnd, BackgroundAnalysis
from penstock.ports import AnalysisPlace

PATIENCE = 60.0


class FakeAnalysis:
    """An analysis that ends when it is allowed to, and remembers what it was asked."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.asked: list[int] = []
        self.fault: Exception | None = None

    def __call__(self, question: int) -> int:
        """The question, once allowed."""
        self.asked.append(question)
        assert self.may_end.wait(PATIENCE)
        if self.fault is not None:
            raise self.fault
        return question


def thinking(analyse: FakeAnalysis, period_seconds: float) -> BackgroundAnalysis[int, int]:
    """BackgroundAnalysis this thread, in another."""
    return BackgroundAnalysis(analyse, period_seconds=period_seconds, place=AnalysisPlace("thread"))


def one() -> int:
    """A question."""
    return 1


def not_ready() -> int:
    """No question yet."""
    raise NotReadyError("7 of 12 batches", needed=12, available=7)


def test_an_analysis_that_outlasts_its_period_makes_the_next_skipped_not_queued() -> None:
    """While one runs, those that fall due are skipped with a reason; after it exactly one more starts."""
    slow = FakeAnalysis()
    with thinking(slow, 60.0) as background:
        assert background.tick(0.0, one) == ()
        assert background.tick(59.0, one) == ()
        for due in (60.0, 120.0):
            (report,) = background.tick(due, one)
            assert (report.end, report.at, report.seconds) == (AnalysisEnd.SKIPPED, due, due)
            assert "longer than its period of 60 s" in report.detail
        slow.may_end.set()
        assert background.wait(PATIENCE)
        (report,) = background.tick(130.0, one)
        assert (report.end, report.at) == (AnalysisEnd.DONE, 0.0)
        assert background.latest is not None
        assert background.latest.age_seconds(130.0) == 130.0
        assert len(slow.asked) == 1
        background.tick(180.0, lambda: background.latest.answer + 1 if background.latest else 0)
        assert background.wait(PATIENCE)
        assert slow.asked == [1, 2]
        assert background.count(AnalysisEnd.SKIPPED) == 2


def test_due_times_stay_on_their_grid() -> None:
    """A late call starts one analysis and leaves the later ones where they were."""
    quick = FakeAnalysis()
    quick.may_end.set()
    with thinking(quick, 10.0) as background:
        for now, started in ((0.0, 1), (9.0, 1), (35.0, 2), (39.0, 2), (40.0, 3)):
            background.tick(now, one)
            assert background.wait(PATIENCE)
            assert len(quick.asked) == started


def test_too_little_data_is_reported_and_asked_again_and_the_last_answer_stays() -> None:
    """Without a question nothing starts until there is one; an analysis that fails leaves the answer before it."""
    fake = FakeAnalysis()
    fake.may_end.set()
    with thinking(fake, 10.0) as background:
        (report,) = background.tick(0.0, not_ready)
        assert (report.end, report.detail) == (AnalysisEnd.NOT_READY, "7 of 12 batches")
        assert background.tick(1.0, one) == ()
        assert background.wait(PATIENCE)
        fake.fault = ModelError("no process fits")
        background.tick(11.0, one)
        background.wait(PATIENCE)
        (report,) = background.tick(12.0, one)
        assert (report.end, report.detail) == (AnalysisEnd.FAILED, "no process fits")
        assert background.latest is not None
        assert background.latest.at == 1.0


def test_a_fault_of_the_program_is_not_hidden() -> None:
    """An error that is none of Penstock's own reaches the caller."""
    fake = FakeAnalysis()
    fake.may_end.set()
    fake.fault = ZeroDivisionError("a mistake")
    with thinking(fake, 1.0) as background:
        background.tick(0.0, one)
        background.wait(PATIENCE)
        with pytest.raises(ZeroDivisionError):
            background.tick(0.5, one)


def _double_or_die(question: int) -> int:
    if question < 0:
        os._exit(1)
    if question == 0:
        raise NotReadyError("nothing to double", needed=1, available=0)
    return 2 * question


def test_a_process_answers_and_reports_its_faults() -> None:
    """Answers and errors of Penstock's own come back from the worker process as they are."""
    with BackgroundAnalysis(_double_or_die, period_seconds=1.0) as background:
        for now, question in ((0.0, 21), (1.0, 0)):
            background.tick(now, partial(int, question))
            assert background.wait(PATIENCE)
        (report,) = background.tick(1.5, one)
        assert (report.end, report.detail) == (AnalysisEnd.NOT_READY, "nothing to double")
        assert background.latest is not None
        assert background.latest.answer == 42


def test_a_killed_worker_is_reported_and_replaced() -> None:
    """A worker process that dies is a failed analysis; the next one has a new worker."""
    with BackgroundAnalysis(_double_or_die, period_seconds=1.0) as background:
        background.tick(0.0, lambda: -1)
        assert background.wait(PATIENCE)
        (report,) = background.tick(0.5, one)
        assert report.end is AnalysisEnd.FAILED
        assert "worker process" in report.detail
        assert background.tick(1.0, one) == ()
        assert background.wait(PATIENCE)
        background.tick(1.5, one)
        assert background.latest is not None
        assert background.latest.answer == 2


def test_a_closed_worker_is_gone_though_it_was_thinking() -> None:
    """Closing does not wait for the analysis under way."""
    before = {child.pid for child in psutil.Process().children()}
    background = BackgroundAnalysis(time.sleep, period_seconds=1.0)
    background.tick(0.0, lambda: 600.0)
    background.close()
    assert {
        child.pid for child in psutil.Process().children() if "analysis_process" in " ".join(child.cmdline())
    } <= before
    assert not background.is_running


_PARENT = """
import math, sys, time
from penstock.policies.background import BackgroundAnalysis
print("started", flush=True)
background = BackgroundAnalysis(math.sqrt, period_seconds=1.0)
background.tick(0.0, lambda: 4.0)
background.wait(60.0)
print(background._worker.process.pid, flush=True)
background.tick(0.5, lambda: 4.0)
print(background.latest.answer, flush=True)
time.sleep(float(sys.argv[1]))
background.close()
"""


def test_the_worker_does_not_run_the_users_script_again(tmp_path: Path) -> None:
    """A script without a guard, as in a notebook or the README, starts what it starts once."""
    script = tmp_path / "parent.py"
    script.write_text(_PARENT, encoding="utf-8")
    ended = subprocess.run([sys.executable, script, "0"], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert ended.stdout.count("started") == 1
    assert ended.stdout.splitlines()[-1] == "2.0"


def test_the_worker_ends_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    """Nothing is left behind when the controller is killed with -9."""
    script = tmp_path / "parent.py"
    script.write_text(_PARENT, encoding="utf-8")
    with subprocess.Popen([sys.executable, script, "600"], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "started\n"
        worker = psutil.Process(int(parent.stdout.readline()))
        parent.send_signal(signal.SIGKILL)
    worker.wait(PATIENCE)


def test_here_the_answer_is_there_at_once() -> None:
    """Under a clock of its own nothing is done beside it: the tick that starts an analysis also ends it."""
    with BackgroundAnalysis(_double_or_die, period_seconds=1.0, place=AnalysisPlace("here")) as background:
        (report,) = background.tick(0.0, one)
        assert report.end is AnalysisEnd.DONE
        assert background.latest is not None
        assert background.latest.answer == 2


def test_wrong_settings_are_refused() -> None:
    """A period of zero and an unknown worker are errors that name the field."""
    with pytest.raises(ConfigurationError, match="period_seconds"):
        BackgroundAnalysis(_double_or_die, period_seconds=0.0)
    with pytest.raises(ConfigurationError, match="worker"):
        BackgroundAnalysis(_double_or_die, place=AnalysisPlace("fibre"))  # type: ignore[arg-type]


def test_here_an_answer_is_in_force_after_the_delay() -> None:
    """With a delay the answer of an analysis that is done at once is held back for as long as it would have taken."""
    asked: list[int] = []

    def analyse(question: int) -> int:
        asked.append(question)
        return 2 * question

    with BackgroundAnalysis(analyse, period_seconds=10.0, place=AnalysisPlace("here", delay_seconds=5.0)) as background:
        assert background.tick(0.0, lambda: 1) == ()
        assert asked == [1]  # what is known now, not what will be known then
        assert background.is_running
        for now in (1.0, 4.0):
            assert background.tick(now, lambda: 7) == ()
            assert background.latest is None
        (report,) = background.tick(5.0, lambda: 7)
        assert (report.end, report.at) == (AnalysisEnd.DONE, 0.0)
        assert background.latest is not None
        assert (background.latest.answer, background.latest.age_seconds(5.0)) == (2, 5.0)
        background.tick(10.0, lambda: 3)
        assert background.latest.answer == 2  # the one before stays until the next is in force
        background.tick(15.0, lambda: 4)
        assert background.latest.answer == 6
    assert asked == [1, 3]


def test_a_delay_longer_than_the_period_skips_analyses() -> None:
    """An analysis that takes longer than its period makes those that fall due meanwhile skipped, as a real one does."""
    place = AnalysisPlace("here", delay_seconds=25.0)
    with BackgroundAnalysis(_double_or_die, period_seconds=10.0, place=place) as background:
        ends = [report.end for now in range(0, 60, 5) for report in background.tick(float(now), one)]
    assert ends == [AnalysisEnd.SKIPPED, AnalysisEnd.SKIPPED, AnalysisEnd.DONE] + [AnalysisEnd.SKIPPED] * 2 + [
        AnalysisEnd.DONE
    ]


def test_the_delay_is_for_here_alone() -> None:
    """A worker of its own takes the time that it takes: its answer is collected when it is there."""
    quick = FakeAnalysis()
    quick.may_end.set()
    place = AnalysisPlace("thread", delay_seconds=1000.0)
    with BackgroundAnalysis(quick, period_seconds=10.0, place=place) as background:
        background.tick(0.0, one)
        assert background.wait(PATIENCE)
        background.tick(1.0, one)
        assert background.latest is not None
