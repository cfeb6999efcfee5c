# SPDX-License-Identifier: Apache-2.0
"""Changes the allocation of an operator of a run: live through its agent, its executor size by a restart."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from penstock.crash_points import crash_point
from penstock.errors import ActuationError, ActuationRejectedError
from penstock.loop import PatientActuator
from penstock.ports import ProcessState
from penstock.records import Action
from penstock.running.running_operator import RunningOperator, State

_LOG = logging.getLogger(__name__)


class OperatorActuator:
    """The actuator of a running operator (`penstock.ports.RestartingActuator`).

    Parameters
    ----------
    operator
        Whose process is asked, and restarted.
    patience_seconds
        How long the running batch may take before a restart stops it.
    clock
        Gives the present instant, by a clock that nobody sets.
    """

    def __init__(self, operator: RunningOperator, patience_seconds: float, clock: Callable[[], float]) -> None:
        self._operator = operator
        self._patience_seconds = patience_seconds
        self._clock = clock
        self._waiting: Action | None = None

    @property
    def can_set_cpu_share(self) -> bool:
        """Whether the operator's agent can set CPU shares."""
        return self._operator.remote.can_set_cpu_share

    @property
    def process(self) -> ProcessState:
        """The operator's process."""
        return self._operator.process

    def request(self, action: Action) -> None:
        """Ask for the allocation in `action`; one with another size begins a restart.

        Raises
        ------
        ActuationError
            The operator cannot have it, or cannot be reached; nothing changes.
        """
        operator, size = self._operator, action.target.size
        if size not in operator.jobs:
            raise ActuationRejectedError(
                f"size: {operator.name} has no size of {size}; list it under `sizes` of the operator",
                target=operator.name,
                request_id=action.request_id,
            )
        if operator.will_have(size):
            self._waiting = action
        elif operator.state is State.STOPPING:
            raise ActuationError(
                f"size: {operator.name} is being restarted with another size; ask again when it runs",
                target=operator.name,
                request_id=action.request_id,
                retryable=True,
            )
        elif size != operator.size:
            operator.restart_with(size, self._clock(), self._patience_seconds)
            self._waiting = action
        else:
            self._waiting = None
            self._pass_on(action)

    @property
    def is_rest_due(self) -> bool:
        """Whether a restarted operator is to be asked for the rest of its allocation now."""
        return self._waiting is not None and self._operator.state is State.RUNNING

    def carry_on(self) -> None:
        """Ask a restarted operator for the rest of its allocation; called while the run is looked after."""
        action, operator = self._waiting, self._operator
        if action is None or operator.state is not State.RUNNING:
            return
        if action.target.size == operator.size:
            try:
                self._pass_on(action)
            except ActuationError as fault:  # it is tried again
                _LOG.info("%s cannot be asked for its allocation yet: %s", operator.name, fault)
                return
            crash_point("resize-passed-on")
        self._waiting = None

    def open_shares(self) -> None:
        """Lift the CPU cap and leave the executors as they are."""
        self._operator.remote.open_shares()

    def release(self) -> None:
        """Put executors and CPU shares back as they were when the process started."""
        self._waiting = None
        self._operator.remote.release()

    def _pass_on(self, action: Action) -> None:
        # The process has one size and knows no other: it is asked for executors and CPU alone.
        self._operator.remote.request(replace(action, target=replace(action.target, size=None)))


class PatientOperatorActuator(PatientActuator):
    """The same, waited for only so long (a `ports.RestartingActuator` and `ports.AnsweringActuator`): what the passes
    of all operators ask."""

    def __init__(self, actuator: OperatorActuator, *, patience_seconds: float = 1.0) -> None:
        super().__init__(actuator, patience_seconds=patience_seconds)
        self._of_operator = actuator

    @property
    def process(self) -> ProcessState:
        """The operator's process."""
        return self._of_operator.process

    def carry_on(self) -> None:
        """Ask a restarted operator for the rest of its allocation; called while the run is looked after."""
        if self._of_operator.is_rest_due:
            self.attempt(self._of_operator.carry_on)
