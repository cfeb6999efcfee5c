# SPDX-License-Identifier: Apache-2.0
"""Finds a Spark application's executors among this host's processes, and moves new ones into the group."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from penstock.adaptors.cgroups.group import CpuGroup, OtherGroup
from penstock.clock import Clock, SystemClock
from penstock.errors import AdaptorError

_log = logging.getLogger(__name__)

_EXECUTOR_CLASS = "CoarseGrainedExecutorBackend"
_LOOKS_PER_PROCESS = 20
_SAID_AGAIN_SECONDS = 60.0
_REMEMBERED_SECONDS = 5.0
"""Pids are given anew in the course of time, and who does not look does not see a process end."""


class HostExecutors:
    """Finds the executors of all applications on this host, cheaply enough to be called twice a second.

    A process may replace its program soon after it starts. One that was not an executor at twenty looks is not read
    again while it lives and the looks go on.
    """

    def __init__(self, proc: str = "/proc", *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._proc = proc
        self._monotonic = monotonic
        self._looks: dict[str, int] = {}
        self._looked_at = 0.0

    def find(self) -> dict[str, dict[str, int]]:
        """Return the pid of each executor, by application and executor id."""
        now = self._monotonic()
        if now - self._looked_at > _REMEMBERED_SECONDS:
            self._looks = {}
        self._looked_at = now
        found: dict[str, dict[str, int]] = {}
        looks: dict[str, int] = {}
        for name in os.listdir(self._proc):  # noqa: PTH208 - ten thousand Path objects a second are not free
            if not name.isdigit():
                continue
            looked = self._looks.get(name, 0)
            if looked < _LOOKS_PER_PROCESS:
                executor = executor_of(_command_line(self._proc, name))
                if executor is not None:
                    application_id, executor_id = executor
                    found.setdefault(application_id, {})[executor_id] = int(name)
                    looked = -1
            looks[name] = looked + 1
        self._looks = looks
        return found


class ExecutorFinder:
    """Finds the executors of one application."""

    def __init__(self, application_id: str, proc: str = "/proc") -> None:
        self.application_id = application_id
        self._host = HostExecutors(proc)

    def find(self) -> dict[str, int]:
        """Return the pid of each executor on this host, by executor id."""
        return self._host.find().get(self.application_id, {})


def find_executors(application_id: str, proc: str = "/proc") -> dict[str, int]:
    """Return the pid of each executor of an application on this host, by executor id."""
    return ExecutorFinder(application_id, proc).find()


def executor_of(arguments: Sequence[str]) -> tuple[str, str] | None:
    """Return the application and the executor id in a command line, or None if it is not that of an executor.

    Examples
    --------
    >>> line = "java org.apache.spark.executor.CoarseGrainedExecutorBackend --executor-id 3 --app-id app-1"
    >>> executor_of(line.split())
    ('app-1', '3')
    """
    # A shell that starts an executor has the same words, but all in one argument.
    if not any(argument.endswith(_EXECUTOR_CLASS) and " " not in argument for argument in arguments):
        return None
    options = dict(pairwise(arguments))
    application_id, executor_id = options.get("--app-id"), options.get("--executor-id")
    return None if application_id is None or executor_id is None else (application_id, executor_id)


def _command_line(proc: str, pid: str) -> list[str]:
    """Return the arguments of a process, or none if it is gone or belongs to another user."""
    try:
        data = Path(proc, pid, "cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []
    return data.decode("utf-8", "replace").rstrip("\0").split("\0")


@dataclass(frozen=True, slots=True)
class JoinedExecutor:
    """An executor that was moved into the group."""

    executor_id: str
    pid: int
    at: float


class MembershipWatcher:
    """A thread that moves an application's new executors into its group, at the latest 2 s after they start.

    Who came first keeps them: where somebody else's group has executors of the application, and this one has none, they
    are left there and it is said so, until the other lets go of them or dies.

    `on_look` is called after each look, by who has looked.
    """

    def __init__(
        self,
        group: CpuGroup,
        finder: ExecutorFinder,
        *,
        interval_seconds: float = 0.5,
        clock: Clock | None = None,
        on_look: Callable[[], None] = lambda: None,
    ) -> None:
        self._group = group
        self._finder = finder
        self._interval_seconds = interval_seconds
        self._clock = clock or SystemClock()
        self._on_look = on_look
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._joined: dict[str, JoinedExecutor] = {}
        self._taken: set[tuple[int, OtherGroup]] = set()
        self._said_at = 0.0
        self.held_elsewhere: frozenset[str] = frozenset()
        """The ids of executors that were left to somebody else's group at the last look."""
        self.fault: str | None = None
        """Why the last look failed, or None if it succeeded."""
        self.lacks_rights = False
        """Whether there was an executor at the last look that this process may not move."""

    @property
    def joined(self) -> dict[str, JoinedExecutor]:
        """The executors in the group, by executor id."""
        return dict(self._joined)

    def start(self) -> None:
        """Look once now, then repeatedly in a background thread."""
        self.look()
        self._thread = threading.Thread(target=self._run, name="penstock-cgroup-members", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread. May be called twice."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(timeout=10.0)

    def look(self) -> None:
        """Move new executors into the group, and forget those that are gone."""
        faults = []
        lacks_rights = False
        joined: dict[str, JoinedExecutor] = {}
        try:
            executors, inside = self._finder.find(), set(self._group.pids())
            others = self._in_other_groups(executors, inside)
        except OSError as fault:
            self._tell(f"cgroups: cannot look for executors: {fault}")
            return
        elsewhere = self._left_to_others(executors, inside, others)
        for executor_id, pid in executors.items():
            before = self._joined.get(executor_id)
            if before is not None and before.pid == pid and pid in inside:
                joined[executor_id] = before
                continue
            if executor_id in elsewhere:
                continue
            try:
                if self._group.add(pid):
                    joined[executor_id] = JoinedExecutor(executor_id, pid, self._clock.now())
                    if executor_id in others:
                        self._taken.add((pid, others[executor_id]))
            except (AdaptorError, OSError) as fault:
                faults.append(f"executor {executor_id} is not held to its CPU share: {fault}")
                lacks_rights = lacks_rights or isinstance(fault.__cause__ or fault, PermissionError)
        try:
            if self._joined.keys() - joined.keys():
                self._group.forget_dead()
            self._group.drop_empty_parts()
        except (AdaptorError, OSError) as fault:
            faults.append(f"what an ended executor left could not be removed: {fault}")
        faults += _told_by_group(elsewhere)
        self._joined, self.lacks_rights, self.held_elsewhere = joined, lacks_rights, frozenset(elsewhere)
        self._tell("; ".join(faults) or None)
        self._on_look()

    def _in_other_groups(self, executors: dict[str, int], inside: set[int]) -> dict[str, OtherGroup]:
        """Return somebody else's groups that executors are in, by executor id."""
        found = {one: self._group.other_group_of(pid) for one, pid in executors.items() if pid not in inside}
        return {one: other for one, other in found.items() if other is not None}

    def _left_to_others(
        self, executors: dict[str, int], inside: set[int], others: dict[str, OtherGroup]
    ) -> dict[str, OtherGroup]:
        """Return the executors that are to be left to somebody else's group, by id."""
        self._taken = {taken for taken in self._taken if taken[0] in executors.values()}
        found = {one: other for one, other in others.items() if self._is_kept(executors[one], other)}
        if found and not inside.intersection(executors.values()):
            # Who holds one of them is about to hold the others: two that each hold some could set no share.
            return dict.fromkeys(executors, next(iter(found.values()))) | found
        return found

    def _is_kept(self, pid: int, other: OtherGroup) -> bool:
        """Whether the owner of a group lives, and so keeps a process.

        One in another container may be unseen, and whom it held would stay capped after its end. It may be robbed
        once: if it lives it takes the process back, and then keeps it.
        """
        return not other.is_unseen or (pid, other) in self._taken

    def _tell(self, fault: str | None) -> None:
        now = self._clock.monotonic()
        if fault is not None and (fault != self.fault or now - self._said_at >= _SAID_AGAIN_SECONDS):
            _log.warning("%s", fault)
            self._said_at = now
        self.fault = fault

    def _run(self) -> None:
        while not self._clock.wait(self._interval_seconds, self._stopped):
            try:
                self.look()
            except Exception as fault:  # a defect of ours: without the thread, new executors would never be held
                _log.exception("cgroups: a look at executors failed")
                self.fault = f"cgroups: cannot look for executors: {type(fault).__name__}: {fault}"


def _told_by_group(elsewhere: dict[str, OtherGroup]) -> list[str]:
    """Return a sentence for each group of somebody else that executors are left to."""
    by_group: dict[OtherGroup, list[str]] = {}
    for executor_id, other in elsewhere.items():
        by_group.setdefault(other, []).append(executor_id)
    return [
        f"executors {', '.join(sorted(ids))} are not held to a CPU share here: another Penstock (process "
        f"{other.owner.pid}) came first and holds this application in {other.folder}; let one alone scale it"
        for other, ids in by_group.items()
    ]
