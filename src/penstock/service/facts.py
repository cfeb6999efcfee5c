# SPDX-License-Identifier: Apache-2.0
"""What does not change while a pipeline runs: its operators, streams, limits and objectives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.errors import ConfigurationError
from penstock.knowledge.run_facts import run_start
from penstock.money import CostBasis
from penstock.records import Limits, Objective
from penstock.settings import RunSettings, kept_cost_bases, parse_settings
from penstock.steering import PolicyChoice
from penstock.topology import Path, Stream

_OF_PIPELINE = ("name", "mode", "objective", "objectives", "interval", "window", "policy")
_OF_OPERATOR = ("name", "input", "executors", "cpu_shares", "sizes", "executor_cores", "executor_memory", "app")


@dataclass(frozen=True, slots=True)
class OperatorFacts:
    """One operator: what it runs, what it may have, and what is wanted of it."""

    name: str
    application: str | None
    limits: Limits
    objective: Objective


@dataclass(frozen=True, slots=True)
class PipelineFacts:
    """One pipeline, as its settings describe it.

    Attributes
    ----------
    policy
        The one that the settings name.
    bases
        What each operator's time is priced by; empty where there are no prices.
    started_at
        When the run began; None: that is not known.
    """

    name: str
    mode: str
    interval_seconds: float
    window_seconds: float
    operators: tuple[OperatorFacts, ...]
    streams: tuple[Stream, ...]
    paths: Mapping[Path, Objective]
    policy: PolicyChoice
    started_at: float | None = None
    bases: Mapping[str, CostBasis] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The operators' names."""
        return tuple(operator.name for operator in self.operators)


def facts_of(
    settings: RunSettings,
    *,
    limits: Mapping[str, Limits] | None = None,
    started_at: float | None = None,
    name: str | None = None,
) -> PipelineFacts:
    """The pipeline of some settings.

    Parameters
    ----------
    settings
        Of the run.
    limits
        What each operator may have where that is known better than by the settings.
    started_at
        When the run began.
    name
        How it is called here; default: by its own name.
    """
    known = limits or {}
    return PipelineFacts(
        name=name or settings.name,
        mode=settings.mode,
        interval_seconds=settings.interval,
        window_seconds=settings.window,
        operators=tuple(
            OperatorFacts(o.name, o.given_app, known.get(o.name) or o.limits(), settings.objective_of(o.name))
            for o in settings.operators
        ),
        streams=settings.topology.streams,
        paths=settings.path_objectives(),
        policy=PolicyChoice(settings.policy.name or "", settings.policy.options, settings.policy.rules),
        started_at=started_at,
        bases=settings.cost_bases(),
    )


def facts_of_stored(kept: Mapping[str, Any], *, name: str | None = None) -> PipelineFacts:
    """The pipeline of settings as a store keeps them: those of a run, or of an attached query.

    Raises
    ------
    ConfigurationError
        They are not those of a pipeline.
    """
    operators = kept.get("operators")
    plain = {key: kept[key] for key in _OF_PIPELINE if kept.get(key) is not None}
    # Only what is shown: the rest may hold what was hidden when it was stored.
    plain["operators"] = [
        {key: one[key] for key in _OF_OPERATOR if one.get(key) is not None}
        for one in (operators if isinstance(operators, list) else [])
        if isinstance(one, dict)
    ]
    try:
        settings = parse_settings(plain, "the settings of the run")
    except ConfigurationError as fault:
        raise ConfigurationError(f"{fault}; the store is damaged, or of another version", field="settings") from fault
    return replace(facts_of(settings, started_at=run_start(kept) or None, name=name), bases=kept_cost_bases(kept))
