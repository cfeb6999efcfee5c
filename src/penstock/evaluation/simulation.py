# SPDX-License-Identifier: Apache-2.0
"""A policy on a trace in the simulator: the loop's own cycle, operator by operator, under the simulation's clock.

`Policy` decides for one operator, `PipelinePolicy` for all at once. Both run inside `loop.Cycle` with the monitor,
guards and reconciler of a real run; only the ports behind them are simulated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from penstock.errors import ConfigurationError
from penstock.evaluation.path_objectives import path_objectives
from penstock.evaluation.pipeline_policy import AskedTogether, OneOfAll, PipelinePolicy, PipelineView
from penstock.evaluation.simulation_result import SimulationResult, path_result, time_share
from penstock.execute import Reconciler
from penstock.knowledge import MemoryStore
from penstock.loop import Cycle
from penstock.monitor import Monitor
from penstock.ports import Guard, Policy
from penstock.records import Allocation, Decision, Mode, Objective, Observation
from penstock.simulator import OperatorPorts, Pipeline, Simulation
from penstock.topology import Path

__all__ = ["PipelinePolicy", "PipelineView", "SimulationResult", "simulate"]

VIOLATION_WINDOW_SECONDS = 10.0
STATIC = "static"
_SETTLE_SECONDS = 90.0
_MOST_STEPS = 5e6


def simulate(
    times: npt.ArrayLike,
    pipeline: Pipeline,
    policy: Policy | PipelinePolicy | None,
    objective: Objective | Mapping[Path, Objective],
    seed: int = 0,
    *,
    start: Mapping[str, Allocation] | None = None,
    guards: Sequence[Guard] = (),
    interval_seconds: float | None = None,
    window_seconds: float = VIOLATION_WINDOW_SECONDS,
    progress: Callable[[float], None] | None = None,
) -> SimulationResult:
    """Run a policy on a trace.

    Parameters
    ----------
    times
        When records arrive, in seconds, rising; counted from the first.
    pipeline
        What they flow through.
    policy
        What decides; None: nothing does, every operator keeps what it starts with.
    objective
        One for all paths, or one for each.
    seed
        Of the service times and selectivities: the same seed, the same result.
    start
        Allocations at the start where they are not the top of the limits.
    guards
        Applied after the policy, beside the limits, as in a real run; none: policies are compared as they are.
    interval_seconds
        How often the loop looks; default: as often as the policy wants to be asked.
    window_seconds
        Length of the windows in which the objective is found broken or not.
    progress
        Hears which part is done.

    Raises
    ------
    ConfigurationError
        The objective is missing on a path or impossible, times or seed are wrong, or the trace lasts for millions of
        windows or looks.
    """
    if not (math.isfinite(window_seconds) and window_seconds > 0):
        raise ConfigurationError(f"window_seconds: {window_seconds!r} must be a positive time", field="window_seconds")
    objectives = path_objectives(pipeline, objective)
    given = np.asarray(times, dtype=np.float64)
    since_first = given - given[0] if given.ndim == 1 and len(given) else given
    simulation = Simulation(pipeline, since_first, seed=seed, start=start)
    run = _Run(simulation, objectives, policy, tuple(guards), interval_seconds)
    _check_length(float(simulation.times[-1]), window_seconds, run.interval_seconds)
    run.to_the_end(progress)
    return run.result(seed, window_seconds)


class _Run:
    def __init__(
        self,
        simulation: Simulation,
        objectives: Mapping[Path, Objective],
        policy: Policy | PipelinePolicy | None,
        guards: tuple[Guard, ...],
        interval_seconds: float | None,
    ) -> None:
        self._simulation = simulation
        self._objectives = objectives
        self._policy = policy
        self._changes: list[Decision] = []
        self._allocations = {name: [(0.0, state.asked)] for name, state in simulation.operators.items()}
        self._cycles: list[Cycle] = []
        self._interval = math.inf
        if policy is None:
            return
        self._interval = _exact_step(policy.every_seconds if interval_seconds is None else interval_seconds)
        shared = AskedTogether(policy, self.view) if isinstance(policy, PipelinePolicy) else None
        self.observations: dict[str, Observation] = {}
        for name in simulation.operators:
            chosen = policy if shared is None else OneOfAll(shared, name)
            assert not isinstance(chosen, PipelinePolicy)
            self._cycles.append(self._cycle(name, chosen, guards))

    @property
    def interval_seconds(self) -> float:
        """How often the loop looks; infinite where nothing decides."""
        return self._interval

    def _cycle(self, name: str, policy: Policy, guards: tuple[Guard, ...]) -> Cycle:
        limits = self._simulation.pipeline.by_name[name].limits
        ports = OperatorPorts(self._simulation, name, history_seconds=4.0 * self._interval)
        start_up = self._simulation.pipeline.by_name[name].start_up_seconds
        return Cycle(
            source=ports.source,
            # There is no JVM to warm up, and every look is as fresh as the next.
            monitor=Monitor(name, ports.arrival_times, window_seconds=self._interval, warm_up_seconds=0.0),
            policy=policy,
            guards=guards,
            reconciler=Reconciler(name, ports.actuator, limits, deadline_seconds=_SETTLE_SECONDS + 2.0 * start_up),
            store=MemoryStore(bound=100),
            limits=limits,
            objective=self._objective_at(name),
            mode=Mode.ACT,
        )

    def _objective_at(self, name: str) -> Objective:
        """The tightest of those of the paths through an operator: what it alone takes longer than breaks them."""
        return min((o for path, o in self._objectives.items() if name in path), key=lambda o: o.seconds or math.inf)

    def view(self, at: float) -> PipelineView:
        """What a policy for the whole pipeline sees now."""
        simulation = self._simulation
        return PipelineView(
            at=at,
            arrivals=simulation.times[: simulation.arrived],
            pipeline=simulation.pipeline,
            objectives=self._objectives,
            current={name: state.asked for name, state in simulation.operators.items()},
            limits={o.name: o.limits for o in simulation.pipeline.order},
            observations=dict(self.observations),
            backlog_records={name: state.arrived - state.done for name, state in simulation.operators.items()},
        )

    def to_the_end(self, progress: Callable[[float], None] | None) -> None:
        """Run until every record is done; the policy goes on deciding while the last ones drain."""
        simulation = self._simulation
        last = float(simulation.times[-1])
        if not self._cycles:
            simulation.finish()
        simulation.advance(simulation.now())  # what arrives at time zero is there at the first look
        while self._cycles and not simulation.is_done:
            now = simulation.now()
            for cycle in self._cycles:
                self._take(cycle, now)
            simulation.advance(now + self._interval)
            if progress is not None:
                progress(min(1.0, simulation.now() / last) if last > 0 else 1.0)
        if progress is not None:
            progress(1.0)

    def _take(self, cycle: Cycle, now: float) -> None:
        report = cycle.run_once(now)
        self.observations[cycle.operator] = report.observation
        if report.decision is not None and report.decision.is_change:
            self._changes.append(report.decision)
        if report.action is not None:
            self._allocations[cycle.operator].append((now, report.action.target))

    def result(self, seed: int, window_seconds: float) -> SimulationResult:
        """Account for the run, from the first arrival to the last record's end."""
        simulation = self._simulation
        ends = [float(path.ended[-1][-1]) for path in simulation.records.values() if path.ended]
        # What was dropped on its way came to no path's end: then to the last look.
        seconds = max(ends) if ends else simulation.now()
        seconds = max(seconds, float(simulation.times[-1]))
        paths = tuple(
            path_result(path, self._objectives[path], records, seconds, window_seconds)
            for path, records in simulation.records.items()
        )
        broken = np.logical_or.reduce([path.is_broken for path in paths])
        executor_seconds, capacity_seconds, shares = 0.0, 0.0, {}
        for name, state in simulation.operators.items():
            executors, capacity = state.used(seconds)
            executor_seconds += executors
            capacity_seconds += capacity
            shares[name] = capacity / executors if executors > 0 else state.asked.cpu_share
        static = seconds * sum(o.limits.top.capacity for o in simulation.pipeline.operators)
        mean = capacity_seconds / executor_seconds if executor_seconds > 0 else float(np.mean(list(shares.values())))
        return SimulationResult(
            policy=STATIC if self._policy is None else self._policy.name,
            seed=seed,
            seconds=seconds,
            records=len(simulation.times),
            paths=paths,
            cpu_share=shares,
            cpu_share_mean=mean,
            capacity_seconds=capacity_seconds,
            static_capacity_seconds=static,
            violation_time_share=time_share(broken, seconds, window_seconds),
            changes=tuple(self._changes),
            window_seconds=window_seconds,
            allocations={name: tuple(steps) for name, steps in self._allocations.items()},
        )


def _check_length(seconds: float, window_seconds: float, interval_seconds: float) -> None:
    """Refuse what would take days, which most often is a trace in another unit than was thought."""
    for what, length in (("windows", window_seconds), ("looks", interval_seconds)):
        if seconds / length > _MOST_STEPS:
            raise ConfigurationError(
                f"times: the trace lasts {seconds:.4g} s, that is {seconds / length:.2g} {what} of {length:g} s; "
                "check the unit of its times, or take a part of it",
                field="times",
            )


def _exact_step(seconds: float) -> float:
    """The interval rounded up to 31 binary digits, so that its multiples and their differences are exact.

    The monitor's windows are one interval long: a look that rounding made late by one bit would fall out of them.
    """
    if not (math.isfinite(seconds) and seconds > 0):
        raise ConfigurationError(f"interval_seconds: {seconds!r} must be a positive time", field="interval_seconds")
    unit = 2.0 ** (math.frexp(seconds)[1] - 31)
    return math.ceil(seconds / unit) * unit
