# SPDX-License-Identifier: Apache-2.0
"""A pipeline as the queueing models see it: operators with their demands, streams, and a bound for each path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from scipy.special import gammaincinv

from penstock.errors import ConfigurationError
from penstock.performance.demand import BatchDemand, Demand
from penstock.records import Allocation, Objective
from penstock.topology import ARRIVALS, Path, Stream, Topology, check_selectivity, path_text
from penstock.units import format_seconds

_PERCENTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True, slots=True)
class OperatorModel:
    """One operator.

    Parameters
    ----------
    name
        Its name.
    demand
        What its records ask of one executor at full share. The type of the demand decides how they are served: one by
        one (`RecordDemand`, real-time mode) or in micro-batches (`BatchDemand`).
    inputs
        What it reads from: names of operators, or streams, which may have a selectivity of their own. An operator
        without inputs reads the arrivals.
    selectivity
        Records that it gives to each reader for one that it takes.
    """

    name: str
    demand: Demand
    inputs: tuple[str | Stream, ...] = ()
    selectivity: float = 1.0

    def __post_init__(self) -> None:
        check_selectivity(f"operator {self.name}", self.selectivity)
        wrong = [str(s) for s in self.inputs if isinstance(s, Stream) and s.target != self.name]
        if wrong:
            raise ConfigurationError(
                f"{self.name}.inputs: {', '.join(wrong)} leads to another operator; give streams into {self.name}",
                field="inputs",
            )

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The streams into it."""
        return tuple(s if isinstance(s, Stream) else Stream(s, self.name) for s in self.inputs or (ARRIVALS,))


@dataclass(frozen=True, eq=False)
class PipelineModel:
    """Operators that form a graph without cycles, and an objective for every path from the source to a sink.

    Parameters
    ----------
    operators
        In any order.
    objectives
        One for all paths, or one for each path.

    Raises
    ------
    ConfigurationError
        If there is a cycle, an unknown or repeated name, or a path without an objective. The message lists every
        fault.

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
    topology: Topology = field(init=False, repr=False)
    _by_name: dict[str, OperatorModel] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        names = tuple(operator.name for operator in self.operators)
        streams = tuple(stream for operator in self.operators for stream in operator.streams)
        object.__setattr__(self, "topology", Topology(names, streams))
        object.__setattr__(self, "_by_name", {operator.name: operator for operator in self.operators})
        faults = self._objective_faults()
        if faults:
            raise ConfigurationError.of_all("pipeline", faults)

    @property
    def order(self) -> tuple[str, ...]:
        """The operators' names, each after those it reads from, else in the order given."""
        return self.topology.order

    @property
    def paths(self) -> tuple[Path, ...]:
        """Every path from the source to an operator that nobody reads from."""
        return self.topology.paths

    @cached_property
    def visits(self) -> dict[str, float]:
        """Records that each operator takes for one that arrives at the source."""
        return self.topology.visits({operator.name: operator.selectivity for operator in self.operators})

    def operator(self, name: str) -> OperatorModel:
        """The operator with this name."""
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
        """The probability whose quantile a path's objective bounds; None if it bounds the mean."""
        return _PERCENTILES.get(str(self.objective(path).statistic))

    def require_possible(self, share: float = 1.0) -> None:
        """Refuse bounds below what a single record takes without any waiting, at the highest share.

        Raises
        ------
        ConfigurationError
            Names the impossible paths, and the least time that each takes.
        """
        faults = []
        for path in self.paths:
            least, bound = self._least_seconds(path, share), self.bound(path)
            if least > bound:
                faults.append(
                    f"objective of {path_text(path)}: {self.objective(path).statistic} within {format_seconds(bound)} "
                    f"is impossible: serving alone takes {format_seconds(least)} at {share:.0%} CPU, without any "
                    "waiting; raise the bound, or make the operators faster"
                )
        if faults:
            raise ConfigurationError.of_all("pipeline", faults)

    def _least_seconds(self, path: Path, share: float) -> float:
        """The objective's statistic of the serving times along a path; a batch holds at least one record."""
        probability = self.probability(path)
        moments = [_serving(self._by_name[name].demand, Allocation(1, share)) for name in path]
        mean, variance = sum(m for m, _ in moments), sum(v for _, v in moments)
        if probability is None or variance == 0.0:
            return mean
        # A gamma distribution of the same mean and variance: exact for one Erlang or exponential time, close for sums.
        return float(gammaincinv(mean**2 / variance, probability)) * variance / mean

    def _objective_faults(self) -> list[str]:
        paths, faults = self.paths, []
        if not isinstance(self.objectives, Objective):
            faults += [
                f"path {path_text(path)} has no objective; give it one" for path in paths if path not in self.objectives
            ]
            known = "; ".join(path_text(path) for path in paths)
            faults += [
                f"objective of {path_text(path)}: there is no such path; the paths are: {known}"
                for path in self.objectives
                if path not in paths
            ]
        if not faults and any(self.objective(path).statistic is None for path in paths):
            faults.append(
                'objective: give a latency bound, such as p95 = "2s"; without a bound there is nothing to plan for'
            )
        return faults


def _serving(demand: Demand, allocation: Allocation) -> tuple[float, float]:
    """Mean and variance of the time in which a single record is served."""
    if isinstance(demand, BatchDemand):
        server = demand.at(allocation)
        variance = server.fixed_scv * server.fixed**2 + server.per_record_scv * server.per_record**2
        return server.fixed + server.per_record, variance
    service = demand.at(allocation)
    return service.mean, service.variance
