# SPDX-License-Identifier: Apache-2.0
"""What to do between two plans when records wait for longer than was planned: full speed until the backlog is gone.

A plan holds for the workload of its windows. What comes after them, before the next plan, may be more: a rate that
rises, a burst longer than any seen. Nobody has predicted that, but everybody can see it, as a backlog; and a backlog
does not go away at the levels under which it grew. So between plans the time is watched that a record would take which
arrives now and waits for all that is before it. Where that comes near a path's bound, the operators with the longest
queues get their highest level, as few as will do, until it does so no longer.

Giving the highest level is cheap: a backlog of work B drains in B / (x - u) at level x and load u, and costs
B (x - x0) / (x - u) more than the planned level x0, which hardly depends on x.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Rescue:
    """Finds the operators that need their highest level now, whatever was planned.

    Parameters
    ----------
    bound_part
        Of a path's bound: how long a record that arrives now may have to wait. Half by default, for a look comes
        late by half its period on average and a backlog takes time to drain.
    every_seconds
        How often it wants to look; a small part of the time between plans.
    """

    bound_part: float = 0.5
    every_seconds: float = 10.0

    def __post_init__(self) -> None:
        if not 0.0 < self.bound_part <= 1.0:
            raise ConfigurationError(
                f"bound_part: {self.bound_part!r} is outside (0, 1]; it is a part of a path's bound", field="bound_part"
            )
        if not (math.isfinite(self.every_seconds) and self.every_seconds > 0):
            raise ConfigurationError(
                f'every_seconds: {self.every_seconds!r} must be a positive time, such as "10s"', field="every_seconds"
            )

    def operators(
        self, bounds: Mapping[tuple[str, ...], float], waiting_seconds: Mapping[str, float]
    ) -> dict[str, str]:
        """Give the operators to raise, each with the reason.

        Parameters
        ----------
        bounds
            Of every path, in seconds.
        waiting_seconds
            How long each operator would take at its planned level for the records that wait there.

        Examples
        --------
        >>> Rescue().operators({("parser", "matcher"): 0.3}, {"parser": 0.01, "matcher": 0.2})
        {'matcher': 'records wait 0.21 s on parser > matcher, beyond 50% of its bound of 0.3 s'}
        """
        raised: dict[str, str] = {}
        for path, bound in bounds.items():
            left = math.fsum(waiting_seconds[name] for name in path)
            why = (
                f"records wait {left:.3g} s on {' > '.join(path)}, beyond {self.bound_part:.0%} of its bound of "
                f"{bound:g} s"
            )
            for name in sorted(path, key=lambda name: -waiting_seconds[name]):
                if left <= self.bound_part * bound:
                    break
                raised.setdefault(name, why)
                left -= waiting_seconds[name]
        return raised
