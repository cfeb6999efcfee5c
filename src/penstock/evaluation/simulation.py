# SPDX-License-Identifier: Apache-2.0
"""A policy on a trace in the simulator: the loop's own cycle, operator by operator, under the simulation's clock.

The policy is the very object that runs on Spark, inside `loop.Cycle` with the monitor, guards and reconciler of a real
run. Only the ports behind them are simulated. What differs is handed in: demands are declared, and analyses are done
at once, remembered, and in force after the time that they really take.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from penstock._demand import declared_demand
from penstock.errors import ConfigurationError
from penstock.evaluation.followed_path import FollowedPath
from penstock.evaluation.path_objectives import path_objectives
from penstock.evaluation.policy_text import STATIC, PolicyChoice
from penstock.evaluation.simulation_result import SimulationResult, broken_share, path_result
from penstock.execute import Reconciler
from penstock.knowledge import MemoryStore
from penstock.loop import Cycle, CycleReport
from penstock.monitor import Monitor
from penstock.monitor.path import PathMonitor
from penstock.policies import make_policy
from penstock.ports import AnalysisMemo, AnalysisPlace, Guard, OperatorSite, Policy, PolicyContext, WatchingPolicy
from penstock.records import Allocation, Decision, Mode, Objective
from penstock.settings import tightest
from penstock.simulator import MicroBatch, Operator, OperatorPorts, Pipeline, Simulation
from penstock.topology import Path

VIOLATION_WINDOW_SECONDS = 10.0
INTERVAL_SECONDS = 1.0
"""How often the loop looks, as in a real run."""
MONITOR_WINDOW_SECONDS = 15.0
"""What rates and latencies are taken over, as in a real run."""
ANALYSIS_SECONDS = 5.0
"""What an analysis takes on two cores (benchmarks/mead_plan); the MEAD paper reports 25 to 40 s."""
_SETTLE_SECONDS = 90.0
_MOST_STEPS = 5e6


def simulate(
    times: npt.ArrayLike,
    pipeline: Pipeline,
    policy: Policy | PolicyChoice | None,
    objective: Objective | Mapping[Path, Objective],
    seed: int = 0,
    *,
    start: Mapping[str, Allocation] | None = None,
    guards: Sequence[Guard] = (),
    interval_seconds: float = INTERVAL_SECONDS,
    monitor_seconds: float = MONITOR_WINDOW_SECONDS,
    window_seconds: float = VIOLATION_WINDOW_SECONDS,
    analysis_seconds: float = ANALYSIS_SECONDS,
    memo: AnalysisMemo | None = None,
    progress: Callable[[float], None] | None = None,
    on_report: Callable[[CycleReport], None] | None = None,
    allow_impossible: bool = False,
) -> SimulationResult:
    """Run a policy on a trace.

    Parameters
    ----------
    times
        When records arrive, in seconds, rising; counted from the first.
    pipeline
        What they flow through.
    policy
        What decides: a policy by name and options, or an object; None: every operator keeps what it starts with.
    objective
        One for all paths, or one for each; an objective without a statistic is to keep up.
    seed
        Of the service times and selectivities: the same seed gives the same result.
    start
        Allocations at the start where they are not the top of the limits.
    guards
        Applied after the policy, beside the limits, as in a real run; none: policies are compared as they are.
    interval_seconds
        How often the loop looks.
    monitor_seconds
        What rates and latencies are taken over: the `window` of a settings file.
    window_seconds
        Length of the windows in which the objective is found broken or not.
    analysis_seconds
        How long after its start a policy's analysis is in force.
    memo
        What analyses found in other runs on the same trace.
    progress
        Called with the part that is done.
    on_report
        Called with what every look at an operator saw and did.
    allow_impossible
        Whether an objective is taken that nothing could keep, and found broken, instead of refused.

    Raises
    ------
    ConfigurationError
        The objective is impossible, times or seed are wrong, the policy cannot be built, or the trace lasts for
        millions of windows or looks.
    PolicyError
        The policy fails, or gives something else than a decision.
    """
    if not (math.isfinite(window_seconds) and window_seconds > 0):
        raise ConfigurationError(f"window_seconds: {window_seconds!r} must be a positive time", field="window_seconds")
    if not 0.0 <= analysis_seconds < math.inf:
        raise ConfigurationError(
            f"analysis_seconds: {analysis_seconds!r} must be zero or a positive time", field="analysis_seconds"
        )
    objectives = path_objectives(pipeline, objective, allow_impossible=allow_impossible)
    given = np.asarray(times, dtype=np.float64)
    since_first = given - given[0] if given.ndim == 1 and len(given) else given
    simulation = Simulation(pipeline, since_first, seed=seed, start=start)
    built: Policy | None = None
    if policy is not None:
        context = simulated_context(
            pipeline,
            objectives,
            AnalysisPlace("here", analysis_seconds, AnalysisMemo() if memo is None else memo),
            _exact_step(interval_seconds),
        )
        built = policy.build(context) if isinstance(policy, PolicyChoice) else make_policy(policy, context)
    run = _Run(
        simulation,
        objectives,
        built,
        tuple(guards),
        interval_seconds=interval_seconds,
        monitor_seconds=monitor_seconds,
        on_report=on_report,
    )
    _check_length(float(simulation.times[-1]), window_seconds, run.interval_seconds)
    try:
        run.to_the_end(progress)
    finally:
        if isinstance(built, WatchingPolicy):
            built.close()
    return run.result(seed, window_seconds)


def simulated_context(
    pipeline: Pipeline,
    objectives: Mapping[Path, Objective],
    analysis: AnalysisPlace,
    interval_seconds: float = INTERVAL_SECONDS,
) -> PolicyContext:
    """A simulated pipeline as a policy is introduced to it, with the demand of every operator declared."""
    return PolicyContext(
        pipeline.topology,
        {o.name: _site(o) for o in pipeline.order},
        objectives,
        analysis=analysis,
        interval_seconds=interval_seconds,
        round_trips=pipeline.round_trips,
    )


def _site(operator: Operator) -> OperatorSite:
    server = operator.server
    batch = server if isinstance(server, MicroBatch) else None
    return OperatorSite(
        limits=operator.limits,
        trigger_seconds=None if batch is None else batch.trigger,
        cap=None if batch is None else batch.cap,
        # What records cost that are taken one by one is learnt as in Spark's real-time mode, from CPU and arrivals.
        is_real_time=batch is None and not operator.demand_is_known,
        demand=declared_demand(server) if operator.demand_is_known else None,
        selectivity=operator.selectivity if operator.demand_is_known else None,
    )


class _Run:
    def __init__(
        self,
        simulation: Simulation,
        objectives: Mapping[Path, Objective],
        policy: Policy | None,
        guards: tuple[Guard, ...],
        *,
        interval_seconds: float,
        monitor_seconds: float,
        on_report: Callable[[CycleReport], None] | None,
    ) -> None:
        self._on_report = on_report
        self._monitor_seconds = monitor_seconds
        self._simulation = simulation
        self._objectives = objectives
        self._policy = policy
        self._changes: list[Decision] = []
        self._allocations = {name: [(0.0, state.asked)] for name, state in simulation.operators.items()}
        self._interval = math.inf if policy is None else _exact_step(interval_seconds)
        self._cycles = [] if policy is None else [self._cycle(name, policy, guards) for name in simulation.operators]

    @property
    def interval_seconds(self) -> float:
        """How often the loop looks; infinite where nothing decides."""
        return self._interval

    def _cycle(self, name: str, policy: Policy, guards: tuple[Guard, ...]) -> Cycle:
        operator = self._simulation.pipeline.by_name[name]
        # Rates need at least one look in their window.
        window = max(self._monitor_seconds, self._interval)
        ports = OperatorPorts(self._simulation, name, history_seconds=4.0 * window)
        ways = [path for path in self._simulation.records if path[-1] == name]
        # Where several paths meet, or one is the operator alone, there is no path of its own to follow.
        followed = FollowedPath(self._simulation, ways[0], window) if len(ways) == 1 and len(ways[0]) > 1 else None
        return Cycle(
            source=ports.source,
            # There is no JVM to warm up, and every look is as fresh as the next.
            monitor=Monitor(
                name,
                ports.arrival_times,
                window_seconds=window,
                warm_up_seconds=0.0,
                stale_after_seconds=2.0 * window,
                path=None if followed is None else PathMonitor(measured=followed, window_seconds=window),
            ),
            policy=policy,
            guards=guards,
            reconciler=Reconciler(
                name,
                ports.actuator,
                operator.limits,
                deadline_seconds=_SETTLE_SECONDS + 2.0 * max(operator.start_up_seconds, operator.standstill_seconds),
            ),
            store=MemoryStore(bound=100),
            limits=operator.limits,
            objective=tightest(self._objectives, name),
            mode=Mode.ACT,
            may_be_continued=False,
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
        if report.fault is not None:
            raise report.fault  # a run holds and goes on; who tries a policy wants to see where it fails
        if self._on_report is not None:
            self._on_report(report)
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
            violation_time_share=broken_share(paths, seconds, window_seconds),
            changes=tuple(self._changes),
            window_seconds=window_seconds,
            allocations={name: tuple(steps) for name, steps in self._allocations.items()},
            records_of=dict(simulation.records),
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
