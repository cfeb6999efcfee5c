# SPDX-License-Identifier: Apache-2.0
"""Child processes through the warden: started, watched, stopped, and ended with Penstock."""

from __future__ import annotations

import atexit
import collections
import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from penstock.adaptors.process import identity
from penstock.adaptors.process import warden as warden_program
from penstock.adaptors.process.leftovers import FOLDER_PREFIX, OWNER_FILE, end_marked
from penstock.errors import ClusterError

_ENDED_KEPT = 100
"""How many ended children are remembered: over weeks, operators are restarted often."""
_ANSWER_SECONDS = 30.0  # the warden answers in milliseconds; this allows for a badly overloaded machine


class LoggedProcess:
    """A process with its log. `returncode` is None while it runs, and -N after signal N."""

    def __init__(self, name: str, pid: int, log: Path) -> None:
        self.name = name
        self.pid = pid
        self.log = log
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, or None while the process runs."""
        return self.returncode

    def tail(self, lines: int = 20) -> str:
        """Return the last lines of the process's output."""
        try:
            with self.log.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - 400 * lines))
                text = log.read().decode(errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def raise_if_ended(self) -> None:
        """Raise ClusterError, with the last lines of output, unless the process still runs."""
        returncode = self.poll()
        if returncode is not None:
            raise ClusterError(
                f"{self.name} (pid {self.pid}) {describe_exit(returncode)}; the end of {self.log}:\n{self.tail()}",
                target=self.name,
            )

    def __repr__(self) -> str:
        state = "running" if self.returncode is None else describe_exit(self.returncode)
        return f"{type(self).__name__}({self.name!r}, pid={self.pid}, {state})"


class Child(LoggedProcess):
    """One process under the warden."""

    def __init__(self, name: str, key: str, pid: int, log: Path, changed: threading.Condition) -> None:
        super().__init__(name, pid, log)
        self.key = key
        self._changed = changed

    def wait(self, timeout_seconds: float | None = None) -> int | None:
        """Wait for the end and return the exit code, or None if the time is up first."""
        with self._changed:
            self._changed.wait_for(lambda: self.returncode is not None, timeout_seconds)
        return self.returncode


def describe_exit(returncode: int) -> str:
    """Describe how a process ended.

    Examples
    --------
    >>> describe_exit(1), describe_exit(-9)
    ('ended with exit code 1', 'was ended by SIGKILL')
    """
    if returncode >= 0:
        return f"ended with exit code {returncode}"
    try:
        return f"was ended by {signal.Signals(-returncode).name}"
    except ValueError:  # real-time signals have no name
        return f"was ended by signal {-returncode}"


class Warden:
    """Penstock's side of the warden process. Use as a context manager; `close` ends every child.

    Children always end with Penstock: on `close`, at interpreter exit, and through the warden itself if this process
    is killed. They are outside the terminal's session: Ctrl-C reaches only Penstock, which stops them in order.

    Parameters
    ----------
    grace_seconds
        On `close`, how long each child may take to end after SIGTERM before it is killed.
    """

    def __init__(self, *, grace_seconds: float = 5.0) -> None:
        self._owner = os.getpid()
        self._grace_seconds = grace_seconds
        self._changed = threading.Condition()
        self._write_lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._children: dict[str, Child] = {}
        self._waiting: dict[str, tuple[str, Path]] = {}
        self._failures: dict[str, str] = {}
        self._late: set[str] = set()
        self._mark: str | None = None
        self._is_gone = False
        self._is_closing = False
        self._noise: collections.deque[str] = collections.deque(maxlen=20)
        # Run by path and isolated: no package of ours or the caller's is loaded. Other children of this process do
        # not inherit the pipes (descriptors are closed on exec). The pid guards against forks that keep them
        # open.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(warden_program.__file__)),
             "--parent", str(self._owner), "--grace-seconds", str(grace_seconds), "--place", identity.place()],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True, cwd="/",
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read_reports, name="penstock-warden-reports", daemon=True)
        self._reader.start()
        atexit.register(self.close)
        with self._changed:
            self._changed.wait_for(lambda: self._mark is not None or self._is_gone, _ANSWER_SECONDS)
            is_up = self._mark is not None
        if not is_up:
            self._process.kill()
            self.close()
            raise self._lost("did not start")

    @property
    def pid(self) -> int:
        """The warden's own pid."""
        return self._process.pid

    @property
    def mark(self) -> str:
        """The value of the environment variable `warden.MARK` in every descendant."""
        assert self._mark is not None  # the constructor waits for it
        return self._mark

    @property
    def children(self) -> list[Child]:
        """The children, including the last ones that ended, in the order of their start."""
        with self._changed:
            return list(self._children.values())

    def start(
        self,
        name: str,
        argv: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Child:
        """Start a process and append its output to `log`. Without `env` it gets this process's environment.

        Raises
        ------
        ClusterError
            The program cannot be started, or the warden is gone.
        """
        self._end_late()
        key = f"{name}#{next(self._numbers)}"
        with self._changed:
            self._waiting[key] = (name, log)
        self._send({
            "start": key, "argv": [str(word) for word in argv], "env": dict(os.environ if env is None else env),
            "cwd": str(cwd or Path.cwd()), "log": str(log.absolute()),
        })  # fmt: skip
        with self._changed:
            self._changed.wait_for(
                lambda: key in self._children or key in self._failures or self._is_gone, _ANSWER_SECONDS
            )
            self._waiting.pop(key, None)
            if key in self._failures:
                raise ClusterError(f"{name} could not be started: {self._failures.pop(key)}", target=name)
            if key not in self._children:
                raise self._lost(f"did not start {name}")
            return self._children[key]

    def stop(self, child: Child, *, grace_seconds: float | None = None) -> int:
        """End one child and all its descendants, SIGTERM first, SIGKILL after the grace time. Return its exit code."""
        grace = self._grace_seconds if grace_seconds is None else grace_seconds
        if child.returncode is None:
            self._send({"stop": child.key, "grace_seconds": grace})
            if child.wait(grace + _ANSWER_SECONDS) is None:
                raise ClusterError(f"{child.name} (pid {child.pid}) cannot be ended", target=child.name)
        assert child.returncode is not None
        return child.returncode

    def remove_on_exit(self, folder: Path) -> None:
        """Remove a folder after all children have ended, even after a kill -9 of this process."""
        self._send({"remove_on_exit": str(folder.absolute())})

    def temporary_folder(self, under: Path | None = None) -> Path:
        """Create a folder that is removed with the children. It names its owner, so that leftovers can be found."""
        folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=under))
        self.remove_on_exit(folder)
        (folder / OWNER_FILE).write_text(self.mark)
        return folder

    def check(self) -> None:
        """Raise ClusterError if the warden itself is gone, and its children with it."""
        with self._changed:
            if self._is_gone:
                raise self._lost("is gone")

    def close(self) -> None:
        """End all children, last started first, remove the folders, end the warden. May be called twice."""
        if os.getpid() != self._owner:  # in a fork of this process: the children are not its own
            return
        atexit.unregister(self.close)
        with self._write_lock:
            self._is_closing = True
            if self._process.stdin is not None and not self._process.stdin.closed:
                with contextlib.suppress(BrokenPipeError):  # the warden was killed, and its children with it
                    # Send the command instead of only closing: a fork of this process may hold the pipe open.
                    self._process.stdin.write(b'{"end": true}\n')
                    self._process.stdin.close()
        patience = (self._grace_seconds + 1.0) * (1 + len(self._children)) + _ANSWER_SECONDS
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()  # the parent-death signal ends the children
            self._process.wait()
        self._reader.join(_ANSWER_SECONDS)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _send(self, command: dict[str, Any]) -> None:
        line = json.dumps(command).encode() + b"\n"
        with self._write_lock:
            if self._is_closing or self._process.stdin is None:
                raise ClusterError("the warden of child processes is closed", target="warden")
            try:
                self._process.stdin.write(line)
                self._process.stdin.flush()
            except BrokenPipeError as fault:
                raise self._lost("is gone") from fault

    def _lost(self, what: str) -> ClusterError:
        said = "\n".join(self._noise)
        return ClusterError(f"the warden of child processes {what}" + (f":\n{said}" if said else ""), target="warden")

    def _read_reports(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                message = json.loads(line)
            except ValueError:  # a traceback of the warden: kept for the error that follows
                self._noise.append(line.decode(errors="replace").rstrip())
                continue
            with self._changed:
                self._take(message)
                self._changed.notify_all()
        self._on_warden_gone()

    def _take(self, message: dict[str, Any]) -> None:
        if "ready" in message:
            self._mark = message["mark"]
        elif "started" in message:
            key = message["started"]
            if key in self._waiting:
                name, log = self._waiting[key]
                self._children[key] = Child(name, key, message["pid"], log, self._changed)
            else:  # so late that whoever wanted it has given up: nobody else would end it before the run does
                self._noise.append(f"{key} started too late and is ended again")
                self._late.add(key)
                # Without another thread, the next start ends it: this one must go on reading.
                with contextlib.suppress(RuntimeError):
                    threading.Thread(target=self._end_late, daemon=True).start()
        elif "failed" in message:
            if message["failed"] in self._waiting:
                self._failures[message["failed"]] = message["why"]
        elif "exited" in message:
            if (child := self._children.get(message["exited"])) is not None:
                child.returncode = message["code"]
            self._forget_ended()
        else:
            self._noise.append(json.dumps(message))

    def _end_late(self) -> None:
        with contextlib.suppress(ClusterError, KeyError):  # the warden is gone or ends, and its children with it
            while self._late:
                self._send({"stop": self._late.pop(), "grace_seconds": self._grace_seconds})

    def _forget_ended(self) -> None:
        ended = [key for key, child in self._children.items() if child.returncode is not None]
        for key in ended[:-_ENDED_KEPT]:
            del self._children[key]

    def _on_warden_gone(self) -> None:
        if not self._is_closing and self._mark is not None:
            end_marked(self._mark)  # the warden was killed: its children died with it, theirs may not have
        with self._changed:
            self._is_gone = True
            for child in self._children.values():
                if child.returncode is None:
                    child.returncode = -signal.SIGKILL  # the parent-death signal
            self._changed.notify_all()
