# SPDX-License-Identifier: Apache-2.0
"""Where a controller can be made to die, for tests of what the next one finds: off unless the environment asks for it.

``PENSTOCK_CRASH_AT=decision-kept:3`` kills this process with signal 9 when it comes to the point `decision-kept` for
the third time, as an administrator, the kernel or a power cut would: nothing after it runs, no file is closed in order.
The variable is read once. Every border between two steps that a controller takes is a point of `POINTS`.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Mapping
from types import MappingProxyType

from penstock.errors import ConfigurationError

_LOG = logging.getLogger(__name__)

VARIABLE = "PENSTOCK_CRASH_AT"

POINTS: Mapping[str, str] = MappingProxyType(
    {
        # A run begins (running/assembly.py, running/pipeline_run.py).
        "settings-kept": "the settings of the run are in its store, and nothing was started",
        "streams-started": "topics are there, and no operator is",
        "operator-begun": "one operator was started or taken over; the next one was not",
        "operators-ready": "every query answers, and nobody decides yet",
        "cycles-made": "the policy and the cycles are there, and no record was sent",
        "producer-started": "the producer's process runs, and nobody knows since when",
        "streams-begun": "records arrive, and no pass was made",
        # An operator's process is started (running/operator_launcher.py, adaptors/process/detached.py).
        "job-written": "the operator's job is on disk, and its process was not started",
        "process-started": "the operator's process runs, and no file says which one it is",
        "process-known": "the file names the process, and nobody has asked it anything",
        # One is taken over (running/operator_launcher.py, running/assembly.py). They come in a resumed run alone.
        "process-adopted": "the process of an earlier controller was found, and not yet held",
        "account-recalled": "what earlier controllers saw was counted, and the process was not looked for",
        # One gets executors of another size (running/running_operator.py, running/operator_actuator.py).
        "resize-begun": "a restart was decided for, and the process was not asked to end",
        "border-stop-asked": "the process was asked to end at a batch border, and nobody waits for it",
        "resize-stopped": "the old process has ended, and the new one was not started",
        "resize-started": "the new process runs, and the store still has the old size",
        "size-kept": "the store has the new size, and the rest of the allocation was not asked for",
        "resize-passed-on": "the restarted process was asked for the rest of its allocation",
        # A pass (loop/cycle.py).
        "pass-begun": "nothing was measured yet",
        "collected": "the agent gave its batches away, and nobody has looked at them",
        "synced": "actions that ended are closed in memory alone",
        "looked": "the observation is in memory alone",
        "planned": "the decision is in memory alone",
        "observation-kept": "the observation is kept, and its decision is not",
        "decision-kept": "the decision is kept, and nothing was done",
        "acted": "the cluster was asked, and no action is kept",
        "action-kept": "the action is kept, and outcomes are not",
        "outcome-kept": "the outcome of an action is kept, and the latency is not",
        "pass-ended": "everything of the pass is kept",
        # A decision is carried out (execute/reconcile.py).
        "superseded": "the action before counts as superseded, and the new one does not exist",
        "request-made": "an action is pending, and the actuator was not asked",
        "requested": "the actuator was asked, and the reconciler does not know that it was",
        # A record is written (knowledge/sqlite.py).
        "record-begun": "a transaction is open, and nothing is in it",
        "record-written": "a record is in the transaction, which was not committed",
        "record-committed": "the record is in the write-ahead log",
        # A run ends (running/pipeline_run.py).
        "loop-ended": "every record is done and shares are open, and the operators run",
        "operators-ended": "the operators have ended, and no summary is kept",
    }
)
"""Every point by its name, with what is true there. Most come again and again: the number behind the colon says which
time is meant."""


class CrashPlan:
    """Counts how often one point was passed, and calls `crash` at the time that was asked for.

    Examples
    --------
    >>> plan = CrashPlan("collected:2", lambda: print("crash"))
    >>> plan.come_to("collected")
    >>> plan.come_to("planned")
    >>> plan.come_to("collected")
    crash
    """

    def __init__(self, text: str, crash: Callable[[], None]) -> None:
        self.point, _, times = text.partition(":")
        if self.point not in POINTS:
            raise ConfigurationError(
                f"{VARIABLE}: {self.point!r} is no crash point; known: {', '.join(POINTS)}", field=VARIABLE
            )
        if times and (not times.isdecimal() or int(times) < 1):
            raise ConfigurationError(
                f"{VARIABLE}: {times!r} is not the number of a time, such as 3 in {self.point}:3", field=VARIABLE
            )
        self.left = int(times or 1)
        self._crash = crash

    def come_to(self, point: str) -> None:
        """Take note that a point was reached."""
        if point == self.point:
            self.left -= 1
            if self.left == 0:
                self._crash()


_plan: CrashPlan | None = None


def plan_crash(environment: Mapping[str, str] = os.environ, crash: Callable[[], None] | None = None) -> None:
    """Read the environment, once for a run. Without the variable nothing happens, now or at any point.

    Raises
    ------
    ConfigurationError
        The variable names no point, or no number.
    """
    global _plan  # noqa: PLW0603 (a point may be anywhere in the program: handing the plan on would be everywhere)
    text = environment.get(VARIABLE, "")
    _plan = CrashPlan(text, crash or _kill_this_process) if text else None
    if _plan is not None:
        _LOG.warning("%s is set: this process kills itself at %s", VARIABLE, text)


def crash_point(name: str) -> None:
    """A border between two steps. It costs one comparison unless a crash was planned."""
    if _plan is not None:
        _plan.come_to(name)


def _kill_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()  # the kernel ends all threads; this one does not get further meanwhile
