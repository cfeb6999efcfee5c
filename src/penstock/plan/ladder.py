# SPDX-License-Identifier: Apache-2.0
"""The allocations worth having, as one ladder: every rung has more capacity than the one below it.

Executors and CPU shares make a grid; a policy that says "one level up" needs an order. Capacity (executors times
share) gives it. An allocation is left out where fewer executors have at least its capacity: each executor costs
memory, and moving a share is done at once while starting an executor takes seconds. So executors never fall on
the way up.
"""

from __future__ import annotations

import math
from functools import lru_cache

from penstock.errors import ConfigurationError
from penstock.records import Allocation, ExecutorSize, Limits

# Shares are written by people (0.55, 1/3), so capacities that differ by rounding alone count as equal.
_SAME = 1e-9


@lru_cache(maxsize=64)
def ladder(limits: Limits, size: ExecutorSize | None = None) -> tuple[Allocation, ...]:
    """Give the allocations of the limits by rising capacity, without those that need more executors for no more.

    All of them have executors of one size: no step on the ladder needs a restart.

    Examples
    --------
    >>> [str(rung) for rung in ladder(Limits(1, 2, (0.5, 1.0)))]
    ['1 executor x 50% CPU', '1 executor x 100% CPU', '2 executors x 100% CPU']
    """
    rungs: list[Allocation] = []
    # By executors first: a rung is kept only if it has more capacity than all that need no more executors.
    for executors in range(limits.min_executors, limits.max_executors + 1):
        for share in limits.cpu_shares:
            allocation = Allocation(executors, share, size)
            if not rungs or direction(rungs[-1], allocation) > 0:
                rungs.append(allocation)
            elif allocation.executors == rungs[-1].executors:
                rungs[-1] = allocation  # two shares apart by rounding: the larger stays, so that the top is there
    return tuple(rungs)


def step(limits: Limits, current: Allocation, levels: int) -> Allocation:
    """Give the rung `levels` above (or, negative, below) `current`; at the end of the ladder, its last rung.

    The size stays as it is. A `current` that is not a rung (something else was observed) stands between the rungs by
    its capacity.
    """
    if levels == 0:
        raise ConfigurationError("levels: a step goes up (1) or down (-1), not 0", field="levels")
    rungs = ladder(limits, current.size)
    if levels > 0:
        above = [rung for rung in rungs if direction(current, rung) > 0]
        return above[min(levels, len(above)) - 1] if above else rungs[-1]
    below = [rung for rung in rungs if direction(current, rung) < 0]
    return below[max(levels, -len(below))] if below else rungs[0]


def direction(before: Allocation, after: Allocation) -> int:
    """Give 1 where the capacity rises, -1 where it falls, 0 where it stays (but for rounding)."""
    if math.isclose(before.capacity, after.capacity, rel_tol=_SAME):
        return 0
    return 1 if after.capacity > before.capacity else -1


def nearest(limits: Limits, allocation: Allocation) -> Allocation:
    """Give the allowed allocation nearest to `allocation`: itself where it is allowed.

    Executors are moved to the nearer bound; a share that is not a level goes to the next level above it (rather
    too much CPU than too little), or to the highest. Size and nodes stay where they are allowed; otherwise the size is
    the operator's own, and the cluster chooses the nodes.
    """
    executors = min(max(allocation.executors, limits.min_executors), limits.max_executors)
    share = next(
        (s for s in limits.cpu_shares if s >= allocation.cpu_share - _SAME),
        limits.cpu_shares[-1],
    )
    size = allocation.size if allocation.size in limits.sizes else None
    may_stay = executors == allocation.executors and limits.may_hold(allocation.nodes)
    return Allocation(executors, share, size, allocation.nodes if may_stay else ())
