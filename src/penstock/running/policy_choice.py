# SPDX-License-Identifier: Apache-2.0
"""Which policy a run has, and the description of the pipeline that it is built with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from penstock._demand import policy_demand
from penstock.latency_map import NodeDistances
from penstock.policies import default_policy, make_policy, policy_entry
from penstock.policies.resizing import ResizingPolicy, SizedOperator
from penstock.policies.restart_weighing import RestartWeighing
from penstock.ports import Notebook, OperatorSite, Policy, PolicyContext
from penstock.records import Limits
from penstock.settings import WITH_SECRETS, OperatorSettings, RunSettings, parse_settings
from penstock.steering import PolicyChoice
from penstock.topology import ARRIVALS

_OF_THE_QUERY = (
    "given_app",
    "inputs",
    "options",
    "executor_cores",
    "executor_memory",
    "input_options",
    "unique",
    "spark",
)
"""What of an operator's settings decides what its batches cost."""


def with_policy(settings: RunSettings) -> RunSettings:
    """The settings with what depends on the policy filled in: its name, and the CPU shares of operators without any.

    Raises
    ------
    ConfigurationError
        The policy is not known.
    """
    name = settings.policy.name or default_policy(settings.path_objectives().values())
    shares = policy_entry(name).cpu_shares or (1.0,)
    return settings.model_copy(
        update={
            "policy": settings.policy.model_copy(update={"name": name}),
            "operators": tuple(
                o if o.cpu_shares is not None else o.model_copy(update={"cpu_shares": shares})
                for o in settings.operators
            ),
        }
    )


def chosen_policy(settings: RunSettings, *, is_object: bool = False) -> PolicyChoice:
    """The policy that the settings name."""
    policy = settings.policy
    return PolicyChoice(str(policy.name), policy.options, policy.rules, is_object)


def settings_with(settings: RunSettings, choice: PolicyChoice) -> RunSettings:
    """The settings with another policy, looked through as those of a file are.

    Raises
    ------
    ConfigurationError
        With every mistake.
    """
    plain = settings.model_dump(mode="json", context=WITH_SECRETS)
    policy = {"name": choice.name, "options": dict(choice.options), "rules": choice.rules}
    return with_policy(parse_settings({**plain, "policy": policy}, "policy"))


def policy_context(
    settings: RunSettings,
    limits: Mapping[str, Limits] | None = None,
    tasks: Mapping[str, int | None] | None = None,
    round_trips: NodeDistances | None = None,
    notebook: Notebook | None = None,
) -> PolicyContext:
    """The pipeline for a policy, with the demand that the settings declare, unless it is to be learnt.

    Parameters
    ----------
    settings
        Of the run.
    limits
        What each operator may have where that is known better than by the settings.
    tasks
        How many tasks read each operator's records.
    round_trips
        How far the nodes are apart that executors may be placed on; None: nobody knows.
    notebook
        What policies before have written down; None: nothing is kept.
    """
    return PolicyContext(
        settings.topology,
        {
            o.name: OperatorSite(
                limits=o.limits() if limits is None else limits[o.name],
                trigger_seconds=o.trigger_seconds,
                cap=_cap(settings, o),
                is_real_time=o.is_real_time,
                tasks=None if tasks is None else tasks[o.name],
                slots=o.executor_cores,
                demand=policy_demand(o),
                selectivity=None if o.demand == "learnt" else o.selectivity,
                query=_query_of(settings, o),
            )
            for o in settings.operators
        },
        settings.path_objectives(),
        interval_seconds=settings.interval,
        round_trips=round_trips,
        notebook=notebook,
    )


def _query_of(settings: RunSettings, operator: OperatorSettings) -> str:
    """Stands for what an operator does with a record, and with how much: another one has other costs."""
    parts = operator.model_dump(mode="json", include=set(_OF_THE_QUERY))
    given = settings.given_arrivals
    payload = None if given is None else given.options.get("payload")
    return hashlib.sha256(json.dumps([parts, payload], sort_keys=True).encode()).hexdigest()[:16]


def _cap(settings: RunSettings, operator: OperatorSettings) -> int | None:
    """The most records a batch of an operator may have: its own cap, or that of the replay that it reads itself."""
    if operator.cap is not None or settings.broker is not None or operator.inputs[0].source != ARRIVALS:
        return operator.cap
    given = settings.given_arrivals
    text = None if given is None else given.options.get("maxRowsPerBatch")
    # What is no number is refused where the replay's options are read.
    return int(text) if text is not None and text.isdecimal() else None


def policy_of(settings: RunSettings, context: PolicyContext, policy: Policy | None = None) -> Policy:
    """The policy that the settings name, or the object given in its place; with sizes, one that also chooses them."""
    if policy is not None:
        chosen = make_policy(policy, context)
    else:
        chosen = make_policy(str(settings.policy.name), context, settings.policy.all_options)
    sized = {
        o.name: SizedOperator(context.operators[o.name].limits, settings.objective_of(o.name))
        for o in settings.operators
        if o.sizes
    }
    if not sized:
        return chosen
    wanted = settings.resize
    weighing = RestartWeighing(wanted.after, wanted.horizon, wanted.calm)
    return ResizingPolicy(chosen, sized, weighing, pause_seconds=wanted.pause)
