# SPDX-License-Identifier: Apache-2.0
"""One operator of a run: its process, started, watched, started again after it died, and ended."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.account import OperatorAccount
from penstock.adaptors.process.detached import DetachedProcess
from penstock.adaptors.process.leftovers import end_marked
from penstock.errors import ActuationError, ClusterError, ConfigurationError
from penstock.loop import CycleReport
from penstock.records import encode
from penstock.running.back_off import BackOff
from penstock.running.operator import OperatorJob
from penstock.running.private_file import write_private
from penstock.running.streams import Flow
from penstock.settings import OperatorSettings

if TYPE_CHECKING:
    from penstock.adaptors.agent.client import RemoteOperator
    from penstock.adaptors.process.children import Child, Warden

_LOG = logging.getLogger(__name__)
_START_SECONDS = 180.0
_END_SECONDS = 30.0
_MARK = "PENSTOCK_OPERATOR"
"""The variable of the environment that tells whose processes they are: the operator's folder."""


class State(Enum):
    """Where an operator's process is in its life."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    """It was told to end at a batch border, and will be started with another size."""
    DOWN = "down"
    """It died and will be started again."""
    FAILED = "failed"
    """It died too often."""


class OperatorProcess:
    """Starts an operator's process: one that ends with Penstock (`warden`), or one that outlives it.

    Parameters
    ----------
    job, own, logs
        What it does, its own folder, and where its log goes.
    environment
        Of the process.
    warden
        On Penstock's own cluster; None: the operator goes on when Penstock is killed.
    """

    def __init__(
        self, job: OperatorJob, own: Path, logs: Path, environment: Mapping[str, str], warden: Warden | None
    ) -> None:
        self._job, self._own, self._environment, self._warden = job, own, environment, warden
        self._log = logs / f"{job.name}.log"
        logs.mkdir(exist_ok=True)

    def change(self, job: OperatorJob) -> None:
        """What the next process does."""
        self._job = job

    def adopt(self) -> DetachedProcess | None:
        """Take over a process that outlived its controller; None: there is none."""
        running = DetachedProcess.adopt(self._job.name, log=self._log, identity=self._own / "process.json")
        if running is not None and (self._own / "job.json").read_text(encoding="utf-8") != encode(self._job):
            raise ConfigurationError(
                f"resume: operator {self._job.name} runs with other settings; give those it was started with",
                field="resume",
            )
        return running

    def start(self) -> Child | DetachedProcess:
        """Start it; it goes on from its checkpoint where there is one."""
        path = self._own / "job.json"
        write_private(path, encode(self._job))
        argv = [sys.executable, "-m", "penstock.running.operator", str(path)]
        env = {**os.environ, **self._environment, _MARK: str(self._own)}
        # In the user's folder: relative paths in the options mean there what they mean here.
        if self._warden is not None:
            return self._warden.start(self._job.name, argv, log=self._log, env=env, cwd=Path.cwd())
        identity = self._own / "process.json"
        return DetachedProcess.start(self._job.name, argv, log=self._log, env=env, cwd=Path.cwd(), identity=identity)

    def stop(self, child: Child | DetachedProcess) -> None:
        """End it, by force if need be, and all that it has started: a driver outlives its Python for a moment."""
        if isinstance(child, DetachedProcess):
            child.stop()
        elif self._warden is not None:
            self._warden.stop(child)
        left = end_marked(str(self._own), variable=_MARK)
        if left:
            raise ClusterError(
                f"operator {self._job.name}: processes {left} do not end, and two must not write to one checkpoint",
                target=self._job.name,
            )


class Member:
    """An operator as the controller knows it.

    Parameters
    ----------
    settings, job
        What it is, and what its process does.
    process
        Starts and stops that.
    remote
        Speaks with it.
    flow
        What is known of its input.
    back_off
        When to start it again after it died.
    """

    def __init__(
        self,
        settings: OperatorSettings,
        job: OperatorJob,
        *,
        process: OperatorProcess,
        remote: RemoteOperator,
        flow: Flow,
        back_off: BackOff,
    ) -> None:
        self.settings, self.job, self.remote, self.flow = settings, job, remote, flow
        self.account = OperatorAccount()
        self.last: CycleReport | None = None
        self.restarts = 0
        """After deaths; those for another size are in `pauses`."""
        self.state = State.STARTING
        self._process = process
        self._back_off = back_off
        self._child: Child | DetachedProcess | None = None
        self._deadline = float("inf")
        self._start_at = float("inf")
        self._died_of = ""
        self._next_job: OperatorJob | None = None
        self._last_job: OperatorJob | None = None
        self.pauses: list[float] = []
        """Of restarts for another size, in seconds."""
        self.exit_code: int | None = None
        """How the process ended that was told to end at a batch border."""

    @property
    def name(self) -> str:
        """The operator's name."""
        return self.settings.name

    def start(self, now: float, *, resume: bool = False) -> None:
        """Start the process, or take over one that runs."""
        self._child = (self._process.adopt() if resume else None) or self._process.start()
        self.state, self._deadline = State.STARTING, now + _START_SECONDS

    def is_ready(self, now: float) -> bool:
        """Whether its query runs and answers.

        Raises
        ------
        ClusterError
            It ended, or does not answer in time; with the end of its log.
        """
        assert self._child is not None
        self._child.raise_if_ended()
        try:
            self.remote.beat()
        except ActuationError:
            if now > self._deadline:
                raise ClusterError(
                    f"operator {self.name} did not start within {_START_SECONDS:.0f} s; "
                    f"the end of {self._child.log}:\n{self._child.tail()}",
                    target=self.name,
                ) from None
            return False
        self.state = State.RUNNING
        return True

    @property
    def is_resizing(self) -> bool:
        """Whether it is on its way from one size to another."""
        return self._next_job is not None or self._last_job is not None

    def resize(self, job: OperatorJob, now: float, patience_seconds: float) -> None:
        """Tell it to end at the next batch border, to be started again as `job` says.

        Raises
        ------
        ActuationError
            It cannot be told; it goes on as it is.
        """
        self.remote.stop_at_border(patience_seconds)
        self.state, self._next_job = State.STOPPING, job
        self._deadline = now + patience_seconds + _END_SECONDS

    def watch(self, now: float, tell: Callable[[str], None], ended: str | None = None) -> None:
        """Look after the process: note that it died, start it again when that is due, note that it is back.

        Parameters
        ----------
        now
            The present instant.
        tell
            Takes what the user should know.
        ended
            Why its query has ended, where the process may still be there to say so.
        """
        assert self._child is not None
        if self.state is State.STOPPING:
            if self._child.poll() is not None or now >= self._deadline:
                self._start_resized(now, tell)
        elif self.state is State.DOWN and now >= self._start_at:
            self._process.stop(self._child)
            self.start(now)
            self.restarts += 1
            tell(f"started again from its checkpoint (restart {self.restarts})")
        elif self.state is State.STARTING:
            try:
                if self.is_ready(now):
                    self._last_job = None
                    tell("runs again")
            except ClusterError as fault:
                if self._last_job is None:
                    self._note_death(now, str(fault), tell)
                else:
                    self._start_as_before(now, str(fault), tell)
        elif self.state is State.RUNNING and (ended is not None or self._child.poll() is not None):
            self._note_death(now, ended or "its process ended", tell)

    def failure(self) -> ClusterError:
        """Why it is given up, with the end of its log."""
        assert self._child is not None
        return ClusterError(
            f"operator {self.name} stopped: {self._died_of}; the end of {self._child.log}:\n{self._child.tail()}",
            target=self.name,
        )

    def end(self) -> None:
        """Tell it to stop, and see that it has."""
        if self._child is None:
            return
        if self.state is not State.RUNNING:  # nobody there to be told
            self._process.stop(self._child)
            return
        try:
            self.remote.stop()
        except ActuationError as fault:
            _LOG.info("%s cannot be told to stop: %s", self.name, fault)
        if self._child.wait(_END_SECONDS) is None:
            self._process.stop(self._child)

    def close(self) -> None:
        """Let go of it; a process that would outlive Penstock is ended."""
        self.remote.close()
        if isinstance(self._child, DetachedProcess):
            self._child.stop()

    def _start_resized(self, now: float, tell: Callable[[str], None]) -> None:
        assert self._child is not None
        assert self._next_job is not None
        self.exit_code = self._child.poll()
        self._process.stop(self._child)
        self._last_job, self.job, self._next_job = self.job, self._next_job, None
        self._process.change(self.job)
        self.start(now)
        tell("started from its checkpoint with another size")

    def _start_as_before(self, now: float, why: str, tell: Callable[[str], None]) -> None:
        assert self._child is not None
        assert self._last_job is not None
        self._process.stop(self._child)
        self.job, self._last_job = self._last_job, None
        self._process.change(self.job)
        self.start(now)
        tell(f"did not start with another size, so it gets the one before: {why.splitlines()[0]}")

    def _note_death(self, now: float, why: str, tell: Callable[[str], None]) -> None:
        self._died_of = why
        start_at = self._back_off.next_start(now)
        if start_at is None:
            self.state = State.FAILED
            return
        self.state, self._start_at = State.DOWN, start_at
        tell(f"stopped: {why.splitlines()[0]}; starting it again in {start_at - now:.0f} s")
