# SPDX-License-Identifier: Apache-2.0
"""A `penstock run` in a process of its own, as a user starts it, for tests that watch it and do harm to it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil
import yaml

from penstock.errors import ConfigurationError
from penstock.knowledge.sqlite import SqliteStore
from penstock.records import Decision, Observation

CGROUP_ROOT = Path("/sys/fs/cgroup")
PATIENCE_SECONDS = 240.0


class LiveRun:
    """A pipeline under way. Use as a context manager: whatever happens, nothing of it is left.

    Parameters
    ----------
    folder, settings, options
        The run's folder, what is run, and further options of the command.
    environment
        What the command finds in its environment besides that of this process.
    module
        What is run in place of `penstock`, with the same arguments.
    may_be_left
        Whether SIGTERM lets the pipeline go on where it can. Otherwise it ends, as at the end of the context.
    """

    def __init__(
        self,
        folder: Path,
        settings: dict[str, Any],
        *options: str,
        environment: Mapping[str, str] | None = None,
        module: str = "penstock",
        may_be_left: bool = False,
    ) -> None:
        self.folder = folder
        nodes = ((settings.get("cluster") or {}).get("geo") or {}).get("nodes") or ()
        self._groups = tuple(
            f"{kind}-{re.sub(r'[^A-Za-z0-9_]', '_', name)}-"
            for kind, names in (("run", [one["name"] for one in settings["operators"]]), ("geo", nodes))
            for name in names
        )
        self._settings = folder.with_suffix(".yaml")
        self._settings.write_text(yaml.safe_dump(settings))
        self._output = folder.with_suffix(".out").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, "run", str(self._settings), "--no-view", "--json",
             "--folder", str(folder), *options, *(() if may_be_left else ("--end-on-stop",))],
            stdout=self._output, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, **(environment or {})},
        )  # fmt: skip

    def __enter__(self) -> LiveRun:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(PATIENCE_SECONDS)
        self._output.close()

    def output(self) -> str:
        """What the command printed so far."""
        self._output.seek(0)
        return self._output.read()

    def wait_for(
        self,
        what: str,
        is_true: Callable[[], bool],
        *,
        while_running: bool = True,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        """Poll until something is true; fail with the run's output when it does not become so."""
        deadline = time.monotonic() + patience_seconds
        while not is_true():
            assert not (while_running and self.process.poll() is not None), f"{what}: ended first\n{self.output()}"
            assert time.monotonic() < deadline, f"waited in vain for: {what}\n{self.output()}"
            time.sleep(0.2)

    def result(self, patience_seconds: float = PATIENCE_SECONDS + 300) -> dict[str, Any]:
        """Wait for the end and give the object on the last line."""
        code = self.process.wait(patience_seconds)
        text = self.output()
        assert code == 0, f"exit code {code}\n{text}"
        result: dict[str, Any] = json.loads(text.strip().splitlines()[-1])
        return result

    def observations(self) -> list[Observation]:
        """What was observed so far."""
        return self._read(lambda store: store.observations(limit=100_000))

    def decisions(self, *, changes_only: bool = True) -> list[Decision]:
        """What was decided so far: the changes, or everything."""
        return self._read(lambda store: store.decisions(changes_only=changes_only, limit=100_000))

    def _read(self, ask: Callable[[SqliteStore], list[Any]]) -> list[Any]:
        path = self.folder / "knowledge.sqlite"
        if not path.exists():
            return []
        try:
            store = SqliteStore.open_readonly(path)
        except ConfigurationError:  # seen on a busy machine: the run has made the file and not yet laid it out
            return []
        try:
            return ask(store)
        finally:
            store.close()

    def processes(self, word: str) -> list[psutil.Process]:
        """Living processes of this run whose command line holds `word`."""
        found = []
        for process in psutil.process_iter(["cmdline", "environ"]):
            line, environment = process.info["cmdline"] or [], process.info["environ"] or {}
            if any(word in part for part in line) and str(self.folder) in json.dumps([line, environment]):
                found.append(process)
        return found

    def groups(self) -> list[Path]:
        """Control groups of this run's operators and nodes. Those of other runs on the machine have other names."""
        return [group for group in groups() if group.name.startswith(self._groups)]

    def total_counted(self, operator: str) -> int:
        """How many lines the application itself has counted."""
        from penstock.apps.log_analysis import read_counts

        counts = read_counts(self.folder / "operators" / operator / "output")
        assert counts is not None, "the application wrote no counts"
        assert counts.total is not None
        return counts.total


def is_gone(run: LiveRun) -> bool:
    """Whether no process and no control group of the run is left."""
    return not run.processes("") and not run.groups()


def capped_groups(run: LiveRun) -> list[Path]:
    """The run's control groups whose CPU is capped (cgroup v1)."""
    capped = []
    for group in run.groups():
        with contextlib.suppress(OSError):  # not of the controller `cpu`, or removed meanwhile
            if int((group / "cpu.cfs_quota_us").read_text()) > 0:
                capped.append(group)
    return capped


def groups() -> list[Path]:
    """Penstock's control groups on this machine."""
    return [p for p in CGROUP_ROOT.glob("*/penstock/*") if p.is_dir()]


def kill_9(process: psutil.Process) -> None:
    """End a process of ours the hard way."""
    os.kill(process.pid, signal.SIGKILL)
