# SPDX-License-Identifier: Apache-2.0
"""One operator while it runs: its process is started, watched, started again after it died, and ended."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.account import OperatorAccount
from penstock.adaptors.process.detached import DetachedProcess
from penstock.adaptors.spark.failure_words import Prospect, prospect_of
from penstock.crash_points import crash_point
from penstock.errors import ActuationError, ClusterError
from penstock.execute.pause import PauseMeter
from penstock.loop import CycleReport
from penstock.loop.answer import Answer
from penstock.ports import ProcessState
from penstock.records import ExecutorSize
from penstock.running.back_off import BackOff
from penstock.running.checkpoint_files import batch_under_way
from penstock.running.death import Death
from penstock.running.operator_job import ENDED_AT_BORDER, ENDED_IN_BATCH, OperatorJob
from penstock.running.operator_launcher import OperatorLauncher
from penstock.settings import OperatorSettings

if TYPE_CHECKING:
    from penstock.adaptors.agent.client import RemoteOperator
    from penstock.adaptors.process.children import Child

_LOG = logging.getLogger(__name__)
END_SECONDS = 30.0
"""How long a process may take to end once its query has."""
_PATIENCE_SECONDS = 1.0
"""How long an agent is waited for that is asked whether it is there; other operators have their passes meanwhile."""
_STOPPED: dict[int | None, str] = {
    ENDED_AT_BORDER: "at a batch border",
    ENDED_IN_BATCH: "in a batch, which was run again",
}
"""By exit code; that of a process taken over from another controller is not known."""


class State(Enum):
    """Where an operator's process is in its life."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    """It was asked to end at a batch border, and will be started with another size."""
    DOWN = "down"
    """It died and will be started again."""
    FAILED = "failed"
    """It died too often, or would die again."""


