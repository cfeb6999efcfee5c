# SPDX-License-Identifier: Apache-2.0
"""A settings file as the simulator takes it: the same file that `penstock run` runs, with the demand of every operator.

::

    name: log-analysis
    arrivals: {shape: "steps:60s@300,60s@1200,60s@300"}
    operators:
      - {name: parser, service: {distribution: erlang, phases: 2, mean: 2ms}, selectivity: 0.98}
      - {name: counter, input: parser, service: {distribution: exponential, mean: 1ms}}
      - {name: matcher, input: parser, micro_batch: {fixed: 200ms, per_record: 1ms}, trigger: 1s}
    objective: {p95: 500ms}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock._demand import declared_server
from penstock.errors import ConfigurationError
from penstock.evaluation.learnt_demand import LearntDemand
from penstock.plan.guards import guards_as_set
from penstock.ports import FloatArray, Guard
from penstock.records import Limits, Objective
from penstock.settings import OperatorSettings, RunSettings, parse_settings, read_settings
from penstock.settings.plain import plain_operators
from penstock.simulator import MicroBatch, Operator, Pipeline, Service
from penstock.topology import Path as PipelinePath

DEFAULT_CPU_SHARES = (0.4, 0.55, 0.7, 0.85, 1.0)
"""CPU shares of operators that set none, where several policies are compared: those of the MEAD paper (Sec. VII)."""

_DECLARE = (
    "what its records cost is not known; add `service: {distribution: exponential, mean: 1ms}` or "
    "`micro_batch: {fixed: 200ms, per_record: 1ms}`, or take what a run has learnt (--from RUN)"
)


@dataclass(frozen=True, eq=False, slots=True)
class PipelineSpec:
    """A pipeline that can be simulated.

    Attributes
    ----------
    settings
        As its file has them.
    servers
        The work of each operator's records.
    learnt
        The demand of an earlier run, for operators that do not declare one; None: all of it is declared.
    """

    settings: RunSettings
    servers: Mapping[str, Service | MicroBatch]
    learnt: LearntDemand | None = None

    @property
    def pipeline(self) -> Pipeline:
        """Operators and streams, with the usual CPU shares where an operator sets none."""
        return self.pipeline_with(DEFAULT_CPU_SHARES)

    def pipeline_with(self, cpu_shares: Sequence[float]) -> Pipeline:
        """Operators and streams; `cpu_shares` are of the operators that set none."""
        nodes = self.settings.nodes
        operators = tuple(self._operator(operator, tuple(cpu_shares)) for operator in self.settings.operators)
        round_trips = None if nodes is None else nodes.for_simulation()
        return Pipeline(operators, self.settings.topology.streams, self.settings.name, round_trips)

    def _operator(self, operator: OperatorSettings, cpu_shares: tuple[float, ...]) -> Operator:
        limits = Limits(operator.executors[0], operator.executors[1], operator.cpu_shares or cpu_shares)
        return Operator(
            operator.name,
            self.servers[operator.name],
            1.0 if operator.selectivity is None else operator.selectivity,
            limits if self.settings.nodes is None else self.settings.nodes.on(limits),
            operator.start_up,
            demand_is_known=operator.is_demand_declared,
            standstill_seconds=operator.standstill,
        )

    @property
    def objectives(self) -> dict[PipelinePath, Objective]:
        """Of every path; to keep up where there is no bound."""
        return self.settings.path_objectives()

    def arrival_times(self, records: int | None = None) -> tuple[str, FloatArray]:
        """The file's own arrivals, as a run would replay them: how they are called, and their times in seconds.

        Raises
        ------
        ConfigurationError
            The file has none, others send them, or they cannot be read.
        """
        from penstock.adaptors.replay.options import replay_arrivals

        given = self.settings.given_arrivals
        if given is None or not given.is_replayed:
            why = "is missing" if given is None else "what others send is not known beforehand"
            raise ConfigurationError(
                f"arrivals: {why}; give --trace FILE, or `arrivals` with a shape", field="arrivals"
            )
        try:
            replay = replay_arrivals(given.replay_options())
        except ConfigurationError as fault:
            raise ConfigurationError.of_all("arrivals", fault.faults) from fault
        most = replay.arrivals.total if records is None else min(records, replay.arrivals.total)
        name = given.shape if given.trace is None else given.trace.name
        return str(name), replay.arrivals.times(0, most) / replay.speed

    @property
    def guards(self) -> tuple[Guard, ...]:
        """Damping after the policy."""
        return guards_as_set(self.settings.guards)

    @property
    def demand_text(self) -> str:
        """Which demand is used for whom, in one line."""
        declared, hidden, learnt = list[str](), list[str](), list[str]()
        for operator in self.settings.operators:
            if operator.is_demand_declared:
                declared.append(operator.name)
            elif self.learnt is None:
                hidden.append(operator.name)
            else:
                learnt.append(f"{operator.name} ({self.learnt.text(operator)})")
        parts = [
            f"declared for {', '.join(declared)}" if declared else "",
            f"declared, and left to policies to learn, for {', '.join(hidden)}" if hidden else "",
            f"learnt in {self.learnt.run} for {', '.join(learnt)}" if self.learnt is not None and learnt else "",
        ]
        return "demand: " + "; ".join(part for part in parts if part)


def load_pipeline(path: Path, *, learnt: LearntDemand | None = None) -> PipelineSpec:
    """Read a settings file to simulate it; a wrong one raises ConfigurationError with every mistake."""
    return parse_pipeline(read_settings(path), str(path), folder=path.absolute().parent, learnt=learnt)


def parse_pipeline(
    data: object, where: str = "pipeline", *, folder: Path | None = None, learnt: LearntDemand | None = None
) -> PipelineSpec:
    """A pipeline to simulate out of plain data.

    Parameters
    ----------
    data, where, folder
        As of `parse_settings`.
    learnt
        Takes the place of a demand that is not declared, or that is to be learnt.

    Raises
    ------
    ConfigurationError
        With every mistake; among them each operator whose demand is not known.
    """
    try:
        settings = parse_settings(data, where, folder)
    except ConfigurationError as fault:
        bare = [(i, o) for i, o in plain_operators(data) if o.get("service") is None and o.get("micro_batch") is None]
        undeclared = [f"operators.{i}: {_DECLARE}" for i, _ in bare if learnt is None]
        raise ConfigurationError.of_all(where, [*fault.faults, *undeclared]) from fault
    servers: dict[str, Service | MicroBatch] = {}
    faults: list[str] = []
    for i, operator in enumerate(settings.operators):
        try:
            server = _server(operator, learnt)
        except ConfigurationError as fault:
            faults.append(f"operators.{i}.service: {fault}")
            continue
        if server is not None:
            servers[operator.name] = server
        elif learnt is None:
            faults.append(f"operators.{i}: {_DECLARE}")
        else:
            faults.append(
                f"operators.{i}: {learnt.run} has learnt no demand for {operator.name}; declare `service` or "
                "`micro_batch`, or take a run under a policy that learns, such as mead"
            )
    if faults:
        raise ConfigurationError.of_all(where, faults)
    return PipelineSpec(settings, servers, learnt)


def _server(operator: OperatorSettings, learnt: LearntDemand | None) -> Service | MicroBatch | None:
    if learnt is None or operator.is_demand_declared:
        return declared_server(operator)
    return learnt.server(operator)
