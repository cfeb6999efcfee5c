# SPDX-License-Identifier: Apache-2.0
"""Repeats the cycles on time: no overlap, no catching up, a fault in one pass never ends the loop."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from penstock.clock import Clock
from penstock.errors import ConfigurationError, PenstockError, PolicyError
from penstock.loop.cycle import Cycle, CycleReport
from penstock.loop.fault_log import FaultLog
from penstock.ports import Policy, WatchingPolicy

_LOG = logging.getLogger(__name__)


class Runner:
    """Runs every operator's cycle once per interval until stopped.

    Parameters
    ----------
    cycles
        One per operator; they run one after the other, so passes never overlap.
    clock, interval_seconds
        The schedule. A pass longer than the interval makes the next one late; missed turns are counted
        (`missed_turns`), never made up for.
    on_report
        Called with every report (the live view).
    on_fault
        Called with the operator and a text when a pass fails.
    """

    def __init__(
        self,
        cycles: Sequence[Cycle],
        clock: Clock,
        *,
        interval_seconds: float = 1.0,
        on_report: Callable[[CycleReport], None] | None = None,
        on_fault: Callable[[str, str], None] | None = None,
    ) -> None:
        self._cycles = tuple(cycles)
        self._clock = clock
        self._interval = interval_seconds
        self._on_report = on_report
        self._on_fault = on_fault
        self._stop = threading.Event()
        self._next_policy: Policy | None = None
        self._forgets = False
        self._policy_lock = threading.Lock()
        self._has_ended = False
        self._policy_faults: dict[str, str] = {}
        self._fault_log = FaultLog()
        self._thread: threading.Thread | None = None
        self._releases = True
        self.passes = 0
        self.missed_turns = 0
        self.faults = 0

    def run(self, until: float | None = None) -> None:
        """Run in this thread until `stop` or `abandon` is called or `until` is reached, then release every operator."""
        due = self._clock.monotonic()  # whoever sets the wall clock, passes stay an interval apart
        self._has_ended = False
        try:
            while not self._stop.is_set() and (until is None or self._clock.now() < until):
                # The scheduled instant, not the one a moment later, so that periods and guard times are met exactly.
                late = self._clock.monotonic() - due
                late = late if late < self._interval else 0.0
                self._pass(self._clock.now() - late, self._clock.monotonic() - late)
                due += self._interval
                late = self._clock.monotonic() - due
                if late > 0:
                    missed = int(late // self._interval)
                    self.missed_turns += missed
                    due += missed * self._interval
                self._clock.wait(due - self._clock.monotonic(), self._stop)
        finally:
            self._release()

    def start(self) -> None:
        """Run in a thread of its own, which never keeps the process alive."""
        self._thread = threading.Thread(target=self.run, name="penstock-loop", daemon=True)
        self._thread.start()

    def stop(self, timeout_seconds: float = 30.0) -> None:
        """End after the running pass and release; safe to call twice and from any thread."""
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_seconds)

    def abandon(self, timeout_seconds: float = 30.0) -> None:
        """End after the running pass and leave every operator as it is: another controller goes on."""
        self._releases = False
        self.stop(timeout_seconds)

    @property
    def has_ended(self) -> bool:
        """Whether the loop has run and runs no more."""
        return self._has_ended

    def replace_policy(self, policy: Policy, *, forget: bool = False) -> None:
        """Let another policy decide for all operators, from the border of the next pass; the old one is closed then.

        With `forget`, it is shown nothing of what was seen before.

        Raises
        ------
        ConfigurationError
            It fails on what was last seen, and the one before goes on; or the loop has ended.
        """
        for cycle in self._cycles:
            if cycle.policy is not policy:
                cycle.try_policy(policy)
        with self._policy_lock:
            if self._has_ended:
                raise ConfigurationError("policy: the loop has ended, and nothing asks it any more", field="policy")
            dropped, self._next_policy = self._next_policy, policy
            self._forgets = forget
            # One that decides is closed when the next takes over, not before.
            is_deciding = any(cycle.policy is dropped for cycle in self._cycles)
        if dropped is not None and dropped is not policy and not is_deciding:
            self._close(dropped)

    def _change_policy(self, now: float) -> None:
        with self._policy_lock:
            policy, self._next_policy = self._next_policy, None
            forget, self._forgets = self._forgets, False
        if policy is None or all(cycle.policy is policy for cycle in self._cycles):
            return
        before = {id(cycle.policy): cycle.policy for cycle in self._cycles}
        for cycle in self._cycles:
            try:
                cycle.replace_policy(policy, now, forget=forget)
            except Exception as fault:  # it decides from now on, though that could not be kept
                _LOG.exception("change of policy of %s failed", cycle.operator)
                self._note(cycle.operator, f"the change of policy was not kept: {fault}")
        for old in before.values():
            if old is not policy:
                self._close(old)

    def _pass(self, now: float, monotonic: float) -> None:
        self.passes += 1
        self._change_policy(now)
        for cycle in self._cycles:  # all at once: none waits for the driver of another
            try:
                cycle.begin()
            except Exception as fault:  # no thread is left, for example: the pass itself asks again, and says so
                _LOG.warning("%s: it could not be asked ahead of its pass: %s", cycle.operator, fault)
        for cycle in self._cycles:
            try:
                report = cycle.run_once(now, monotonic)
                if report.fault is not None:
                    self._note_policy(cycle.operator, report.fault)
                else:
                    self._fault_log.passed(cycle.operator)
                if self._on_report is not None:
                    self._on_report(report)
            except PenstockError as fault:
                self._note(cycle.operator, str(fault))
            except Exception as fault:  # a defect of ours must not end the control of the other operators
                _LOG.exception("cycle of %s failed", cycle.operator)
                self._note(cycle.operator, f"{type(fault).__name__}: {fault}")

    def _note_policy(self, operator: str, fault: PolicyError) -> None:
        """The traceback is for the policy's author, once: the same fault may come at every pass."""
        if self._policy_faults.get(operator) != str(fault):
            self._policy_faults[operator] = str(fault)
            _LOG.error("%s: a fault in the policy", operator, exc_info=fault)
        self._note(operator, str(fault))

    def _note(self, operator: str, text: str) -> None:
        self.faults += 1
        self._fault_log.failed(operator, text, self._clock.monotonic())
        if self._on_fault is not None:
            try:
                self._on_fault(operator, text)
            except Exception:  # a view that breaks must not end the loop
                _LOG.exception("a fault of %s could not be shown", operator)

    def _close(self, policy: Policy) -> None:
        if not isinstance(policy, WatchingPolicy):
            return
        try:
            policy.close()
        except Exception as fault:  # it may be anybody's, and it decides no longer
            _LOG.exception("closing the policy %s failed", policy.name)
            self._note(policy.name, f"the policy could not be closed: {type(fault).__name__}: {fault}")

    def _release(self) -> None:
        with self._policy_lock:
            late, self._next_policy = self._next_policy, None
            self._has_ended = True
        if late is not None and all(cycle.policy is not late for cycle in self._cycles):
            self._close(late)
        for cycle in self._cycles:
            try:
                if self._releases:
                    cycle.release()
                else:
                    self._close(cycle.policy)
            except Exception as fault:  # the other operators must be released all the same
                _LOG.exception("release of %s failed", cycle.operator)
                self._note(cycle.operator, f"release failed: {fault}")
