# SPDX-License-Identifier: Apache-2.0
"""The load of a recorded run, to predict with: what its records cost, how they were served, and when they arrived.

Demand, in this order: what the run's policy has learnt; what its settings declare; what its observations show, whose
mean batch times and records lie on the same line f + c n as single batches do.

Arrivals, in this order: those that the run replayed, which are exact; counts of arrivals from look to look; and the
arrival rate over the monitor's window. What is counted is spread at random between two looks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from pydantic import ValidationError

from penstock._demand import declared_demand, declared_server
from penstock.errors import ConfigurationError, NotReadyError
from penstock.evaluation.history import RunHistory
from penstock.evaluation.learnt_demand import learnt_demand
from penstock.evaluation.run_reading import read_history
from penstock.performance.demand import BatchDemand, Demand, RecordDemand
from penstock.performance.demand_learning import BatchDemandLearner
from penstock.ports import FloatArray, KnowledgeStore
from penstock.records import Limits, Objective, Observation
from penstock.settings import ArrivalsSettings, OperatorSettings
from penstock.settings.plain import plain_inputs
from penstock.topology import ARRIVALS
from penstock.units import format_seconds

_KEPT = ("name", "executors", "cpu_shares", "executor_cores", "trigger", "micro_batch", "service")
_LEAST_RECORDS = 512
"""Arrivals below which nothing can be said about bursts."""
_LEAST_WINDOWS = 12
"""Windows of the monitor, one after the other, that a demand is learnt from."""


@dataclass(frozen=True, eq=False, slots=True)
class RecordedLoad:
    """What a run has recorded of one operator.

    Attributes
    ----------
    run, operator
        Which run, and which of its operators.
    demand
        What its records ask of one executor at full share, with cap and trigger; None: it is not known.
    demand_text, why_no_demand
        In words: the demand and where it comes from, or why there is none.
    arrivals
        When records arrived, in seconds from the first.
    arrivals_text
        How they were had.
    are_exact
        Whether the instants are those of the run.
    is_trigger_known
        Whether the run has recorded how its batches are started.
    limits, objective
        What the operator might have, and was held against; limits are None where they are not recorded.
    """

    run: str
    operator: str
    demand: Demand | None
    demand_text: str
    why_no_demand: str
    arrivals: FloatArray
    arrivals_text: str
    are_exact: bool
    is_trigger_known: bool
    limits: Limits | None
    objective: Objective


def recorded_load(store: KnowledgeStore, run: str, operator: str | None = None, *, seed: int = 0) -> RecordedLoad:
    """Read the load of a run.

    Parameters
    ----------
    store
        The run's knowledge.
    run
        Its name, for people.
    operator
        Which of its operators; None: the only one.
    seed
        Of the instants of arrivals that were counted.

    Raises
    ------
    ConfigurationError
        There are several operators and none is named, there is no such operator, or too few arrivals are recorded.
    """
    history = read_history(store)
    name = _chosen(history, run, operator)
    recorded = _recorded_settings(history, name)
    try:
        settings = OperatorSettings.model_validate(recorded)
    except ValidationError as fault:
        raise ConfigurationError(
            f"RUN: what {run} has kept about {name} cannot be read: {fault}", field="RUN"
        ) from fault
    demand, text, why_not = _demand(store, history, settings, run)
    arrivals, how, are_exact = _arrivals(history, name, run, np.random.default_rng(seed))
    return RecordedLoad(
        run=run,
        operator=name,
        demand=demand,
        demand_text=text,
        why_no_demand=why_not,
        arrivals=arrivals,
        arrivals_text=how,
        are_exact=are_exact,
        is_trigger_known="trigger" in recorded,
        limits=settings.limits() if "executors" in recorded else None,
        objective=history.objective_of(name),
    )


def _chosen(history: RunHistory, run: str, operator: str | None) -> str:
    names = history.operators
    if not names:
        raise ConfigurationError(
            f"RUN: {run} has no observations and no decisions yet; wait until it has run for some minutes", field="RUN"
        )
    if operator is None and len(names) > 1:
        raise ConfigurationError(
            f"--operator: {run} has several operators ({', '.join(names)}); name one", field="--operator"
        )
    if operator is not None and operator not in names:
        raise ConfigurationError(
            f"--operator: {run} has no operator {operator!r}; it has {', '.join(names)}", field="--operator"
        )
    return operator or names[0]


def _recorded_settings(history: RunHistory, name: str) -> dict[str, Any]:
    """What the run kept about an operator, as far as demand, trigger and cap depend on it."""
    kept: Mapping[str, Any] = next((one for one in history.operator_settings if one["name"] == name), {"name": name})
    found = {key: kept[key] for key in _KEPT if kept.get(key) is not None or (key == "trigger" and key in kept)}
    most = (kept.get("input_options") or {}).get("maxOffsetsPerTrigger")
    return found if most is None else {**found, "input_options": {"maxOffsetsPerTrigger": str(most)}}


def _demand(
    store: KnowledgeStore, history: RunHistory, operator: OperatorSettings, run: str
) -> tuple[Demand | None, str, str]:
    learnt = learnt_demand(store, run)
    server = learnt.server(operator)
    if server is not None:
        return declared_demand(server), f"{learnt.text(operator)}, as its policy has learnt", ""
    declared = declared_server(operator)
    if declared is not None:
        demand = declared_demand(declared)
        return demand, f"{_text(demand)}, as its settings declare", ""
    if operator.is_real_time:
        return None, "", "its records go through one by one, and its policy has not learnt what one costs"
    learner = BatchDemandLearner(
        least_batches=_LEAST_WINDOWS, skip_first=1, cap=operator.cap, trigger_seconds=operator.trigger_seconds
    )
    _learn(learner, history.observations.get(operator.name, ()))
    try:
        found = learner.learnt().demand
    except NotReadyError as fault:
        return None, "", f"its policy has learnt none, and its batches do not show it: {_in_windows(str(fault))}"
    return found, f"{_text(found)}, from its mean batch times", ""


def _learn(learner: BatchDemandLearner, observations: Sequence[Observation]) -> None:
    """Feed means over one window of the monitor after the other, of those under one allocation from end to end."""
    before: Observation | None = None
    is_steady = True
    for seen in observations:
        if before is None or seen.last_batch_id is None or before.last_batch_id is None:
            before, is_steady = seen, True
            continue
        is_steady = is_steady and seen.cluster.observed == before.cluster.observed
        if seen.at - before.at < seen.window_seconds:
            continue
        batches = seen.last_batch_id - before.last_batch_id
        has_all = seen.records_done is not None and before.records_done is not None and seen.batch_seconds is not None
        if is_steady and batches > 0 and has_all and seen.cluster.observed is not None:
            assert seen.records_done is not None
            assert before.records_done is not None
            assert seen.batch_seconds is not None
            rows = round((seen.records_done - before.records_done) / batches)
            if rows > 0 and seen.batch_seconds > 0:
                learner.observe(rows, seen.batch_seconds, seen.cluster.observed, seen.at)
        before, is_steady = seen, True


def _in_windows(text: str) -> str:
    return text.replace("batches with records", "windows with batches", 1)


def _text(demand: Demand) -> str:
    if isinstance(demand, RecordDemand):
        return f"{format_seconds(demand.service.mean)} a record"
    assert isinstance(demand, BatchDemand)
    return f"{format_seconds(demand.fixed_seconds)} a batch and {format_seconds(demand.per_record_seconds)} a record"


def _arrivals(history: RunHistory, operator: str, run: str, rng: np.random.Generator) -> tuple[FloatArray, str, bool]:
    found, how = _replayed(history, operator)
    is_exact = found is not None
    if found is None:
        found, counted = _counted(history.observations.get(operator, ()), rng)
        how = "; ".join(part for part in (counted, how) if part)
    if len(found) < _LEAST_RECORDS or not found[-1] > found[0]:
        raise ConfigurationError(
            f"RUN: {run} has recorded {len(found)} arrivals at {operator}; {_LEAST_RECORDS} are needed: let it run for "
            "longer, or give the arrivals as a trace file",
            field="RUN",
        )
    return found - found[0], how, is_exact


def _replayed(history: RunHistory, operator: str) -> tuple[FloatArray | None, str]:
    """The arrivals that the run itself made, if the operator reads them, and what is to be said about them."""
    from penstock.adaptors.replay.options import replay_arrivals

    given = (history.settings or {}).get("arrivals")
    kept: Mapping[str, Any] = next((one for one in history.operator_settings if one["name"] == operator), {})
    inputs = [source for source, _ in plain_inputs(kept) or ()]
    if (
        not isinstance(given, Mapping)
        or not (given.get("trace") or given.get("shape"))
        or inputs not in ([], [ARRIVALS])
    ):
        return None, ""
    try:
        arrivals = ArrivalsSettings.model_validate({key: value for key, value in given.items() if value is not None})
        replay = replay_arrivals(arrivals.replay_options())
    except (ConfigurationError, ValidationError) as fault:
        return None, f"what the run replayed can no longer be read ({fault})"
    name = arrivals.shape if arrivals.trace is None else arrivals.trace.name
    return replay.arrivals.times(0, replay.arrivals.total) / replay.speed, f"as the run replayed them ({name})"


def _counted(observations: Sequence[Observation], rng: np.random.Generator) -> tuple[FloatArray, str]:
    """Arrivals between looks, by their count or else by their rate."""
    known = [(o.at, o.records_arrived) for o in observations if o.records_arrived is not None]
    steps = [(a, b, n - m) for (a, m), (b, n) in pairwise(known) if b > a and n >= m]
    how = "counted from look to look"
    if not steps:
        rates = [(o.at, o.arrival_rate_rows_per_second) for o in observations if o.arrival_rate_rows_per_second]
        total = 0.0
        for (a, _), (b, rate) in pairwise(rates):
            whole, total = int(total), total + rate * (b - a)
            steps.append((a, b, int(total) - whole))
        window = max((o.window_seconds for o in observations), default=0.0)
        how = f"by their rate over windows of {format_seconds(window)}, in which shorter bursts are lost"
    if not steps:
        return np.empty(0), ""
    usual = float(np.median([b - a for a, b, _ in steps]))
    times = np.concatenate([a + (b - a) * np.sort(rng.random(n)) for a, b, n in steps])
    spread = f"spread at random over the {format_seconds(usual)} between two looks"
    return times, f"{how}, and {spread}"
