# SPDX-License-Identifier: Apache-2.0
"""A pipeline as the queueing models see it: operators with their demand, who reads from whom, a bound for each path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from scipy.stats import gamma

from penstock.errors import ConfigurationError
from penstock.performance.demand import BatchDemand, Demand
from penstock.records import Allocation, Objective
from penstock.topology import ARRIVALS, Path, Topology
from penstock.units import format_seconds

_PERCENTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True, slots=True)
class OperatorModel:
    """One operator.

    Parameters
    ----------
    name
        How it is called.
    demand
        What its records ask of one executor at full share. Its kind says how they are served: one by one
        (`RecordDemand`, real-time mode) or in micro-batches (`BatchDemand`).
    inputs
        The operators it reads from; none: the source.
    selectivity
        Records it gives to each reader for one that it takes.
    """

    name: str
    demand: Demand
    inputs: tuple[str, ...] = ()
    selectivity: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 < self.selectivity < float("inf"):
            raise ConfigurationError(
                f"{self.name}.selectivity: {self.selectivity!r} must be positive: records out for one in",
                field="selectivity",
            )


@dataclass(frozen=True, eq=False)
class PipelineModel:
    """Operators joined to a graph without cycles, and an objective for every path from the source to a sink.

    Parameters
    ----------
    operators
        In any order.
    objectives
        One for all paths, or one for each path, as a tuple of names.

    Raises
    ------
    ConfigurationError
        A cycle, an unknown or repeated name, a path without objective; the message lists every fault.

    Examples
    --------
    >>> from penstock.markov import PH
    >>> from penstock.performance.demand import RecordDemand
    >>> quick = RecordDemand(PH.exponential(mean=0.001))
    >>> pipeline = PipelineModel(
    ...     [OperatorModel("parser", quick), OperatorModel("counter", quick, ("parser",)),
    ...      OperatorModel("matcher", quick, ("parser",))], Objective("p95", 0.5))
    >>> pipeline.paths
    (('parser', 'counter'), ('parser', 'matcher'))
    """

    operators: Sequence[OperatorModel]
    objectives: Objective | Mapping[Path, Objective]
    _by_name: dict[str, OperatorModel] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        names = [operator.name for operator in self.operators]
        faults = [f"{name}: two operators have this name" for name in sorted({n for n in names if names.count(n) > 1})]
        faults += [
            f"{operator.name}: reads from {above!r}, which is no operator; known: {', '.join(names)}"
            for operator in self.operators
            for above in operator.inputs
            if above not in names
        ]
        if not names:
            faults.append("give at least one operator")
        object.__setattr__(self, "_by_name", {operator.name: operator for operator in self.operators})
        if not faults:
            circle = _circle(self._by_name)
            if circle:
                told = " > ".join((*circle, circle[0]))
                faults.append(f"{told} is a circle: records would go round for ever; cut one of the streams")
        if not faults:
            faults = self._objective_faults()
        if faults:
            raise ConfigurationError.of_all("pipeline", faults)

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The operators' names, each after those it reads from, else in the order given."""
        order: list[str] = []
        left = [operator.name for operator in self.operators]
        while left:
            ready = next(name for name in left if all(above in order for above in self._by_name[name].inputs))
            order.append(ready)
            left.remove(ready)
        return tuple(order)

    @cached_property
    def paths(self) -> tuple[Path, ...]:
        """Every way from the source to an operator that nobody reads from."""
        return Topology.from_inputs({name: self._by_name[name].inputs or (ARRIVALS,) for name in self.order}).paths

    @cached_property
    def visits(self) -> dict[str, float]:
        """Records that each operator takes for one that arrives at the source."""
        visits: dict[str, float] = {}
        for name in self.order:
            inputs = self._by_name[name].inputs
            visits[name] = sum(visits[above] * self._by_name[above].selectivity for above in inputs) if inputs else 1.0
        return visits

    def operator(self, name: str) -> OperatorModel:
        """The operator called `name`."""
        return self._by_name[name]

    def objective(self, path: Path) -> Objective:
        """The objective of a path."""
        return self.objectives if isinstance(self.objectives, Objective) else self.objectives[path]

    def bound(self, path: Path) -> float:
        """The bound on a path's latency, in seconds."""
        seconds = self.objective(path).seconds
        assert seconds is not None  # refused on construction
        return seconds

    def probability(self, path: Path) -> float | None:
        """The probability that a path's objective is a percentile of; None: it bounds the mean."""
        return _PERCENTILES.get(str(self.objective(path).statistic))

    def require_possible(self, share: float = 1.0) -> None:
        """Refuse bounds below what a lone record takes, without any waiting, at the highest share.

        Raises
        ------
        ConfigurationError
            Says which paths are impossible, and what they take at least.
        """
        faults = []
        for path in self.paths:
            least, bound = self._least_seconds(path, share), self.bound(path)
            if least > bound:
                faults.append(
                    f"objective of {' > '.join(path)}: {self.objective(path).statistic} within {format_seconds(bound)} "
                    f"is impossible: serving alone takes {format_seconds(least)} at {share:.0%} CPU, without any "
                    "waiting; raise the bound, or make the operators faster"
                )
        if faults:
            raise ConfigurationError.of_all("pipeline", faults)

    def _least_seconds(self, path: Path, share: float) -> float:
        """The objective's statistic of the serving times along a path; a batch holds one record at least."""
        probability = self.probability(path)
        moments = [_serving(self._by_name[name].demand, Allocation(1, share)) for name in path]
        mean, variance = sum(m for m, _ in moments), sum(v for _, v in moments)
        if probability is None or variance == 0.0:
            return mean
        # A gamma distribution of the same mean and variance: right for one Erlang or exponential time, near for sums.
        return float(gamma.ppf(probability, mean**2 / variance, scale=variance / mean))

    def _objective_faults(self) -> list[str]:
        paths, faults = self.paths, []
        if not isinstance(self.objectives, Objective):
            faults += [
                f"path {' > '.join(path)} has no objective; give it one"
                for path in paths
                if path not in self.objectives
            ]
            known = "; ".join(" > ".join(path) for path in paths)
            faults += [
                f"objective of {' > '.join(path)}: there is no such path; the paths are: {known}"
                for path in self.objectives
                if path not in paths
            ]
        if not faults and any(self.objective(path).statistic is None for path in paths):
            faults.append('objective: a latency bound is needed, such as p95 = "2s"; to keep up is none')
        return faults


def _serving(demand: Demand, allocation: Allocation) -> tuple[float, float]:
    """Mean and variance of the time a lone record is served in."""
    if isinstance(demand, BatchDemand):
        server = demand.at(allocation)
        variance = server.fixed_scv * server.fixed**2 + server.per_record_scv * server.per_record**2
        return server.fixed + server.per_record, variance
    service = demand.at(allocation)
    return service.mean, service.variance


def _circle(operators: Mapping[str, OperatorModel]) -> Path:
    """A circle of operators, in the direction of the records; empty: there is none."""
    done: set[str] = set()

    def walk(trail: Path) -> Path:
        for above in operators[trail[-1]].inputs:
            if above in trail:
                return tuple(reversed(trail[trail.index(above) :]))
            if above not in done:
                found = walk((*trail, above))
                if found:
                    return found
        done.add(trail[-1])
        return ()

    for name in operators:
        if name not in done:
            found = walk((name,))
            if found:
                return found
    return ()
