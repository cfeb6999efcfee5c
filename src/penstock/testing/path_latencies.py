# SPDX-License-Identifier: Apache-2.0
"""A pipeline whose latencies are a closed form: for tests of planners and those who write one."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.records import Allocation, Prediction


class FakePathLatency:
    """Operators as M/M/1 queues that see the same rate, their mean times added up along each path.

    Parameters
    ----------
    bounds
        For each path, as names of operators, the bound on its latency in seconds.
    demands
        Mean service time of each operator on one executor at full share, in seconds.
    rate
        Arrivals per second; 0: no waiting.
    """

    def __init__(
        self, bounds: Mapping[tuple[str, ...], float], demands: Mapping[str, float], rate: float = 0.0
    ) -> None:
        self.bounds, self.demands, self.rate = dict(bounds), dict(demands), rate

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators in the order their demands were given."""
        return tuple(self.demands)

    @property
    def paths(self) -> tuple[tuple[str, ...], ...]:
        """The paths in the order their bounds were given."""
        return tuple(self.bounds)

    def predict(self, allocations: Mapping[str, Allocation]) -> tuple[Prediction, ...]:
        """The predictions in the order of `paths`."""
        predictions, capacity = [], {name: allocation.capacity for name, allocation in allocations.items()}
        for path, bound in self.bounds.items():
            load = {name: self.rate * self.demands[name] / capacity[name] for name in path}
            times = {
                name: self.demands[name] / capacity[name] / (1.0 - load[name]) if load[name] < 1.0 else float("inf")
                for name in path
            }
            predictions.append(Prediction(path, sum(times.values()), bound, times, load, "M/M/1"))
        return tuple(predictions)


def single_executors(shares: Mapping[str, float]) -> dict[str, Allocation]:
    """Give every operator one executor of its share."""
    return {name: Allocation(1, share) for name, share in shares.items()}