class RunningOperator:
    """An operator and its process, as the controller sees them.

    Parameters
    ----------
    settings
        What the operator is.
    jobs
        What its process does, for each size that its executors may have; None is the operator's own size.
    size
        The size that it starts with.
    launcher
        Starts and stops its process.
    remote
        Reaches the agent in that process.
    back_off
        When to start it again after it died, and how long a start may take.
    """

    def __init__(
        self,
        settings: OperatorSettings,
        jobs: Mapping[ExecutorSize | None, OperatorJob],
        *,
        size: ExecutorSize | None = None,
        launcher: OperatorLauncher,
        remote: RemoteOperator,
        back_off: BackOff,
    ) -> None:
        self.settings, self.jobs, self.remote = settings, jobs, remote
        self.job = jobs[size]
        """What its process does now."""
        self.state = State.STARTING
        self.is_adopted = False
        """Whether its process was started by another controller."""
        self.is_held = False
        """Whether this controller started its process, or its agent has accepted this controller."""
        self.starts = 0
        """How often its process was started."""
        self.restarts = 0
        """After deaths; those for another size are in `pauses`."""
        self.pauses: list[float] = []
        """Of restarts for another size, in seconds."""
        self.account = OperatorAccount()
        self.last: CycleReport | None = None
        self._launcher = launcher
        self._back_off = back_off
        self._child: Child | DetachedProcess | None = None
        self._deadline = float("inf")
        self._start_at = float("inf")
        self._died_of = ""
        self._no_start = ""
        self._last_death: Death | None = None
        self._next_job: OperatorJob | None = None
        self._job_before: OperatorJob | None = None
        self._stopped = ""
        self._restart_fault: str | None = None
        self._pause_meter = PauseMeter()
        self._is_pause_due = False
        self._beat: Answer[None] | None = None
        """Whether its agent is there; None: it was not asked, or has answered."""
        self._changing = threading.RLock()
        """Its process is looked after in one thread, and asked to end in another, which an agent may keep waiting."""

    @property
    def name(self) -> str:
        """The operator's name."""
        return self.settings.name

    @property
    def size(self) -> ExecutorSize | None:
        """What its executors are made of now."""
        return next(size for size, job in self.jobs.items() if job is self.job)

    @property
    def process(self) -> ProcessState:
        """Its process as the reconciler sees it."""
        return ProcessState(self.size, self._stopped, self._restart_fault)

    @property
    def is_resizing(self) -> bool:
        """Whether it is on its way from one size to another."""
        return self._next_job is not None or self._job_before is not None

    def start(self, now: float, *, resume: bool = False) -> None:
        """Start the process, or take over one that runs."""
        adopted = self._launcher.adopt(list(self.jobs.values())) if resume else None
        self.is_adopted = adopted is not None
        self.is_held = adopted is None
        if adopted is None:
            self._child = self._launcher.start(self.job)
        else:
            self._child, self.job = adopted
        self._beat = None  # that of a process before says nothing about this one
        self.state, self._deadline = State.STARTING, now + self._back_off.start_seconds
        self.starts += 1

    def is_ready(self, now: float) -> bool:
        """Whether its query runs and answers.

        Raises
        ------
        ClusterError
            It ended, or does not answer in time; with the end of its log.
        """
        assert self._child is not None
        self._raise_if_ended(self._child)
        has_answered = self._has_answered()
        if has_answered:
            self.state, self.is_held = State.RUNNING, True
            return True
        if has_answered is False and now > self._deadline:
            raise ClusterError(
                f"operator {self.name} did not start within {self._back_off.start_seconds:.0f} s "
                f"(restarts.start_within); the end of {self._child.log}:\n{self._child.tail()}",
                target=self.name,
            )
        return False

    def is_up_again(self, now: float, say: Callable[[str], None]) -> bool:
        """As `is_ready`, where a run goes on: it ran before, so a process that ends early is started again.

        Raises
        ------
        ClusterError
            It ended too often or would end again, or it lives and does not answer in time; with the end of its log.
        """
        assert self._child is not None
        if self.state is State.STARTING and self._child.poll() is None:
            try:
                is_ready = self.is_ready(now)
            except ClusterError:
                if self._child.poll() is None:
                    raise
                return False  # it has ended just now
            if is_ready and self._last_death is not None:
                say("runs again")
            return is_ready
        self.watch(now, say)
        if self.state is State.FAILED:
            raise self.failure()
        return False

    def restart_with(self, size: ExecutorSize | None, now: float, patience_seconds: float) -> None:
        """Ask its process to end at the next batch border; `watch` then starts one with executors of that size.

        Raises
        ------
        ActuationError
            The process cannot be reached; it goes on as it is.
        """
        crash_point("resize-begun")
        asked = self._child
        self.remote.stop_at_border(patience_seconds)
        crash_point("border-stop-asked")
        with self._changing:
            if self._child is not asked or self.state not in (State.RUNNING, State.STARTING):
                raise ActuationError(
                    f"{self.name} ended while it was asked to, and is started again as it was",
                    target=self.name,
                    retryable=True,
                )
            self.state, self._next_job = State.STOPPING, self.jobs[size]
            self._restart_fault = None
            self._deadline = now + patience_seconds + END_SECONDS

    def will_have(self, size: ExecutorSize | None) -> bool:
        """Whether it is being stopped to be started with this size."""
        return self._next_job is not None and self._next_job is self.jobs[size]

    def take(self, report: CycleReport) -> None:
        """Take one pass of its cycle into its accounts."""
        self.last = report
        self.account.add(report)
        for batch in report.batches:
            pause = self._pause_meter.add(batch)
            if pause is not None and self._is_pause_due:
                self.pauses.append(pause.seconds)
                self._is_pause_due = False

    def watch(self, now: float, say: Callable[[str], None], ended: str | None = None) -> None:
        """Look after the process: notice that it died, start it again when that is due, notice that it is back.

        Parameters
        ----------
        now
            The present instant, by a clock that nobody sets.
        say
            Takes what the user should know.
        ended
            Why its query has ended, where the process may still be there to report it; empty: nobody knows.
        """
        with self._changing:
            self._look_after(now, say, ended)

    def failure(self) -> ClusterError:
        """Why it is given up, with the end of its log."""
        assert self._child is not None
        return ClusterError(
            f"operator {self.name} {self._died_of}; the end of {self._child.log}:\n{self._child.tail()}",
            target=self.name,
        )

    def end(self) -> None:
        """Ask it to stop, and make sure that it does. One that this controller never held is left alone."""
        if self._child is None or not self.is_held:
            return
        if self.state is not State.RUNNING:  # nobody there who could be asked
            self._launcher.stop(self._child)
            return
        try:
            self.remote.stop()
        except ActuationError as fault:
            _LOG.info("%s cannot be asked to stop: %s", self.name, fault)
        if self._child.wait(END_SECONDS) is None:
            self._launcher.stop(self._child)

    def leave(self, now: float, say: Callable[[str], None]) -> None:
        """See that its process runs before this controller goes: nobody will start it again then."""
        with self._changing:
            if self.state is State.STOPPING:
                self._start_resized(now, say)
            elif self.state is State.DOWN:
                self._start_or_wait(now, say)

    def close(self, *, is_left: bool = False) -> None:
        """Let go of it; a process that would outlive Penstock is ended, unless this controller never held it.

        With `is_left` no process is ended.
        """
        self.remote.close()
        if self.is_held and not is_left and isinstance(self._child, DetachedProcess):
            self._child.stop()

    def _look_after(self, now: float, say: Callable[[str], None], ended: str | None) -> None:
        assert self._child is not None
        if self.state is State.STOPPING:
            if self._child.poll() is not None or now >= self._deadline:
                self._start_resized(now, say)
        elif self.state is State.DOWN and now >= self._start_at:
            if self._start_or_wait(now, say):
                self.restarts += 1
                say(f"started again from its checkpoint (restart {self.restarts})")
        elif self.state is State.STARTING:
            try:
                if self.is_ready(now):
                    self._job_before = None
                    say("runs again")
            except ClusterError as fault:
                if self._job_before is None:
                    self._note_death(now, self._launcher.last_words(), say, unexplained=str(fault).splitlines()[0])
                else:
                    self._start_as_before(now, str(fault), say)
        elif self.state is State.RUNNING and (ended is not None or self._child.poll() is not None):
            self._note_death(now, ended or self._launcher.last_words(), say)

    def _has_answered(self) -> bool | None:
        """Whether its agent is there; None: it has not said, and whoever asks it gives it up in the end.

        One that hangs is waited for once, and then left to answer when it does.
        """
        is_asked = self._beat is not None
        beat = self._beat = self._beat or Answer(self.remote.beat, "penstock-is-ready")
        if not beat.is_there.wait(0.0 if is_asked else _PATIENCE_SECONDS):
            return None
        self._beat = None
        try:
            beat.result()
        except ActuationError:
            return False
        return True

    def _start_resized(self, now: float, say: Callable[[str], None]) -> None:
        assert self._child is not None
        assert self._next_job is not None
        self._stopped = _STOPPED.get(self._child.poll(), "at a point that is not known")
        self._job_before, self.job, self._next_job = self.job, self._next_job, None
        self._is_pause_due = True
        crash_point("resize-stopped")
        if self._start_or_wait(now, say):
            crash_point("resize-started")
            say("started from its checkpoint with another size")

    def _start_as_before(self, now: float, why: str, say: Callable[[str], None]) -> None:
        assert self._job_before is not None
        self.job, self._job_before = self._job_before, None
        self._is_pause_due = False
        self._restart_fault = f"it did not start with this size and has the one before again: {why.splitlines()[0]}"
        say(f"did not start with another size, so it gets the one before: {why.splitlines()[0]}")
        self._start_or_wait(now, say)

    def _start_or_wait(self, now: float, say: Callable[[str], None]) -> bool:
        """End what is left of the process and start it anew; where that cannot be done now, it is tried later."""
        assert self._child is not None
        try:
            self._launcher.stop(self._child)
            self.start(now)
        except ClusterError as fault:
            self.state, self._start_at = State.DOWN, self._back_off.after_failed_start(now)
            if (why := str(fault)) != self._no_start:
                self._no_start = why
                say(f"{why}; trying again every {self._start_at - now:.0f} s")
            return False
        self._no_start = ""
        return True

    def _raise_if_ended(self, child: Child | DetachedProcess) -> None:
        words = None if child.poll() is None else self._launcher.last_words()
        if words is not None:
            raise ClusterError(
                f"operator {self.name} cannot run: {words}; the end of {child.log}:\n{child.tail()}",
                target=self.name,
                retryable=prospect_of(words) is Prospect.PASSING,
            )
        child.raise_if_ended()

    def _note_death(
        self, now: float, why: str | None, say: Callable[[str], None], unexplained: str = "its process ended"
    ) -> None:
        words = (why or unexplained).splitlines()[0]
        died = Death(batch_under_way(Path(self.job.checkpoint_folder)), words, is_explained=bool(why))
        before, self._last_death = self._last_death, died
        self._died_of = f"stopped in batch {died.batch}: {died.words}"
        hopeless = died.why_no_restart(before)
        start_at = None if hopeless else self._back_off.next_start(now)
        if start_at is None:
            self._died_of += f"; {hopeless or 'it has died too often'}, so it is not started again"
            self.state = State.FAILED
            say(self._died_of)
            return
        self.state, self._start_at = State.DOWN, start_at
        say(f"{self._died_of}; starting it again in {start_at - now:.0f} s")
