# SPDX-License-Identifier: Apache-2.0
"""Run folders: where a new one goes, which is the newest, and how to open its knowledge."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from penstock.ports import KnowledgeStore
    from penstock.stores import StorePlace

    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType  # before click 8.4 it is not generic

RUNS = Path("runs")
KNOWLEDGE = "knowledge.sqlite"
_FOLDER_STAMP = re.compile(r"-(\d{8}-\d{6})(?:-(\d+))?$")


@dataclass(frozen=True, slots=True)
class Run:
    """A stored run. `was_chosen`: the user named none, and this is the newest.

    One in a database has no folder of its own: what is written about it goes into the current one.
    """

    folder: Path
    knowledge: StorePlace
    was_chosen: bool = False

    @property
    def place(self) -> str:
        """Where it is, for `--json`: its folder, or its address."""
        return str(self.folder) if isinstance(self.knowledge, Path) else self.knowledge.shown

    @property
    def report_folder(self) -> Path:
        """Where its report goes: pipelines of masters lie beside each other, and each has a folder of its own."""
        from penstock.service.master_stores import is_history_file, is_history_schema

        if not isinstance(self.knowledge, Path):
            return self.folder / self.knowledge.schema if is_history_schema(self.knowledge.schema) else self.folder
        return self.knowledge.with_suffix("") if is_history_file(self.knowledge) else self.folder

    @property
    def shown(self) -> str:
        """How people are shown it: by its folder, or by its file where that has a name of its own."""
        if not isinstance(self.knowledge, Path):
            return self.knowledge.shown
        has_own_name = self.knowledge.name != KNOWLEDGE or self.folder == Path()
        return str(self.knowledge if has_own_name else self.folder)


def make_run_folder(name: str, folder: Path | None = None) -> Path:
    """Create the folder of a new run, closed to other users: the given one, or ``runs/<name>-<time>``.

    Raises
    ------
    ConfigurationError
        It already contains a run, or cannot be created.
    """
    from penstock.adaptors.private_file import make_private_folder

    if folder is None:
        folder = _free(RUNS / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}")
    elif _holds_run(folder):
        raise ConfigurationError(
            f"--folder: {folder} already contains a run; give a new folder, or move that one away", field="--folder"
        )
    try:
        make_private_folder(folder)
        probe = folder / ".penstock-may-write"
        probe.touch()
        probe.unlink()
    except OSError as fault:
        raise ConfigurationError(
            f"--folder: {folder} cannot be used: {fault.strerror}; give a writable folder",
            field="--folder",
        ) from fault
    return folder


def _holds_run(folder: Path) -> bool:
    try:
        return (folder / KNOWLEDGE).exists()
    except OSError as fault:
        raise ConfigurationError(
            f"--folder: {folder.name[:60]}... cannot be used: {fault.strerror}; give another folder"
        ) from fault


class RunPlace(_ParamType):
    """What a user calls a stored run: a folder, a file, or the address of a store in PostgreSQL."""

    name = "run"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> StorePlace:
        """Read it."""
        from penstock.stores import store_place

        try:
            return value if isinstance(value, Path) else store_place(value)
        except ConfigurationError as fault:
            self.fail(str(fault), param, ctx)


def find_run(run: StorePlace | None, runs: Path = RUNS) -> Run:
    """Return the run that a user names by folder, knowledge file or address, or the newest under `runs`.

    FOLDER/NAME is a pipeline of masters that share the folder.

    Raises
    ------
    ConfigurationError
        There is none.
    """
    if run is not None and not isinstance(run, Path):
        return Run(Path(), run)
    if run is not None:
        if run.is_dir():
            if not (run / KNOWLEDGE).is_file():
                raise ConfigurationError(f"RUN: {run} has no {KNOWLEDGE}; give the folder of a run", field="RUN")
            return Run(run, run / KNOWLEDGE)
        if not run.exists() and (kept := _kept_by_masters(run)) is not None:
            return Run(kept.parent, kept)
        if not run.exists():
            raise ConfigurationError(f"RUN: {run} does not exist; give the folder of a run", field="RUN")
        return Run(run.parent, run)
    found = [path.parent for path in runs.glob(f"*/{KNOWLEDGE}")]
    if not found:
        raise ConfigurationError(
            f"RUN: there is no run under {runs}/ here; give the folder of a run, or of masters FOLDER/NAME, or start "
            "one: penstock demo",
            field="RUN",
        )
    newest = max(found, key=_started)
    return Run(newest, newest / KNOWLEDGE, was_chosen=True)


def _kept_by_masters(run: Path) -> Path | None:
    from penstock.service.master_stores import LEASES_FILE, history_file

    file = history_file(run.parent, run.name)
    return file if (run.parent / LEASES_FILE).is_file() and file.is_file() else None


@contextmanager
def opened(run: Run) -> Iterator[KnowledgeStore]:
    """Open the run's knowledge for reading. The run itself may be in progress."""
    from penstock.stores import open_store_readonly

    store = open_store_readonly(run.knowledge)
    try:
        yield store
    finally:
        store.close()


def _started(folder: Path) -> tuple[float, int]:
    # Prefer the time in the name to that of the file: reading an old run may touch its files.
    stamp = _FOLDER_STAMP.search(folder.name)
    if stamp is not None:
        try:
            started = time.mktime(time.strptime(stamp[1], "%Y%m%d-%H%M%S"))
        except ValueError:
            pass  # digits that are not a date: a name of the user's own
        else:
            return started, int(stamp[2] or 1)
    return (folder / KNOWLEDGE).stat().st_mtime, 1


def _free(folder: Path) -> Path:
    number, candidate = 1, folder
    while candidate.exists():
        number += 1
        candidate = folder.with_name(f"{folder.name}-{number}")
    return candidate
