# SPDX-License-Identifier: Apache-2.0
"""A policy of your own: room to spare above the busiest look of the last half minute."""

from collections import deque

import penstock as ps


class HeadroomPolicy:
    """Keeps room to spare above what was needed at the busiest look of the last half minute."""

    name, every_seconds, reads_objective = "headroom", 10.0, False

    def __init__(self, context: ps.PolicyContext | None = None, *, room: float = 0.3) -> None:
        self.room, self.needed = room, dict[str, deque[float]]()

    def watch(self, look: ps.Look) -> tuple[str, ...]:
        seen, has = look.observation, look.observation.cluster.observed
        if seen.utilisation is not None and has is not None:
            self.needed.setdefault(look.operator, deque(maxlen=30)).append(seen.utilisation * has.capacity)
        return ()

    def plan(self, request: ps.PlanRequest) -> ps.Decision:
        limits, needed, target = request.limits, self.needed.get(request.operator), request.current
        reason = f"holding: the data are {request.observation.quality}, or nothing was seen yet"
        if request.observation.quality == "good" and needed:
            wanted = max(needed) / (1.0 - self.room)
            executors = range(limits.min_executors, limits.max_executors + 1)
            every = [ps.Allocation(n, share) for n in executors for share in limits.cpu_shares]
            enough = [allocation for allocation in every if allocation.capacity >= wanted]
            target = min(enough, key=lambda allocation: allocation.capacity, default=limits.top)
            reason = f"{max(needed):.2f} executors' CPU were used at the busiest look; {self.room:.0%} more is room"
        return ps.Decision(request.operator, request.at, self.name, request.current, target, reason)

    def close(self) -> None:
        """Nothing was started."""
