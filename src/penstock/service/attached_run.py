# SPDX-License-Identifier: Apache-2.0
"""The loop of one pipeline in the master: its own thread, its own store, and nothing that waits for other pipelines."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, cast

from penstock._wiring import make_cycle
from penstock.adaptors.agent.channel import Channel
from penstock.adaptors.agent.wire import FromAgent
from penstock.clock import SystemClock
from penstock.errors import AdaptorError, ConfigurationError, PenstockError
from penstock.knowledge.enduring import EnduringStore
from penstock.knowledge.notebook import StoreNotebook
from penstock.knowledge.run_facts import SUMMARY, begin_run
from penstock.knowledge.run_notes import RunNotes
from penstock.loop import Cycle, CycleReport, Helm, Orders, Runner
from penstock.loop.kept_orders import first_state, kept_state
from penstock.loop.patient_actuator import PatientActuator
from penstock.loop.patient_source import PatientSource
from penstock.ports import KnowledgeStore, Policy
from penstock.records import ExecutorShare
from penstock.running.lease_beats import LeaseBeats
from penstock.service.all_there import AllThere
from penstock.service.attached_pipeline import AttachedPipeline
from penstock.service.end_summary import end_summary
from penstock.service.events import EventFeed
from penstock.service.far_operator import SKEW_SECONDS, FarOperator
from penstock.service.host_agents import HostAgents
from penstock.service.live_desk import LiveDesk
from penstock.service.master_stores import MasterStores
from penstock.steering import PolicyChoice

_LOG = logging.getLogger(__name__)


class AttachedRun:
    """Controls one pipeline for as long as this master leads. Building it asks one of its agents, and may wait.

    It goes on from what the store remembers: recent changes and guard times, orders, the policy that people chose, and
    what policies have learnt. While one of several operators cannot be seen the others hold.

    Parameters
    ----------
    attached
        The pipeline, as one of its agents introduced it: that one is there.
    connect
        Gives a channel to the agent of an operator; raises OSError while that is away.
    fence, is_leading
        The number of this master's lease, and whether it still leads.
    skew
        What the clock of an operator's agent is behind ours, in seconds.
    hosts
        The agents of the hosts that its executors may be on.
    stores, feed
        Where its history is, and where events go.
    """

    def __init__(
        self,
        attached: AttachedPipeline,
        connect: Callable[[str], Channel[FromAgent]],
        *,
        fence: int,
        is_leading: Callable[[], bool],
        skew: Callable[[str], float],
        hosts: HostAgents,
        stores: MasterStores,
        feed: EventFeed,
    ) -> None:
        self.attached, self._clock = attached, SystemClock()
        self._far = {
            operator: FarOperator(
                attached, operator, partial(connect, operator), partial(skew, operator), fence=fence, hosts=hosts
            )
            for operator in attached.operators
        }
        self._actuators = {operator: PatientActuator(far) for operator, far in self._far.items()}
        self._all_there = AllThere(self._far)
        self.cycles: dict[str, Cycle] = {}
        self._failed = self._missed = 0
        """Looks that failed or fell out up to the newest one that did not: after it there may be nobody to look at."""
        name, clock = attached.name, self._clock
        with ExitStack() as undo:
            for far in self._far.values():
                undo.callback(far.remote.close)
            self._far[attached.operator].remote.beat()  # one that does not answer gets no loop
            kept = EnduringStore(
                cast("KnowledgeStore", _LeadersStore(stores.open(name), is_leading)),
                say=lambda text: _LOG.warning("%s: %s", name, text),
                on_lost=self._open_shares,
            )
            undo.callback(kept.close)
            self._notebook = StoreNotebook(kept)
            history = stores.open_readonly(name)
            undo.callback(history.close)
            since = begin_run(kept, attached.plain, clock.now())
            kept.set_fact(SUMMARY, "null")  # a run that has come back goes on: what it had come to no longer holds
            self._kept, self._history, self._since = kept, history, since
            notes = RunNotes(kept, clock.now, since=since)
            state = kept_state(kept, first_state(list(self._far), attached.choice), since)
            policy, note = self._policy_of(state.policy)
            if note is not None:
                notes.add(attached.operator, note)
                state = replace(state, policy=attached.choice, previous=state.policy)
            orders = Orders(state)
            self.cycles = {
                operator: make_cycle(
                    operator,
                    attached.loop_settings(operator),
                    policy=policy,
                    source=PatientSource(far),
                    actuator=self._actuators[operator],
                    arrival_times=far.arrivals,
                    store=kept,
                    path=far.path,
                    since=since,
                    orders=orders,
                    first_guards=(self._all_there,),
                )
                for operator, far in self._far.items()
            }
            self._beats = LeaseBeats(self._far, attached.settings.interval)
            self._runner = Runner(
                list(self.cycles.values()),
                clock,
                interval_seconds=attached.settings.interval,
                on_report=self._take,
                on_fault=self._fault,
            )
            self._helm = Helm(self.cycles, self._runner, orders, kept, clock, build=self._build)
            self.desk = LiveDesk(attached.facts(since), self._helm, history, clock=clock, feed=feed)
            self._skew, self._notes, self._noted_skew = skew, notes, dict.fromkeys(self._far, 0.0)
            self._note_skew(attached.operator)
            undo.enter_context(self._beats)
            self._ends = undo.pop_all()

    @property
    def shares(self) -> list[ExecutorShare]:
        """What executors of its operators are to be held to, by the agents of their hosts."""
        return [share for far in self._far.values() if (share := far.share) is not None]

    def start(self) -> None:
        """Begin the passes."""
        self._runner.start()

    def end(self, why: str | None = None) -> None:
        """End the passes, and leave the pipeline as it is: another master goes on, or its own process puts it back.

        With `why` the run is over, and what it came to is kept.
        """
        self._runner.abandon(timeout_seconds=15.0)
        if why is not None:
            self._keep_summary(why)
        self.desk.end()
        self._ends.close()

    def _keep_summary(self, why: str) -> None:
        try:
            summary = end_summary(
                self.attached,
                self._history,
                {operator: cycle.monitor for operator, cycle in self.cycles.items()},
                since=self._since,
                why_ended=why,
                faults=self._failed,
                missed_turns=self._missed,
            )
            self._kept.set_fact(SUMMARY, json.dumps(summary.to_json()))
        except PenstockError:
            _LOG.exception("%s: what its run came to could not be kept", self.attached.name)

    def _build(self, choice: PolicyChoice) -> Policy:
        return self.attached.build_policy(choice, self._notebook)

    def _policy_of(self, wanted: PolicyChoice) -> tuple[Policy, str | None]:
        """The policy in force, with what the user should know where it cannot be built again."""
        try:
            return self._build(wanted), None
        except ConfigurationError as fault:
            if wanted == self.attached.choice:
                raise
            return self._build(self.attached.choice), f"the policy {wanted} cannot be built again: {fault}"

    def _open_shares(self) -> None:
        for operator, cycle in self.cycles.items():
            cycle.let_go()
            try:
                self._actuators[operator].open_shares()
            except AdaptorError as fault:  # the agent's lease opens them
                _LOG.warning("%s: CPU shares of %s were not opened: %s", self.attached.name, operator, fault)

    def _fault(self, operator: str, text: str) -> None:
        if operator in self.cycles:  # else it is said of the policy
            self._all_there.missed(operator, text)
            self.desk.missed(operator, text)
        else:
            self.desk.fault(operator, text)

    def _note_skew(self, operator: str) -> None:
        """Say that clocks differ, and again where one was set."""
        behind = self._skew(operator)
        if abs(behind - self._noted_skew[operator]) <= SKEW_SECONDS:
            return
        self._noted_skew[operator] = behind
        if abs(behind) > SKEW_SECONDS:
            way = "behind" if behind > 0 else "ahead"
            self._notes.add(
                operator,
                f"the clock of its host is {abs(behind):.1f} s {way}; its times are taken by the master's clock",
            )

    def _take(self, report: CycleReport) -> None:
        operator = report.observation.operator
        self._failed, self._missed = self._runner.faults, self._runner.missed_turns
        self._note_skew(operator)
        self._all_there.seen(operator)
        self._beats.passed(operator)
        self._helm.end_sizes()
        self.desk.report(report)


class _LeadersStore:
    """A store that takes records from a leader only: one that was deposed has nothing more to say."""

    def __init__(self, store: KnowledgeStore, is_leading: Callable[[], bool]) -> None:
        self._store, self._is_leading = store, is_leading

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("add_", "set_")) and not self._is_leading():
            raise AdaptorError("this master does not lead any more", target="store")
        return getattr(self._store, name)
