# SPDX-License-Identifier: Apache-2.0
"""CPU shares of a Spark operator's executors on this host, for the Spark adaptor."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

from penstock.adaptors.cgroups.held_group import HeldGroup, HoldOptions
from penstock.adaptors.cgroups.hierarchy import Hierarchy
from penstock.errors import ConfigurationError
from penstock.records import Allocation, ExecutorState

JOINED_WITHIN_SECONDS = 10.0
"""An executor of this host is found and held long before."""


def quota_cores(allocation: Allocation, uncapped: Allocation, cores_per_executor: float) -> float | None:
    """Return the cap, in cores, for an allocation, or None for no cap.

    Only the allocation `uncapped`, with the whole share, runs without a cap. Fewer executors with the whole share are
    capped at their cores: otherwise they could use more than a larger allocation with a smaller share.

    Examples
    --------
    >>> quota_cores(Allocation(2, 0.5), Allocation(4, 1.0), 2), quota_cores(Allocation(2), Allocation(4), 2)
    (2.0, 4.0)
    >>> quota_cores(Allocation(4, 1.0), Allocation(4, 1.0), 2) is None
    True
    """
    if allocation.executors >= uncapped.executors and allocation.cpu_share >= 1.0:
        return None
    return allocation.executors * allocation.cpu_share * cores_per_executor


class CpuShares(HeldGroup):
    """Holds an operator's executors to a CPU share: one quota for all of them.

    It changes nothing before `start` (which `apply` calls). After `release` everything is as it was.

    Parameters
    ----------
    uncapped
        The largest allocation of the limits; with the whole CPU share it has no cap.
    cores_per_executor
        Cores each executor was given by Spark.
    """

    def __init__(
        self,
        operator: str,
        application_id: str,
        uncapped: Allocation,
        cores_per_executor: float,
        hierarchy: Hierarchy,
        **options: Unpack[HoldOptions],
    ) -> None:
        super().__init__(operator, application_id, hierarchy, **options)
        if cores_per_executor <= 0:
            raise ConfigurationError(
                f"cores_per_executor: {cores_per_executor!r} must be above 0", field="cores_per_executor"
            )
        self.uncapped = uncapped
        self.cores_per_executor = cores_per_executor

    def apply(self, allocation: Allocation) -> None:
        """Cap the executors to an allocation. Takes effect at once."""
        self._set_quota(quota_cores(allocation, self.uncapped, self.cores_per_executor))

    def widen(self, allocation: Allocation) -> None:  # noqa: ARG002 - the cap is of all executors together
        """Raise the cap to the largest allocation of the limits."""
        self.apply(self.uncapped)

    def share_refusal(self) -> str | None:
        """Return None: the kernel takes a cap at once, or fails at once."""
        return None

    def unheld(self, executors: Iterable[ExecutorState], now: float) -> str | None:
        """Return in one line which executors are not held, and why. None: all are, or may be soon."""
        held, elsewhere = self.joined, self.held_elsewhere
        others = [
            executor
            for executor in executors
            if executor.is_active
            and executor.executor_id not in held
            and (executor.executor_id in elsewhere or had_time_to_join(executor, now))
        ]
        lines = (
            ([e for e in others if e.executor_id in elsewhere], "another Penstock on the driver's host holds them"),
            (
                [e for e in others if e.executor_id not in elsewhere],
                "they are not among the processes of the driver's host",
            ),
        )
        told = [f"{executors_text(found)} have no CPU share: {why}" for found, why in lines if found]
        return "; ".join(told) or None


def had_time_to_join(executor: ExecutorState, now: float) -> bool:
    """Whether an executor should be held by now. One that is known from the future is older than a clock that was set
    back since, and so it should.

    Examples
    --------
    >>> one = ExecutorState("1", "w1", 1, True, 0, 0.0, added_at=100.0)
    >>> had_time_to_join(one, 105.0), had_time_to_join(one, 111.0), had_time_to_join(one, 80.0)
    (False, True, True)
    """
    return executor.added_at is None or abs(now - executor.added_at) > JOINED_WITHIN_SECONDS


def executors_text(executors: Iterable[ExecutorState]) -> str:
    """Return executors with their hosts, for a sentence.

    Examples
    --------
    >>> executors_text([ExecutorState("2", "w1", 1, True, 0, 0.0), ExecutorState("1", "w1", 1, True, 0, 0.0)])
    'executors 1, 2 (on w1)'
    """
    found = list(executors)
    ids = ", ".join(sorted({executor.executor_id for executor in found}))
    return f"executors {ids} (on {', '.join(sorted({executor.host for executor in found}))})"
