# SPDX-License-Identifier: Apache-2.0
"""A run whose sizes a master decides: it keeps its processes, its history and its limits, and does what it is asked.

In the run stands a policy that passes every look on to the master, through the agents that attached queries have, one
for each operator, and whose answer is what the master asked for last.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock._wiring import sendable_options
from penstock.adaptors.agent.agent_names import agent_name
from penstock.adaptors.agent.arrival_report import Reported
from penstock.adaptors.agent.followed_path import PathReport
from penstock.adaptors.agent.link import MasterLink
from penstock.adaptors.agent.master_address import MasterAddress
from penstock.adaptors.agent.meters import Meters
from penstock.adaptors.agent.server import HeardFence, OperatorAgent
from penstock.errors import ActuationRejectedError, ConfigurationError, MetricSourceError
from penstock.loop import Cycle
from penstock.ports import Look
from penstock.records import Action, Allocation, BatchProgress, Decision, Limits, PlanRequest, Telemetry, new_id
from penstock.running.pipeline_run import StartedRun
from penstock.running.policy_choice import policy_context, with_policy
from penstock.settings import RunSettings

_OF_PIPELINE = {"name", "mode", "objective", "objectives", "interval", "window", "warm_up", "guards", "prices"}
_OF_OPERATOR = {"name", "trigger"}
_METRICS = frozenset({"heap_used", "executor_heap_peak", "gc_time", "task_skew", "state_rows", "state_memory"})
"""What the operator's agent measures besides, where somebody wants it: rules in the master may."""
_MOST_BATCHES, _MOST_FAULTS = 10_000, 100
_UNSEEN_LOOKS, _LEAST_UNSEEN_SECONDS = 3, 10.0
"""After so many looks that failed, and so long at least, the master is told that the run does not see an operator."""


class HandedOver:
    """Decides as a master asks (a `ports.WatchingPolicy` and `ports.SubscribingPolicy`).

    Until a master has asked for something, and after it was lost, operators keep what they have; CPU shares are opened
    when a master that has acted is silent for five seconds. What one operator's agent has heard of the fencing number
    holds for all.

    Parameters
    ----------
    settings
        Of the run; `check_handed_over` takes them.
    address
        Where the masters are.
    """

    name = "master"
    metrics = _METRICS

    def __init__(self, settings: RunSettings, address: MasterAddress) -> None:
        check_handed_over(settings)
        self._settings, self._address = with_policy(settings), address
        self.every_seconds = settings.interval
        unseen = max(_LEAST_UNSEEN_SECONDS, _UNSEEN_LOOKS * settings.interval)
        self._near = {operator.name: _NearSide(operator.name, unseen) for operator in settings.operators}
        self._agents: list[OperatorAgent] = []
        self._links: dict[str, MasterLink] = {}

    @property
    def connected_to(self) -> str | None:
        """The master that decides now for all operators; None: none does."""
        places = {link.connected_to for link in self._links.values()}
        return places.pop() if len(places) == 1 else None

    @property
    def own_settings(self) -> RunSettings:
        """The settings for the run's own loop: without guards, which the master holds to."""
        return self._settings.model_copy(update={"guards": None})

    def before(self, then: Callable[[StartedRun], None] | None) -> Callable[[StartedRun], None]:
        """What a run calls when its operators are there: `begin`, and `then` whoever else wants to know."""

        def started(run: StartedRun) -> None:
            self.begin(run.cycles, run.tasks)
            if then is not None:
                then(run)

        return started

    def __enter__(self) -> HandedOver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin(self, cycles: Mapping[str, Cycle], tasks: Mapping[str, int | None] | None = None) -> None:
        """Connect to the masters; the operators are there. `tasks`: how many read each operator's records."""
        known = json.dumps(settings_for_master(self._settings, cycles, tasks or {}))
        heard = HeardFence()
        for operator, cycle in cycles.items():
            near = self._near[operator]
            near.limits = cycle.limits
            meters = Meters()
            meters.add_known(_METRICS, near.read_metrics)
            agent = OperatorAgent(
                operator,
                near,
                near,
                meters=meters,
                arrivals=cycle.monitor.arrival_times,
                path=near.path,
                on_stop=_never_stop,
                heard=heard,
            ).start()
            self._agents.append(agent)
            name = agent_name(self._settings.name, operator, len(cycles))
            self._links[operator] = MasterLink(agent, self._address, name, settings=known).start()

    def watch(self, look: Look) -> tuple[str, ...]:
        """Pass a look on."""
        self._near[look.operator].saw(look)
        return ()

    def plan(self, request: PlanRequest) -> Decision:
        """What the master asked for last; before that, what the operator has."""
        asked, link = self._near[request.operator].asked, self._links.get(request.operator)
        place = None if link is None else link.connected_to
        who = f"the master at {place}" if place is not None else "the master, which is not connected now,"
        if asked is None:
            fault = None if link is None else link.fault
            reason = f"{who} has not asked for another size" if place is not None else f"no master decides: {fault}"
            return self._decision(request, request.current, reason)
        evidence = {} if asked.decision_id is None else {"decision_of_the_master": asked.decision_id}
        return self._decision(request, asked.target, f"{who} asked for {asked.target}", evidence)

    def close(self) -> None:
        """Take leave of the master. May be called twice."""
        links, agents, self._links, self._agents = self._links, self._agents, {}, []
        for link in links.values():
            link.close("the run has ended")
        for agent in agents:
            agent.close()

    def _decision(
        self, request: PlanRequest, target: Allocation, reason: str, evidence: Mapping[str, str] | None = None
    ) -> Decision:
        return Decision(
            operator=request.operator,
            at=request.at,
            policy=self.name,
            current=request.current,
            target=target,
            reason=reason,
            evidence=dict(evidence or {}),
        )


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a master asked for last."""

    target: Allocation
    decision_id: str | None


class _NearSide:
    """An operator as its agent in a run has it: looks that the loop took, and wishes that the loop carries out.

    Parameters
    ----------
    operator
        Its name.
    unseen_seconds
        How old the newest look may be.
    """

    def __init__(self, operator: str = "operator", unseen_seconds: float = _LEAST_UNSEEN_SECONDS) -> None:
        self._operator, self._unseen_seconds = operator, unseen_seconds
        self.limits = Limits(1, 1)
        self.path = PathReport()
        self._seen_at = -math.inf
        self.asked: _Asked | None = None
        self._lock = threading.Lock()
        self._newest: Telemetry | None = None
        self._batches: deque[BatchProgress] = deque(maxlen=_MOST_BATCHES)
        self._faults: deque[str] = deque(maxlen=_MOST_FAULTS)

    # --- measures ---------------------------------------------------------------------------------------------

    def saw(self, look: Look) -> None:
        """Take in a look of the run's loop."""
        telemetry = look.telemetry
        self.path.add(look.path_done)
        with self._lock:
            self._newest, self._seen_at = telemetry, time.monotonic()
            self._batches.extend(telemetry.batches)
            self._faults.extend(telemetry.faults)

    def collect(self) -> Telemetry:
        """What the loop has seen since the last call; raises MetricSourceError where it does not see the operator."""
        with self._lock:
            newest, batches, faults = self._newest, tuple(self._batches), tuple(self._faults)
            if newest is None:
                raise MetricSourceError(
                    f"the run has not looked at {self._operator} yet", target=self._operator, retryable=True
                )
            if (age := time.monotonic() - self._seen_at) > self._unseen_seconds:
                raise MetricSourceError(
                    f"the run has not seen {self._operator} for {age:.0f} s", target=self._operator, retryable=True
                )
            self._batches.clear()
            self._faults.clear()
        return replace(newest, batches=batches, faults=faults)

    def read_metrics(self) -> dict[str, float | None]:
        """The newest of what the operator's own agent reports."""
        newest = self._newest
        return {name: None if newest is None else newest.metrics.get(name) for name in _METRICS}

    # --- acts -------------------------------------------------------------------------------------------------

    @property
    def can_set_cpu_share(self) -> bool:
        """Whether the run can: its limits say so, where they leave a choice."""
        return self.limits.cpu_shares != (1.0,)

    def request(self, action: Action) -> None:
        """Have the loop ask for an allocation; raises ActuationRejectedError where the limits forbid it."""
        target, limits = action.target, self.limits
        is_allowed = limits.min_executors <= target.executors <= limits.max_executors
        if not is_allowed or target.cpu_share not in limits.cpu_shares or target.size is not None:
            raise ActuationRejectedError(
                f"{target} is beyond the limits of the run", target="run", request_id=action.request_id
            )
        self.asked = _Asked(target, action.decision_id)

    def release(self) -> None:
        """Want nothing any more."""
        self.asked = None

    def open_shares(self) -> None:
        """Lift the CPU cap, and keep the executors."""
        asked = self.asked
        if asked is not None:
            self.asked = replace(asked, target=replace(asked.target, cpu_share=self.limits.top.cpu_share))


