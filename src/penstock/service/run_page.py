# SPDX-License-Identifier: Apache-2.0
"""The service of a run in this process. It listens before the run begins, and shows it once its operators are there."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.clock import SystemClock
from penstock.knowledge.sqlite import SqliteStore
from penstock.loop import CycleReport
from penstock.running.pipeline_run import StartedRun
from penstock.running.run_listener import RunListener
from penstock.service.access import Access
from penstock.service.address_file import ADDRESS_FILE, ServiceAddress, write_address
from penstock.service.application import make_application
from penstock.service.asking import Service
from penstock.service.events import EventFeed
from penstock.service.facts import facts_of
from penstock.service.live_desk import LiveDesk
from penstock.service.server import Server, Site

if TYPE_CHECKING:
    from fastapi import APIRouter

_LOG = logging.getLogger(__name__)


class RunPage:
    """Serves a run, and passes what it says on to another listener (a `RunListener`).

    Whatever goes wrong here is logged, and the run goes on.

    Parameters
    ----------
    site
        Where to listen.
    folder
        That of the run; the address and the tokens are written there.
    listener
        Who else sees the run.
    routers
        What else is served, such as a page.
    """

    def __init__(self, site: Site, folder: Path, listener: RunListener, *, routers: Sequence[APIRouter] = ()) -> None:
        self._folder, self._listener = folder, listener
        self._access, self._feed = Access(), EventFeed()
        self._service = Service((), self._access, self._feed)
        app = make_application(self._service, hosts=site.names, routers=routers)
        self._server = Server(app, site, self._feed)
        self._desk: LiveDesk | None = None
        self._history: SqliteStore | None = None
        self._ends = ExitStack()
        self.known: ServiceAddress | None = None
        """Where it is, once it listens."""

    def __enter__(self) -> RunPage:
        with ExitStack() as undo:
            undo.callback(self._service.close)
            undo.enter_context(self._server)
            file = self._folder / ADDRESS_FILE
            self.known = write_address(file, self._server.address, self._access)
            undo.callback(file.unlink, missing_ok=True)
            self._ends = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        if self._desk is not None:
            self._desk.end()
        self._ends.close()
        if self._history is not None:
            self._history.close()  # after the server, which may have been reading

    def started(self, run: StartedRun) -> None:
        """Show a run whose operators are there."""
        try:
            history = SqliteStore.open_readonly(run.folder / "knowledge.sqlite")
            facts = facts_of(
                run.settings,
                limits={name: cycle.limits for name, cycle in run.cycles.items()},
                started_at=run.started_at,
            )
            desk = LiveDesk(facts, run.helm, history, clock=SystemClock(), feed=self._feed)
            self._service.add(desk)
            self._history, self._desk = history, desk
        except Exception as fault:  # a run that cannot be shown is run all the same
            _LOG.exception("the run cannot be shown")
            self._listener.fault("run", f"the page cannot show this run: {type(fault).__name__}: {fault}")

    def phase(self, text: str, fraction: float | None = None) -> None:
        """Pass on what is being done now."""
        self._listener.phase(text, fraction)
        if self._desk is not None:
            self._desk.phase(text, fraction)

    def report(self, report: CycleReport) -> None:
        """Pass on one operator's pass."""
        try:
            self._listener.report(report)
        finally:
            if self._desk is not None:
                self._desk.report(report)

    def fault(self, operator: str, text: str) -> None:
        """Pass on something the user should know."""
        self._listener.fault(operator, text)
        if self._desk is not None:
            self._desk.fault(operator, text)
