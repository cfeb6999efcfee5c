# SPDX-License-Identifier: Apache-2.0
"""The policy that never scales: the static allocation that others are compared with."""

from __future__ import annotations

import math

from penstock.errors import ConfigurationError
from penstock.records import Allocation, Decision, PlanRequest


class FixedPolicy:
    """Wants one allocation whatever is measured.

    Parameters
    ----------
    allocation
        What the operator should have; None: what it has when asked.
    every_seconds
        How often it wants to be asked.
    """

    name = "fixed"

    def __init__(self, allocation: Allocation | None = None, *, every_seconds: float = 10.0) -> None:
        if allocation is not None and allocation.executors < 1:
            raise ConfigurationError(
                f"executors: {allocation.executors} is too few; a running query needs at least 1",
                field="executors",
            )
        if allocation is not None and not 0.0 < allocation.cpu_share <= 1.0:
            raise ConfigurationError(
                f"cpu_share: {allocation.cpu_share!r} is outside (0, 1]; a share is a fraction of the executor's cores",
                field="cpu_share",
            )
        if not (math.isfinite(every_seconds) and every_seconds > 0):
            raise ConfigurationError(
                f'every_seconds: {every_seconds!r} must be a positive time, such as "10s"', field="every_seconds"
            )
        self.allocation = allocation
        self.every_seconds = every_seconds

    def plan(self, request: PlanRequest) -> Decision:
        """The fixed allocation, with the reason."""
        if self.allocation is None:
            reason = "the allocation is fixed at what the operator has"
        elif request.current == self.allocation:
            reason = f"the allocation is fixed at {self.allocation}"
        else:
            reason = f"the allocation is fixed at {self.allocation}, and the operator has {request.current}"
        return Decision(
            operator=request.operator,
            at=request.at,
            policy=self.name,
            current=request.current,
            target=self.allocation or request.current,
            reason=reason,
        )