def check_handed_over(settings: RunSettings) -> None:
    """Refuse a run that a master cannot decide for.

    Raises
    ------
    ConfigurationError
        With the fix.
    """
    why = None
    if any(operator.is_real_time for operator in settings.operators):
        why = "a query in real-time mode is not scaled"
    elif any(operator.sizes for operator in settings.operators):
        why = "a master does not choose among `sizes`"
    elif settings.nodes is not None or settings.cluster.geo is not None:
        why = "a master does not choose nodes"
    elif "samples" in settings.policy.all_options:
        why = "a file of samples is not sent"
    if why is not None:
        raise ConfigurationError(f"--master: {why}; leave --master out", field="--master")


def settings_for_master(
    settings: RunSettings, cycles: Mapping[str, Cycle], tasks: Mapping[str, int | None]
) -> dict[str, Any]:
    """The run as a master is introduced to it, the same by the agents of all operators."""
    sites = policy_context(settings).operators
    return {
        **settings.model_dump(mode="json", include=_OF_PIPELINE),
        "operators": [
            {
                **operator.model_dump(mode="json", include=_OF_OPERATOR),
                "input": operator.input,
                "executors": [cycle.limits.min_executors, cycle.limits.max_executors],
                "cpu_shares": list(cycle.limits.cpu_shares),
                "cores_per_executor": operator.executor_cores,
                "cap": sites[operator.name].cap,
                "tasks": tasks.get(operator.name),
                "plan": sites[operator.name].query,
                "arrivals": Reported.by(cycle.monitor.arrival_times),
                "follows_path": cycle.monitor.path is not None,
            }
            for operator in settings.operators
            for cycle in (cycles[operator.name],)
        ],
        "policy": {"name": settings.policy.name, "options": sendable_options(settings.policy.all_options)},
        "query_run": new_id(),
    }


def _never_stop() -> None:
    raise ActuationRejectedError("a run is not ended by its master")
