# SPDX-License-Identifier: Apache-2.0
"""Policies for the simulator by name: those of the registry, those for whole pipelines, and none at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import yaml

from penstock.errors import ConfigurationError
from penstock.evaluation.simulated_mead import simulated_mead
from penstock.evaluation.simulation import STATIC, PipelinePolicy
from penstock.plan.registry import make_policy, policy_names
from penstock.ports import Policy

# Every factory takes plain values by name, as those of the registry do.
PIPELINE_POLICIES: Mapping[str, Callable[..., PipelinePolicy]] = {
    "mead": simulated_mead,
    # As in the paper: fits as they are, the search of Fig. 5, and nothing done between plans.
    "mead-published": partial(simulated_mead, search="published", believed=None, rescue_every=None),
    "m/g/1": partial(simulated_mead, "m/g/1", rescue_every=None),
    "gi/g/1": partial(simulated_mead, "gi/g/1", rescue_every=None),
}
"""Policies that decide for all operators together."""


def simulated_policy_names() -> tuple[str, ...]:
    """Give the names that `simulated_policy` knows."""
    return (STATIC, *policy_names(), *PIPELINE_POLICIES)


def simulated_policy(text: str) -> Policy | PipelinePolicy | None:
    """Give the policy that a text such as ``threshold:upper=0.8,every_seconds=5s`` names; None for ``static``.

    Raises
    ------
    ConfigurationError
        The name or an option is not known, or a value is wrong.

    Examples
    --------
    >>> simulated_policy("threshold:upper=0.8,every_seconds=5s")
    ThresholdPolicy(upper=0.8, lower=0.5, every_seconds=5.0)
    """
    name, _, rest = text.partition(":")
    options = _options(text, rest)
    if name == STATIC:
        if options:
            raise ConfigurationError(f"policy: {STATIC} takes no options; see fixed", field="policy")
        return None
    if name in PIPELINE_POLICIES:
        try:
            return PIPELINE_POLICIES[name](**options)
        except TypeError as fault:
            raise ConfigurationError(f"policy: {name}: {fault}", field="policy") from fault
    if name not in policy_names():
        known = ", ".join(simulated_policy_names())
        raise ConfigurationError(f"policy: unknown policy {name!r}; known: {known}", field="policy")
    return make_policy(name, **options)


def _options(text: str, rest: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for pair in rest.split(",") if rest else []:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise ConfigurationError(
                f"policy: cannot read {pair!r} in {text!r}; write options as name:option=value,option=value",
                field="policy",
            )
        options[key.strip()] = yaml.safe_load(value)
    return options
