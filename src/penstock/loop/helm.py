# SPDX-License-Identifier: Apache-2.0
"""Where people steer a running loop: an order is checked, written down, and only then in force.

Orders come from any thread. They wait for nothing: the loop obeys them from its next pass on, and the query never
notices. What cannot be written down is not ordered.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from penstock.clock import Clock
from penstock.errors import ConfigurationError, PenstockError, SteeringError, did_you_mean
from penstock.knowledge.notebook import forgetting_notes
from penstock.loop.cycle import Cycle
from penstock.loop.kept_orders import difference, plain_choice
from penstock.loop.order_checks import check_buildable, check_size, one_line
from penstock.loop.orders import Orders
from penstock.loop.runner import Runner
from penstock.ports import KnowledgeStore, Policy, WatchingPolicy
from penstock.records import Allocation, Decision, Mode
from penstock.steering import (
    AuditAction,
    AuditEntry,
    HeldSize,
    OperatorSteering,
    Order,
    PolicyChoice,
    SteeredMode,
    SteeringState,
)

_LOG = logging.getLogger(__name__)

LONGEST_HOLD_SECONDS = 30 * 86_400.0
"""How long a size may be held: one that nobody remembers must not stay for ever."""
_MOST_REASON, _MOST_NAME = 500, 64


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """What a change of policy came to.

    Attributes
    ----------
    choice
        The policy that was given.
    would_decide
        What it decides on what was last seen of each operator, as far as anything was seen.
    entry
        The entry of the audit; None: it was only tried.
    """

    choice: PolicyChoice
    would_decide: tuple[Decision, ...]
    entry: AuditEntry | None = None


class Helm:
    """Steers the loop of one pipeline; may be used from several threads.

    Parameters
    ----------
    cycles
        The operators' cycles, by their names; all obey `orders`.
    runner
        Runs them.
    orders
        The orders in force.
    store
        Where the audit is kept.
    clock
        When something was ordered.
    build
        Builds a policy as the settings would. Raises ConfigurationError with every mistake.
    """

    def __init__(
        self,
        cycles: Mapping[str, Cycle],
        runner: Runner,
        orders: Orders,
        store: KnowledgeStore,
        clock: Clock,
        *,
        build: Callable[[PolicyChoice], Policy],
    ) -> None:
        self._cycles, self._runner, self._orders = dict(cycles), runner, orders
        self._store, self._clock, self._build = store, clock, build
        self._lock = threading.Lock()
        self.on_audit: Callable[[AuditEntry], None] | None = None
        """Called with every entry, once its order is in force."""

    @property
    def state(self) -> SteeringState:
        """All orders in force, without sizes whose time is over."""
        state, steady = self._orders.state, self._clock.monotonic()
        return replace(state, operators={name: self._orders.in_force(name, steady) for name in state.operators})

    def pause(
        self, operator: str | None = None, *, by: str, reason: str = "", dry_run: bool = False
    ) -> AuditEntry | None:
        """Watch and decide nothing; lost executors are still asked for again. None: it was so already.

        Of a dry run, here and below, the entry is that which an order would make: it is not kept, and not in force.
        """
        order = self._order(by, reason)

        def paused(orders: OperatorSteering) -> OperatorSteering:
            return orders if order.says_the_same(orders.paused) else replace(orders, paused=order)

        return self._change(AuditAction.PAUSE, operator, order, paused, dry_run=dry_run)

    def resume(
        self, operator: str | None = None, *, by: str, reason: str = "", dry_run: bool = False
    ) -> AuditEntry | None:
        """Lift a pause and end a held size; the mode stays. None: there was neither."""
        return self._change(
            AuditAction.RESUME,
            operator,
            self._order(by, reason),
            lambda orders: replace(orders, paused=None, held=None),
            dry_run=dry_run,
        )

    def set_mode(
        self, mode: SteeredMode | str, operator: str | None = None, *, by: str, reason: str = "", dry_run: bool = False
    ) -> AuditEntry | None:
        """Let the policy only scale in, only scale out, only recommend, or do all of it. None: it was so already."""
        try:
            wanted = SteeredMode(mode)
        except ValueError:
            raise ConfigurationError(
                f"mode: unknown mode {mode!r}; {did_you_mean(str(mode), list(SteeredMode))}", field="mode"
            ) from None
        order = self._order(by, reason)

        def moded(orders: OperatorSteering) -> OperatorSteering:
            if orders.mode is wanted and (wanted is SteeredMode.AUTOMATIC or order.says_the_same(orders.mode_order)):
                return orders
            return replace(orders, mode=wanted, mode_order=None if wanted is SteeredMode.AUTOMATIC else order)

        return self._change(AuditAction.MODE, operator, order, moded, dry_run=dry_run)

    def hold_size(
        self,
        executors: int,
        cpu_share: float | None = None,
        *,
        for_seconds: float,
        operator: str | None = None,
        by: str,
        reason: str = "",
        dry_run: bool = False,
    ) -> AuditEntry | None:
        """Hold a size for a time, also while paused; then the policy goes on.

        Parameters
        ----------
        executors, cpu_share
            The size; without a share, the largest that is allowed.
        for_seconds
            How long.
        operator
            Whose; may be left out where there is one alone.
        by, reason
            Who says so, and why.
        dry_run
            Only check it.

        Raises
        ------
        ConfigurationError
            It is outside the limits of the settings, or the time is wrong.
        SteeringError
            The run only recommends: it changes nothing.
        """
        if operator is None and len(self._cycles) > 1:
            raise ConfigurationError(
                f"operator: is missing, and there are {', '.join(self._cycles)}; name the one whose size is set",
                field="operator",
            )
        order, name = self._order(by, reason), self._names(operator)[0]
        limits = self._cycles[name].limits
        size = Allocation(executors, limits.cpu_shares[-1] if cpu_share is None else cpu_share)
        check_size(name, size, limits)
        if not 1.0 <= for_seconds <= LONGEST_HOLD_SECONDS:
            raise ConfigurationError(
                f"for_seconds: {for_seconds!r} is not between 1 and {LONGEST_HOLD_SECONDS:.0f}; give seconds, "
                "such as 1800",
                field="for_seconds",
            )
        if self._cycles[name].mode is not Mode.ACT:
            raise SteeringError("size: the settings say mode recommend, so nothing is changed; start a run in mode act")
        held = HeldSize(size, order.at + for_seconds, order)
        return self._change(
            AuditAction.SIZE, operator, order, lambda orders: replace(orders, held=held), dry_run=dry_run
        )

    def try_policy(self, choice: PolicyChoice) -> PolicyChange:
        """Build a policy and ask it about what was last seen; nothing changes.

        Raises
        ------
        ConfigurationError
            It cannot be built, or fails.
        """
        policy = self._build(choice)
        try:
            return PolicyChange(choice, self._decisions_of(policy))
        finally:
            _close(policy)

    def replace_policy(
        self, choice: PolicyChoice, *, by: str, reason: str = "", policy: Policy | None = None
    ) -> PolicyChange:
        """Let another policy decide from the next pass on; the one before is kept for a roll-back.

        Parameters
        ----------
        choice
            How the settings would name it.
        by, reason
            Who says so, and why.
        policy
            An object that is one already; None: it is built.

        Raises
        ------
        ConfigurationError
            It cannot be built, or fails on what was last seen; the one before goes on.
        SteeringError
            The loop has ended.
        """
        state = self._orders.state
        return self._take_over(AuditAction.POLICY, choice, state.policy, self._order(by, reason), policy)

    def roll_back(self, *, by: str, reason: str = "", dry_run: bool = False) -> PolicyChange:
        """Let the policy before decide again, with nothing learnt; a second time, the one that it replaces.

        A dry run only says what it would decide.

        Raises
        ------
        SteeringError
            There was none, or it cannot be built again; or the loop has ended.
        """
        state = self._orders.state
        if state.previous is None:
            raise SteeringError(
                "policy: it was not changed yet, so there is nothing to roll back to; choose another first"
            )
        check_buildable(state.previous, "give it to replace_policy again")
        if dry_run:
            return self.try_policy(state.previous)
        return self._take_over(AuditAction.POLICY_ROLLBACK, state.previous, state.policy, self._order(by, reason))

    def reset(self, *, by: str, reason: str = "", dry_run: bool = False) -> AuditEntry | None:
        """Let the policy forget what it has learnt: it is built anew, and shown nothing of what was seen before.

        A dry run only checks that it can be built anew, and gives None.

        Raises
        ------
        SteeringError
            It is an object of the user's own, which cannot be built again; or the loop has ended.
        """
        state = self._orders.state
        check_buildable(state.policy, "hand in a new one with replace_policy")
        if dry_run:
            _close(self._build(state.policy))
            return None
        order = self._order(by, reason)
        with forgetting_notes(self._store):  # before it is built: it begins with what it finds there
            return self._take_over(AuditAction.RESET, state.policy, state.previous, order, forget=True).entry

    def end_sizes(self) -> None:
        """Write down which held sizes have ended by themselves; they are not in force any more either way."""
        before, after = self._orders.state.operators, self.state.operators
        ended = [name for name in before if before[name].held is not None and after[name].held is None]
        # The loop calls this: it never waits for somebody who is giving orders. What fails is tried again next time.
        if not ended or not self._lock.acquire(blocking=False):
            return
        self._lock.release()
        for name in ended:
            with suppress(PenstockError):
                self._change(
                    AuditAction.SIZE_ENDED, name, Order("penstock", self._clock.now()), _without(before[name].held)
                )

    def _take_over(
        self,
        action: AuditAction,
        choice: PolicyChoice,
        previous: PolicyChoice | None,
        order: Order,
        policy: Policy | None = None,
        *,
        forget: bool = False,
    ) -> PolicyChange:
        built = self._build(choice) if policy is None else policy
        try:
            would_decide = self._decisions_of(built)
            with self._lock:
                if self._runner.has_ended:
                    raise SteeringError("policy: the loop has ended, and nothing asks it any more; start the run again")
                before = self._orders.state
                after = replace(before, policy=choice, previous=previous)
                entry = _entry(
                    action,
                    None,
                    order,
                    before={"policy": plain_choice(before.policy)},
                    after={"policy": plain_choice(choice)},
                    state=after,
                )
                self._store.add_audit(entry)
                self._runner.replace_policy(built, forget=forget)
                self._orders.put(after)
        except BaseException:
            if policy is None:
                _close(built)
            raise
        self._say(entry)
        return PolicyChange(choice, would_decide, entry)

    def _change(
        self,
        action: AuditAction,
        operator: str | None,
        order: Order,
        update: Callable[[OperatorSteering], OperatorSteering],
        *,
        dry_run: bool = False,
    ) -> AuditEntry | None:
        names = self._names(operator)
        with self._lock:
            if self._runner.has_ended:
                raise SteeringError("the loop has ended, and obeys no orders any more; start the run again")
            state = self._orders.state
            before = {name: state.of(name) for name in names}
            after = {name: update(orders) for name, orders in before.items()}
            changed = [name for name in names if after[name] != before[name]]
            if not changed:
                return None
            changed_state = replace(state, operators={**state.operators, **after})
            differences = {name: difference(before[name], after[name]) for name in changed}
            entry = _entry(
                action,
                operator,
                order,
                before={name: old for name, (old, _) in differences.items()},
                after={name: new for name, (_, new) in differences.items()},
                state=changed_state,
            )
            if dry_run:
                return entry
            self._store.add_audit(entry)
            self._orders.put(changed_state)
        self._say(entry)
        return entry

    def _decisions_of(self, policy: Policy) -> tuple[Decision, ...]:
        return tuple(d for cycle in self._cycles.values() if (d := cycle.try_policy(policy)) is not None)

    def _names(self, operator: str | None) -> Sequence[str]:
        if operator is None:
            return list(self._cycles)
        if operator not in self._cycles:
            raise ConfigurationError(
                f"operator: there is no {operator!r}; {did_you_mean(operator, self._cycles)}", field="operator"
            )
        return [operator]

    def _order(self, by: str, reason: str) -> Order:
        return Order(one_line(by, _MOST_NAME) or "somebody", self._clock.now(), one_line(reason, _MOST_REASON))

    def _say(self, entry: AuditEntry) -> None:
        _LOG.info("%s", entry.text, extra={"at": entry.at})
        if self.on_audit is not None:
            try:
                self.on_audit(entry)
            except Exception:  # the order is in force, whoever could not be shown it
                _LOG.exception("an order could not be shown")


def _entry(
    action: AuditAction,
    operator: str | None,
    order: Order,
    *,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    state: SteeringState,
) -> AuditEntry:
    return AuditEntry(order.at, order.by, action, operator, order.reason, before, after, state)


def _without(ended: HeldSize | None) -> Callable[[OperatorSteering], OperatorSteering]:
    # Another size may have been ordered meanwhile.
    return lambda orders: replace(orders, held=None) if orders.held == ended else orders


def _close(policy: Policy) -> None:
    if isinstance(policy, WatchingPolicy):
        try:
            policy.close()
        except Exception:  # it may be anybody's, and decides nothing
            _LOG.exception("closing the policy %s failed", policy.name)
