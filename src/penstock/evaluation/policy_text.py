# SPDX-License-Identifier: Apache-2.0
"""A policy as a command names it, ``threshold:upper=0.8,every_seconds=5s``, or as a settings file does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from penstock.errors import ConfigurationError
from penstock.policies import default_policy, make_policy, policy_entries, policy_entry
from penstock.ports import Policy, PolicyContext
from penstock.records import Objective
from penstock.settings import RunSettings

STATIC = "static"
"""The name for no policy at all: every operator keeps what it starts with."""


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """A registered policy and its options, before it is built for a pipeline."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def build(self, context: PolicyContext) -> Policy:
        """Make the policy, the same class that runs on Spark."""
        return make_policy(self.name, context, self.options)

    @property
    def reads_objective(self) -> bool:
        """Whether the objective plays a part in its decisions."""
        return policy_entry(self.name).reads_objective

    @property
    def cpu_shares(self) -> tuple[float, ...]:
        """The CPU shares of operators that set none: the policy's own levels, or all CPU where it has none."""
        return policy_entry(self.name).cpu_shares or (1.0,)

    def __str__(self) -> str:
        options = ",".join(f"{name}={value}" for name, value in self.options.items())
        return f"{self.name}:{options}" if options else self.name


def policy_in(settings: RunSettings, objectives: Iterable[Objective]) -> PolicyChoice:
    """The policy that a settings file names; where it names none, the one that plans for the objectives.

    Raises
    ------
    ConfigurationError
        The policy or an option is not known.
    """
    name = settings.policy.name or default_policy(objectives)
    faults = policy_entry(name).option_faults(settings.policy.options)
    if faults:
        raise ConfigurationError.of_all("policy.options", faults)
    return PolicyChoice(name, settings.policy.options)


def parse_policy(text: str) -> PolicyChoice | None:
    """Read a policy's name and options; None for ``static``.

    Raises
    ------
    ConfigurationError
        The name or an option is not known, or an option cannot be read.

    Examples
    --------
    >>> parse_policy("threshold:upper=0.8,every_seconds=5s")
    PolicyChoice(name='threshold', options={'upper': 0.8, 'every_seconds': '5s'})
    """
    name, _, rest = text.partition(":")
    options = _options(text, rest)
    if name == STATIC:
        if options:
            raise ConfigurationError(f"policy: {STATIC} takes no options; see fixed", field="policy")
        return None
    if name not in policy_entries():
        known = ", ".join((STATIC, *policy_entries()))
        raise ConfigurationError(f"policy: unknown policy {name!r}; known: {known}", field="policy")
    faults = policy_entry(name).option_faults(options)
    if faults:
        raise ConfigurationError.of_all("policy", faults)
    return PolicyChoice(name, options)


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
