# SPDX-License-Identifier: Apache-2.0
"""Thinking beside the loop: never waited for, never queued."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from penstock.errors import ConfigurationError, ModelError, NotReadyError
from penstock.policies.background import AnalysisEnd, Beside

PATIENCE = 60.0


class FakeAnalysis:
    """An analysis that ends when it is told to, and remembers what it was asked."""

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


def thinking(analyse: FakeAnalysis, period_seconds: float) -> Beside[int, int]:
    """Beside this thread, in another."""
    return Beside(analyse, period_seconds=period_seconds, worker="thread")


def one() -> int:
    """A question."""
    return 1


def not_ready() -> int:
    """No question yet."""
    raise NotReadyError("7 of 12 batches", needed=12, available=7)


def test_an_analysis_that_outlasts_its_period_makes_the_next_skipped_not_queued() -> None:
    """While one runs, those that fall due are skipped with a reason; after it exactly one more starts."""
    slow = FakeAnalysis()
    with thinking(slow, 60.0) as beside:
        assert beside.tick(0.0, one) == ()
        assert beside.tick(59.0, one) == ()
        for due in (60.0, 120.0):
            (report,) = beside.tick(due, one)
            assert (report.end, report.at, report.seconds) == (AnalysisEnd.SKIPPED, due, due)
            assert "longer than its period of 60 s" in report.detail
        slow.may_end.set()
        assert beside.wait(PATIENCE)
        (report,) = beside.tick(130.0, one)
        assert (report.end, report.at) == (AnalysisEnd.DONE, 0.0)
        assert beside.latest is not None
        assert beside.latest.age_seconds(130.0) == 130.0
        assert len(slow.asked) == 1
        beside.tick(180.0, lambda: beside.latest.answer + 1 if beside.latest else 0)
        assert beside.wait(PATIENCE)
        assert slow.asked == [1, 2]
        assert beside.count(AnalysisEnd.SKIPPED) == 2


def test_due_times_stay_on_their_grid() -> None:
    """A late call starts one analysis and leaves the later ones where they were."""
    quick = FakeAnalysis()
    quick.may_end.set()
    with thinking(quick, 10.0) as beside:
        for now, started in ((0.0, 1), (9.0, 1), (35.0, 2), (39.0, 2), (40.0, 3)):
            beside.tick(now, one)
            assert beside.wait(PATIENCE)
            assert len(quick.asked) == started


def test_too_little_data_is_told_and_asked_again_and_the_last_answer_stays() -> None:
    """Without a question nothing starts until there is one; an analysis that fails leaves the answer before it."""
    fake = FakeAnalysis()
    fake.may_end.set()
    with thinking(fake, 10.0) as beside:
        (report,) = beside.tick(0.0, not_ready)
        assert (report.end, report.detail) == (AnalysisEnd.NOT_READY, "7 of 12 batches")
        assert beside.tick(1.0, one) == ()
        assert beside.wait(PATIENCE)
        fake.fault = ModelError("no process fits")
        beside.tick(11.0, one)
        beside.wait(PATIENCE)
        (report,) = beside.tick(12.0, one)
        assert (report.end, report.detail) == (AnalysisEnd.FAILED, "no process fits")
        assert beside.latest is not None
        assert beside.latest.at == 1.0


def test_a_fault_of_the_program_is_not_hidden() -> None:
    """An error that is none of Penstock's own reaches the caller."""
    fake = FakeAnalysis()
    fake.may_end.set()
    fake.fault = ZeroDivisionError("a mistake")
    with thinking(fake, 1.0) as beside:
        beside.tick(0.0, one)
        beside.wait(PATIENCE)
        with pytest.raises(ZeroDivisionError):
            beside.tick(0.5, one)


def _double_or_die(question: int) -> int:
    if question < 0:
        os._exit(1)
    if question == 0:
        raise NotReadyError("nothing to double", needed=1, available=0)
    return 2 * question


def test_a_process_answers_and_tells_its_faults() -> None:
    """Answers and errors of Penstock's own come back from the worker process as they are."""
    with Beside(_double_or_die, period_seconds=1.0) as beside:
        for now, question in ((0.0, 21), (1.0, 0)):
            beside.tick(now, lambda question=question: question)  # type: ignore[misc]
            assert beside.wait(PATIENCE)
        (report,) = beside.tick(1.5, one)
        assert (report.end, report.detail) == (AnalysisEnd.NOT_READY, "nothing to double")
        assert beside.latest is not None
        assert beside.latest.answer == 42


def test_a_killed_worker_is_told_and_replaced() -> None:
    """A worker process that dies is a failed analysis; the next one has a new worker."""
    with Beside(_double_or_die, period_seconds=1.0) as beside:
        beside.tick(0.0, lambda: -1)
        assert beside.wait(PATIENCE)
        (report,) = beside.tick(0.5, one)
        assert report.end is AnalysisEnd.FAILED
        assert "worker process" in report.detail
        assert beside.tick(1.0, one) == ()
        assert beside.wait(PATIENCE)
        beside.tick(1.5, one)
        assert beside.latest is not None
        assert beside.latest.answer == 2


def test_a_closed_worker_is_gone_though_it_was_thinking() -> None:
    """Closing does not wait for the analysis under way."""
    before = {child.pid for child in psutil.Process().children()}
    beside = Beside(time.sleep, period_seconds=1.0)
    beside.tick(0.0, lambda: 600.0)
    beside.close()
    assert {child.pid for child in psutil.Process().children() if "spawn" in " ".join(child.cmdline())} <= before
    assert not beside.is_running


_PARENT = """
import math, sys, time
from penstock.policies.background import Beside
if __name__ == "__main__":
    beside = Beside(math.sqrt, period_seconds=1.0)
    beside.tick(0.0, lambda: 4.0)
    beside.wait(60.0)
    print(beside._worker._process.pid, flush=True)
    time.sleep(600)
"""


def test_the_worker_ends_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    """Nothing is left behind when the controller is killed with -9."""
    script = tmp_path / "parent.py"
    script.write_text(_PARENT, encoding="utf-8")
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker = psutil.Process(int(parent.stdout.readline()))
        parent.send_signal(signal.SIGKILL)
    worker.wait(PATIENCE)


def test_here_the_answer_is_there_at_once() -> None:
    """Under a clock of its own nothing is done beside: the tick that starts an analysis also ends it."""
    with Beside(_double_or_die, period_seconds=1.0, worker="here") as beside:
        (report,) = beside.tick(0.0, one)
        assert report.end is AnalysisEnd.DONE
        assert beside.latest is not None
        assert beside.latest.answer == 2


def test_wrong_settings_are_refused() -> None:
    """A period of zero and an unknown worker are errors that name the field."""
    with pytest.raises(ConfigurationError, match="period_seconds"):
        Beside(one, period_seconds=0.0)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="worker"):
        Beside(one, worker="fibre")  # type: ignore[arg-type]
