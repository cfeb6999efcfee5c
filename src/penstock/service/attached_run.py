# SPDX-License-Identifier: Apache-2.0
"""The loop of one attached query in the master: its own thread, its own store, and nothing that waits for others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, cast

from penstock._wiring import make_cycle
from penstock.adaptors.agent.channel import Channel
from penstock.adaptors.agent.client import RemoteOperator
from penstock.adaptors.agent.reported_arrivals import reported_arrivals
from penstock.adaptors.agent.wire import FromAgent
from penstock.clock import SystemClock
from penstock.errors import AdaptorError, ConfigurationError
from penstock.knowledge.enduring import EnduringStore
from penstock.knowledge.notebook import StoreNotebook
from penstock.knowledge.run_facts import begin_run
from penstock.knowledge.run_notes import RunNotes
from penstock.loop import CycleReport, Helm, Orders, Runner
from penstock.loop.kept_orders import first_state, kept_state
from penstock.loop.patient_source import PatientSource
from penstock.ports import KnowledgeStore, Policy
from penstock.records import Telemetry
from penstock.running.lease_beats import LeaseBeats
from penstock.service.attached_pipeline import AttachedPipeline
from penstock.service.events import EventFeed
from penstock.service.live_desk import LiveDesk
from penstock.service.master_stores import MasterStores
from penstock.steering import PolicyChoice

_LOG = logging.getLogger(__name__)
_SKEW_SECONDS = 1.0
"""Smaller differences of clocks are not told from the time that a message takes."""


class AttachedRun:
    """Controls one attached query for as long as this master leads. Building it asks the agent, and may wait.

    It goes on from what the store remembers: recent changes and guard times, orders, the policy that people chose, and
    what policies have learnt.

    Parameters
    ----------
    attached
        The query.
    connect
        Gives a channel to its agent; raises OSError while that is away.
    fence, is_leading
        The number of this master's lease, and whether it still leads.
    skew
        What the agent's clock is behind ours, in seconds.
    stores, feed
        Where its history is, and where events go.
    """

    def __init__(
        self,
        attached: AttachedPipeline,
        connect: Callable[[], Channel[FromAgent]],
        *,
        fence: int,
        is_leading: Callable[[], bool],
        skew: Callable[[], float],
        stores: MasterStores,
        feed: EventFeed,
    ) -> None:
        self.attached, self._clock = attached, SystemClock()

        def shift() -> float:
            return skew() if abs(skew()) > _SKEW_SECONDS else 0.0

        arrivals = reported_arrivals(attached.arrivals, shift)
        self._remote = RemoteOperator(
            attached.name, connect=connect, fence=fence, arrivals=arrivals, timeout_seconds=10.0
        )  # fmt: skip
        name, operator, clock = attached.name, attached.operator, self._clock
        self._limits = attached.limits(self._remote.can_set_cpu_share)
        with ExitStack() as undo:
            undo.callback(self._remote.close)
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
            notes = RunNotes(kept, clock.now, since=since)
            state = kept_state(kept, first_state([operator], attached.choice), since)
            policy, note = self._policy_of(state.policy)
            if note is not None:
                notes.add(operator, note)
                state = replace(state, policy=attached.choice, previous=state.policy)
            orders = Orders(state)
            self.cycle = make_cycle(
                operator,
                attached.loop_settings(self._limits),
                policy=policy,
                source=PatientSource(_OurTime(self._remote, shift)),
                actuator=self._remote,
                arrival_times=arrivals,
                store=kept,
                since=since,
                orders=orders,
            )
            self._beats = LeaseBeats({operator: self._remote}, attached.settings.interval)
            self._runner = Runner(
                [self.cycle],
                clock,
                interval_seconds=attached.settings.interval,
                on_report=self._take,
                on_fault=self._fault,
            )
            self._helm = Helm({operator: self.cycle}, self._runner, orders, kept, clock, build=self._build)
            self.desk = LiveDesk(
                attached.facts(self._limits, since), self._helm, history, clock=clock, feed=feed
            )  # fmt: skip
            if abs(behind := skew()) > _SKEW_SECONDS:
                way = "behind" if behind > 0 else "ahead"
                notes.add(
                    operator,
                    f"the clock of its host is {abs(behind):.1f} s {way}; its times are taken by the master's clock",
                )
            undo.enter_context(self._beats)
            self._ends = undo.pop_all()

    def start(self) -> None:
        """Begin the passes."""
        self._runner.start()

    def end(self) -> None:
        """End the passes, and leave the query as it is: another master goes on, or its own process puts it back."""
        self._runner.abandon(timeout_seconds=15.0)
        self.desk.end()
        self._ends.close()

    def _build(self, choice: PolicyChoice) -> Policy:
        return self.attached.build_policy(choice, self._limits, self._notebook)

    def _policy_of(self, wanted: PolicyChoice) -> tuple[Policy, str | None]:
        """The policy in force, with what the user should know where it cannot be built again."""
        try:
            return self._build(wanted), None
        except ConfigurationError as fault:
            if wanted == self.attached.choice:
                raise
            return self._build(self.attached.choice), f"the policy {wanted} cannot be built again: {fault}"

    def _open_shares(self) -> None:
        self.cycle.let_go()
        try:
            self._remote.open_shares()
        except AdaptorError as fault:  # the agent's lease opens them
            _LOG.warning("%s: CPU shares were not opened: %s", self.attached.name, fault)

    def _fault(self, operator: str, text: str) -> None:
        self.desk.fault(operator, text)

    def _take(self, report: CycleReport) -> None:
        self._beats.passed(self.attached.operator)
        self._helm.end_sizes()
        self.desk.report(report)


class _OurTime:
    """An operator's telemetry with its instants by the clock of this host (a `ports.SubscribableSource`)."""

    def __init__(self, remote: RemoteOperator, shift: Callable[[], float]) -> None:
        self._remote, self._shift = remote, shift

    def subscribe(self, metrics: Collection[str], every_seconds: float) -> None:
        """Pass it on."""
        self._remote.subscribe(metrics, every_seconds)

    def collect(self) -> Telemetry:
        """What is new."""
        telemetry, seconds = self._remote.collect(), self._shift()
        return telemetry if seconds == 0.0 else shifted(telemetry, seconds)


def shifted(telemetry: Telemetry, seconds: float) -> Telemetry:
    """Telemetry with every instant moved."""
    return replace(
        telemetry,
        at=telemetry.at + seconds,
        batches=tuple(
            replace(batch, started_at=batch.started_at + seconds, ended_at=batch.ended_at + seconds)
            for batch in telemetry.batches
        ),
        executors=None
        if telemetry.executors is None
        else tuple(
            replace(one, added_at=None if one.added_at is None else one.added_at + seconds)
            for one in telemetry.executors
        ),
        cpu=None if telemetry.cpu is None else replace(telemetry.cpu, at=telemetry.cpu.at + seconds),
    )


class _LeadersStore:
    """A store that takes records from a leader only: one that was deposed has nothing more to say."""

    def __init__(self, store: KnowledgeStore, is_leading: Callable[[], bool]) -> None:
        self._store, self._is_leading = store, is_leading

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("add_", "set_")) and not self._is_leading():
            raise AdaptorError("this master does not lead any more", target="store")
        return getattr(self._store, name)
