# SPDX-License-Identifier: Apache-2.0
"""The master: takes agents, runs the loops of their pipelines while it leads, and says what comes in."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack
from typing import Any

from penstock.adaptors.agent.channel import Channel
from penstock.adaptors.agent.link import NOT_LEADING
from penstock.adaptors.agent.wire import Accepted, FromAgent, Introduction, Refusal
from penstock.errors import ConfigurationError, PenstockError
from penstock.records import ExecutorShare
from penstock.service.agent_connection import AgentConnection, RequestChannel
from penstock.service.agent_port import AgentPort
from penstock.service.asking import Service
from penstock.service.attached_pipeline import AttachedPipeline, read_attached
from penstock.service.attached_run import AttachedRun
from penstock.service.host_agents import HostAgents
from penstock.service.leadership import HEARD_SECONDS, LEASE_SECONDS, Leadership
from penstock.service.master_stores import MasterStores
from penstock.service.other_page import OtherPage
from penstock.service.server import Site

_LOG = logging.getLogger(__name__)
_AWAY_SECONDS = 120.0
"""After so long without any agent a pipeline counts as lost and its loop ends; it goes on when one is back."""
_LOST = f"its agent was lost, and did not come back within {_AWAY_SECONDS:g} s; should it come back, the run goes on"
_END_SECONDS = 60.0
"""How long a pipeline that is back waits for the end of its last loop."""
_LOOK_SECONDS = 1.0
_MOST_PIPELINES = 200
_MOST_REFUSALS = 50


class Master:
    """One master. Use as a context manager.

    Parameters
    ----------
    site
        Where agents connect.
    stores
        What it shares with other masters.
    service
        Where its pipelines are shown.
    watch, every_seconds
        Metrics that are subscribed to for those who look, and how often.
    page
        The address of its page, which other masters show; None: it has none.
    lease_seconds
        How long the lead lasts without being renewed.
    """

    def __init__(
        self,
        site: Site,
        stores: MasterStores,
        service: Service,
        *,
        watch: Collection[str] = (),
        every_seconds: float = 5.0,
        page: str | None = None,
        lease_seconds: float = LEASE_SECONDS,
        on_lead: Callable[[], None] | None = None,
    ) -> None:
        self._stores, self._service = stores, service
        self._watch, self._every_seconds = frozenset(watch), every_seconds
        self._on_lead = on_lead
        self._lock = threading.Lock()
        self._agents: dict[str, AgentConnection] = {}
        self._away: dict[str, float] = {}
        """By pipeline: since when no agent of it is there, though none took leave."""
        self._runs: dict[str, AttachedRun] = {}
        self._building: set[str] = set()
        self._ending: dict[str, threading.Event] = {}
        """By pipeline: set when its loop, which ends now, has ended."""
        self._refused: dict[str, str] = {}
        self._end = threading.Event()
        self._pages = None if page is None else OtherPage(stores.leases, page)
        self.port = AgentPort(site, stores.token(), self)
        self.address = f"{site.called}:{self.port.port}"
        self.leadership = Leadership(
            stores.leases,
            self.address,
            on_lead=self._lead,
            on_lost=self._lost,
            count_agents=lambda: self.port.heard_within(HEARD_SECONDS),
            lease_seconds=lease_seconds,
        )
        self._hosts = HostAgents(lambda: list(self._agents.values()), self._shares, self._fence)
        self._ends = ExitStack()

    def __enter__(self) -> Master:
        with ExitStack() as undo:
            undo.enter_context(self.port)
            undo.enter_context(self.leadership)
            undo.enter_context(self._hosts)
            self._ends = undo.pop_all()
        threading.Thread(target=self._look_after, name="penstock-master", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        if self._pages is not None:
            self._pages.end()
        self._ends.close()

    # --- what agents do (in the event loop of the port) -------------------------------------------------------

    def admit(self, introduction: Introduction, address: str) -> Accepted | Refusal:
        """Whether an agent that has proved who it is can be taken."""
        if not self.leadership.is_leading:
            self.leadership.knock()
            return Refusal(NOT_LEADING, self.leadership.why_not, retryable=True)
        known = self._agents.get(introduction.name)
        if known is not None and known.is_open and known.introduction.agent != introduction.agent:
            text = f"an agent called {introduction.name!r} is connected from {known.address}; give another name"
            return Refusal("occupied", text, retryable=True)
        if (holding := self._holding_at(introduction)) is not None:
            text = f"{holding.name!r} holds the executors of this host; end it, or start this one with --measure-only"
            return Refusal("occupied", text, retryable=True)
        if introduction.settings and (refusal := self._refusal_of(introduction)) is not None:
            return refusal
        _LOG.info("%s: its agent comes from %s", introduction.name, address)
        return Accepted(self.leadership.fence, time.time())

    def _refusal_of(self, introduction: Introduction) -> Refusal | None:
        """Why the pipeline that an agent introduces cannot be taken; None: it can."""
        try:
            attached = read_attached(introduction.settings, introduction.name)
        except ConfigurationError as fault:
            self._note_refusal(introduction.name, str(fault))
            return Refusal("rejected", str(fault)[:2000])
        other = next((one for one in self._agents_of(attached.name) if one.attached.plain != attached.plain), None)
        if other is not None and other.introduction.agent != introduction.agent:
            text = f"another run of {attached.name!r} is connected from {other.address}; give another name"
            return Refusal("occupied", text, retryable=True)
        if len(self._runs) >= _MOST_PIPELINES and attached.name not in self._runs:
            return Refusal("busy", f"this master has {_MOST_PIPELINES} pipelines already", retryable=True)
        return None

    def _holding_at(self, introduction: Introduction) -> AgentConnection | None:
        """Another agent that holds the executors of the same place: two would take them from each other."""
        others = (one for one in list(self._agents.values()) if one.is_open and one.name != introduction.name)
        return next((one for one in others if one.holds_at and one.holds_at == introduction.holds_at), None)

    def _note_refusal(self, name: str, why: str) -> None:
        with self._lock:
            self._refused.pop(name, None)
            self._refused[name] = why
            while len(self._refused) > _MOST_REFUSALS:  # names are anybody's
                del self._refused[next(iter(self._refused))]

    def joined(self, connection: AgentConnection) -> None:
        """An agent is there."""
        with self._lock:
            before = self._agents.get(connection.name)
            self._agents[connection.name] = connection
            if connection.scales:
                self._away.pop(connection.pipeline, None)
            self._refused.pop(connection.name, None)
        if before is not None and before.is_open:
            before.close()
        if self._watch:
            connection.watch(self._watch, self._every_seconds)
        if connection.scales:
            # A thread of its own: an agent that does not answer must not hold up the beginning of others.
            threading.Thread(target=self._begin, args=(connection,), name="penstock-begin", daemon=True).start()

    def left(self, connection: AgentConnection) -> None:
        """An agent has gone."""
        with self._lock:
            if self._agents.get(connection.name) is not connection:
                return  # it has come back before its old connection ended
            del self._agents[connection.name]
            if not connection.scales or self._agents_of(connection.pipeline):
                return
            if connection.goodbye is None:
                self._away[connection.pipeline] = time.monotonic()
                return
            run = self._take_out(connection.pipeline)
        if run is not None:
            self._end_apart(run, f"its agent took leave: {connection.goodbye}")

    def _agents_of(self, pipeline: str) -> list[AgentConnection]:
        """The agents of a pipeline's operators that are connected."""
        return [one for one in list(self._agents.values()) if one.scales and one.is_open and one.pipeline == pipeline]

    # --- loops ------------------------------------------------------------------------------------------------

    def _begin(self, connection: AgentConnection) -> None:
        """Begin the loop of a pipeline, or let the one that runs go on with a new connection."""
        name, attached = connection.pipeline, connection.attached
        ending = self._ending.get(name)
        if ending is not None:  # it has come back at once, and goes on from what its last loop writes down now
            ending.wait(_END_SECONDS)
        with self._lock:
            run = self._runs.get(name)
            is_same = run is not None and run.attached.plain == attached.plain
            if is_same or name in self._building or not self.leadership.is_leading:
                return
            self._building.add(name)
        failed = ""
        try:
            if run is not None:  # another query, or another run of it
                with self._lock:
                    before = self._take_out(name)
                if before is not None:
                    self._end_run(before)
            made = self._build(attached)
            with self._lock:
                fence = self.leadership.fence
                if self.leadership.is_leading:
                    self._runs[name] = made
                    if not self._agents_of(name):  # it went while its loop was built
                        self._away.setdefault(name, time.monotonic())
            if self._runs.get(name) is made:
                _LOG.info("%s: its loop begins, with fencing number %d", name, fence)
                self._service.put(made.desk)
                made.start()
            else:
                made.end()
        except PenstockError as fault:
            _LOG.error("%s: its loop cannot begin: %s", name, fault)
            failed = str(fault)
        except Exception:
            _LOG.exception("%s: its loop cannot begin", name)
            failed = "a defect of the master; see its log"
        with self._lock:
            self._building.discard(name)
            there = self._agents_of(name)
        if failed:
            self._note_refusal(name, failed)
            for agent in there:
                agent.close()  # it comes again: what is wrong may be over then

    def _build(self, attached: AttachedPipeline) -> AttachedRun:
        def connect(operator: str) -> Channel[FromAgent]:
            connection = self._agents.get(attached.agent_of(operator))
            if connection is None or not connection.is_open or connection.attached.plain != attached.plain:
                raise ConnectionResetError("it is not connected")
            return RequestChannel(connection, lambda: self.leadership.is_leading)

        def skew(operator: str) -> float:
            connection = self._agents.get(attached.agent_of(operator))
            return 0.0 if connection is None else connection.skew_seconds

        return AttachedRun(
            attached,
            connect,
            fence=self.leadership.fence,
            is_leading=lambda: self.leadership.is_leading,
            skew=skew,
            hosts=self._hosts,
            stores=self._stores,
            feed=self._service.feed,
        )

    def _take_out(self, name: str) -> AttachedRun | None:
        """Take the run of a pipeline away, to end it; for those who hold the lock. None: it has none."""
        run = self._runs.pop(name, None)
        if run is not None:
            self._ending[name] = threading.Event()
        return run

    def _end_run(self, run: AttachedRun, why: str | None = None) -> None:
        """End a run that was taken out; `why`: it is over. Until then no other one of its name begins."""
        name = run.attached.name
        self._service.remove(name)
        try:
            run.end(why)
            if why is not None:
                _LOG.info("%s: its run is over: %s", name, why)
        except Exception:  # the others go on
            _LOG.exception("%s: its loop did not end in order", name)
        finally:
            with self._lock:
                ended = self._ending.pop(name, None)
            if ended is not None:
                ended.set()

    def _end_apart(self, run: AttachedRun, why: str | None = None) -> threading.Thread:
        """End a run in a thread of its own: adding up a long one must not hold up the others."""
        thread = threading.Thread(target=self._end_run, args=(run, why), name="penstock-end", daemon=True)
        thread.start()
        return thread

    def _look_after(self) -> None:
        """End the loops of pipelines whose agents do not come back, and keep in touch with the other master."""
        while not self._end.wait(_LOOK_SECONDS):
            try:
                self._look()
            except Exception:  # the next look may succeed
                _LOG.exception("a look at the agents failed")

    def _look(self) -> None:
        now = time.monotonic()
        with self._lock:
            over = [name for name, since in self._away.items() if now - since > _AWAY_SECONDS]
            for name in over:
                del self._away[name]
            lost = [run for name in over if (run := self._take_out(name)) is not None]
        for run in lost:
            self._end_apart(run, _LOST)
        if self._pages is not None:
            self._pages.step(self.leadership.is_leading)

    # --- leadership -------------------------------------------------------------------------------------------

    def _lead(self, fence: int) -> None:
        _LOG.info("agents are taken, with fencing number %d", fence)
        if self._on_lead is not None:
            self._on_lead()

    def _lost(self) -> None:
        self.port.drop_all()
        with self._lock:
            runs = [run for name in list(self._runs) if (run := self._take_out(name)) is not None]
            self._away.clear()
        for thread in [self._end_apart(run) for run in runs]:
            thread.join(5.0)

    def _fence(self) -> int | None:
        return self.leadership.fence if self.leadership.is_leading else None

    def _shares(self) -> list[ExecutorShare]:
        """What executors are to be held to, of all pipelines."""
        return [share for run in list(self._runs.values()) for share in run.shares]

    # --- what is shown ----------------------------------------------------------------------------------------

    def watch(self, metrics: Collection[str], every_seconds: float) -> None:
        """Have other metrics reported for those who look."""
        self._watch, self._every_seconds = frozenset(metrics), every_seconds
        for connection in self.port.connections:
            try:
                connection.watch(metrics, every_seconds)
            except OSError:
                continue  # it has just gone, and comes back with what is wanted then

    @property
    def other_page(self) -> str | None:
        """Where the page of who leads is or, where this one leads, that of one who would take over."""
        return None if self._pages is None else self._pages.address

    def view(self) -> dict[str, Any]:
        """The master and its agents as plain data."""
        leader, now = self.leadership.leader(), time.time()
        with self._lock:
            agents, away, refused = list(self._agents.values()), set(self._away), dict(self._refused)
            for name, run in self._runs.items():
                if name not in away:
                    away |= {run.attached.agent_of(one) for one in run.attached.operators} - set(self._agents)
        return {
            "address": self.address,
            "is_leading": self.leadership.is_leading,
            "fence": self.leadership.fence,
            "leader": None if leader is None else leader.holder,
            "trouble": self.leadership.trouble,
            "other_page": self.other_page,
            "watched": sorted(self._watch),
            "every_seconds": self._every_seconds,
            "agents": [agent.view(now) for agent in sorted(agents, key=lambda one: one.name)],
            "away": sorted(away),
            "refused": refused,
        }
