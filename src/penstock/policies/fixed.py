# SPDX-License-Identifier: Apache-2.0
"""The policy that never scales: the static allocation that others are compared with."""

from __future__ import annotations

import math

from penstock.errors import ConfigurationError
from penstock.policies.entry import PolicyEntry, options_of
from penstock.ports import Policy, PolicyContext
from penstock.records import Allocation, Decision, PlanRequest
from penstock.units import number, parse_seconds, whole_number


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
        elif request.current.satisfies(self.allocation):
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


def _build(
    context: PolicyContext,  # noqa: ARG001
    executors: int | None = None,
    cpu_share: float | None = None,
    every_seconds: str | float = 10.0,
) -> Policy:
    period = parse_seconds(every_seconds, "every_seconds")
    if executors is None:
        if cpu_share is not None:
            raise ConfigurationError("executors: give it beside cpu_share, or give neither", field="executors")
        return FixedPolicy(every_seconds=period)
    share = 1.0 if cpu_share is None else number("cpu_share", cpu_share)
    return FixedPolicy(Allocation(whole_number("executors", executors), share), every_seconds=period)


ENTRY = PolicyEntry(
    name="fixed",
    summary="keeps one allocation, whatever is measured",
    build=_build,
    options=options_of(
        _build,
        {
            "executors": "how many; null: what the operator has",
            "cpu_share": "of each executor; null: all of its CPU",
            "every_seconds": "how often it wants to be asked",
        },
    ),
)
