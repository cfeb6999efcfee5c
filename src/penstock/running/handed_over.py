# SPDX-License-Identifier: Apache-2.0
"""A run whose sizes a master decides: it keeps its processes, its history and its limits, and does what it is asked.

In the run stands a policy that passes every look on to the master, through the agent that attached queries have, and
whose answer is what the master asked for last.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock._wiring import sendable_options
from penstock.adaptors.agent.arrival_report import Reported
from penstock.adaptors.agent.link import MasterLink
from penstock.adaptors.agent.master_address import MasterAddress
from penstock.adaptors.agent.meters import Meters
from penstock.adaptors.agent.server import OperatorAgent
from penstock.errors import ActuationRejectedError, ConfigurationError, MetricSourceError
from penstock.loop import Cycle
from penstock.ports import Look
from penstock.records import Action, Allocation, BatchProgress, Decision, Limits, PlanRequest, Telemetry, new_id
from penstock.running.pipeline_run import StartedRun
from penstock.running.policy_choice import policy_context, with_policy
from penstock.settings import RunSettings
from penstock.settings.objectives import objective_settings

_OF_PIPELINE = {"name", "mode", "interval", "window", "warm_up", "guards", "prices"}
_OF_OPERATOR = {"name", "executors", "cpu_shares", "trigger"}
_METRICS = frozenset({"heap_used", "executor_heap_peak", "gc_time", "task_skew", "state_rows", "state_memory"})
"""What the operator's agent measures besides, where somebody wants it: rules in the master may."""
_MOST_BATCHES, _MOST_FAULTS = 10_000, 100


class HandedOver:
    """Decides as a master asks (a `ports.WatchingPolicy` and `ports.SubscribingPolicy` of a run with one operator).

    Until a master has asked for something, and after it was lost, the operator keeps what it has; CPU shares are opened
    when a master that has acted is silent for five seconds.

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
        self._near = _NearSide()
        self._agent: OperatorAgent | None = None
        self._link: MasterLink | None = None

    @property
    def connected_to(self) -> str | None:
        """The master that decides now; None: none does."""
        return None if self._link is None else self._link.connected_to

    @property
    def own_settings(self) -> RunSettings:
        """The settings for the run's own loop: without guards, which the master holds to."""
        return self._settings.model_copy(update={"guards": None})

    def before(self, then: Callable[[StartedRun], None] | None) -> Callable[[StartedRun], None]:
        """What a run calls when its operators are there: `begin`, and `then` whoever else wants to know."""

        def started(run: StartedRun) -> None:
            self.begin(run.cycles[self._settings.operators[0].name])
            if then is not None:
                then(run)

        return started

    def __enter__(self) -> HandedOver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin(self, cycle: Cycle) -> None:
        """Connect to the masters; the operator is there."""
        self._near.limits = cycle.limits
        times = cycle.monitor.arrival_times
        meters = Meters()
        meters.add_known(_METRICS, self._near.read_metrics)
        operator = self._settings.operators[0].name
        self._agent = OperatorAgent(
            operator, self._near, self._near, meters=meters, arrivals=times, on_stop=_never_stop
        ).start()
        known = settings_for_master(self._settings, cycle.limits, Reported.by(times))
        self._link = MasterLink(self._agent, self._address, self._settings.name, settings=json.dumps(known)).start()

    def watch(self, look: Look) -> tuple[str, ...]:
        """Pass a look on."""
        self._near.saw(look.telemetry)
        return ()

    def plan(self, request: PlanRequest) -> Decision:
        """What the master asked for last; before that, what the operator has."""
        asked, place = self._near.asked, self.connected_to
        who = f"the master at {place}" if place is not None else "the master, which is not connected now,"
        if asked is None:
            fault = None if self._link is None else self._link.fault
            reason = f"{who} has not asked for another size" if place is not None else f"no master decides: {fault}"
            return self._decision(request, request.current, reason)
        evidence = {} if asked.decision_id is None else {"decision_of_the_master": asked.decision_id}
        return self._decision(request, asked.target, f"{who} asked for {asked.target}", evidence)

    def close(self) -> None:
        """Take leave of the master. May be called twice."""
        link, agent, self._link, self._agent = self._link, self._agent, None, None
        if link is not None:
            link.close("the run has ended")
        if agent is not None:
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
    """The operator as the agent of a run has it: looks that the loop took, and wishes that the loop carries out."""

    def __init__(self) -> None:
        self.limits = Limits(1, 1)
        self.asked: _Asked | None = None
        self._lock = threading.Lock()
        self._newest: Telemetry | None = None
        self._batches: deque[BatchProgress] = deque(maxlen=_MOST_BATCHES)
        self._faults: deque[str] = deque(maxlen=_MOST_FAULTS)

    # --- measures ---------------------------------------------------------------------------------------------

    def saw(self, telemetry: Telemetry) -> None:
        """Take in a look of the run's loop."""
        with self._lock:
            self._newest = telemetry
            self._batches.extend(telemetry.batches)
            self._faults.extend(telemetry.faults)

    def collect(self) -> Telemetry:
        """What the loop has seen since the last call; raises MetricSourceError before its first look."""
        with self._lock:
            newest, batches, faults = self._newest, tuple(self._batches), tuple(self._faults)
            if newest is None:
                raise MetricSourceError("the run has not looked at its operator yet", target="run", retryable=True)
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
    first = settings.operators[0]
    why = None
    if len(settings.operators) > 1:
        why = "a master decides for one operator, and the objective of a pipeline needs all of them"
    elif first.is_real_time:
        why = "a query in real-time mode is not scaled"
    elif first.sizes:
        why = "a master does not choose among `sizes`"
    elif settings.nodes is not None or settings.cluster.geo is not None:
        why = "a master does not choose nodes"
    elif "samples" in settings.policy.all_options:
        why = "a file of samples is not sent"
    if why is not None:
        raise ConfigurationError(f"--master: {why}; leave --master out", field="--master")


def settings_for_master(settings: RunSettings, limits: Limits, arrivals: Reported) -> dict[str, Any]:
    """The run as a master is introduced to it."""
    operator = settings.operators[0]
    site = policy_context(settings).operators[operator.name]
    plain = settings.model_dump(mode="json", include=_OF_PIPELINE)
    return {
        **plain,
        "objective": objective_settings(settings.objective_of(operator.name)),
        "operators": [
            {
                **operator.model_dump(mode="json", include=_OF_OPERATOR),
                "executors": [limits.min_executors, limits.max_executors],
                "cpu_shares": list(limits.cpu_shares),
            }
        ],
        "policy": {"name": settings.policy.name, "options": sendable_options(settings.policy.all_options)},
        "cores_per_executor": operator.executor_cores,
        "cap": site.cap,
        "plan": site.query,
        "arrivals": arrivals,
        "query_run": new_id(),
    }


def _never_stop() -> None:
    raise ActuationRejectedError("a run is not ended by its master")
