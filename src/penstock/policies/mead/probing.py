# SPDX-License-Identifier: Apache-2.0
"""A step down that cannot break a bound, for an operator of which too little is known to predict anything.

Batches that are all alike do not show what of their time is fixed and what the records take: f and c of f + c n. A
step to a lower level shows which is which. Until then all that can be said of the lower level is this: with a part r of
the capacity work takes 1 / r times as long; of the batches' time no more than the measured utilisation u is records'
work; so with b = f / (1 - rho) now, rho <= u, a batch settles at no more than b (1 - u) / (r - u), and a record waits
for one batch at most and rides with another.
"""

from __future__ import annotations

from penstock.plan.ladder import direction, step
from penstock.records import Allocation, Limits

_ROOM = 0.5
"""Of the bound: what a probing step may use up at most, for batches vary."""


def safe_step_down(
    limits: Limits, current: Allocation, batch_seconds: float, utilisation: float, bound_seconds: float
) -> Allocation | None:
    """Give the level below, where no batch time and no split of it would make that level break the bound.

    Examples
    --------
    >>> limits = Limits(1, 1, (0.4, 0.7, 1.0))
    >>> print(safe_step_down(limits, Allocation(1, 1.0), batch_seconds=0.4, utilisation=0.2, bound_seconds=3.0))
    1 executor x 70% CPU
    >>> safe_step_down(limits, Allocation(1, 0.7), batch_seconds=0.6, utilisation=0.5, bound_seconds=3.0) is None
    True
    """
    below = step(limits, current, -1)
    if direction(current, below) >= 0:
        return None
    left = below.capacity / current.capacity - utilisation
    if left <= 0.0:
        return None
    settled = batch_seconds * (1.0 - utilisation) / left
    return below if 2.0 * settled <= _ROOM * bound_seconds else None
