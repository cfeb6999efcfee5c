# SPDX-License-Identifier: Apache-2.0
"""A policy as a command names it, ``threshold:upper=0.8,every_seconds=5s``, or as a settings file does.

A comma inside brackets or quotes belongs to a value: ``mead:costs=[0.4,1.0]``, ``schedule:steps="8h@1,16h@4"``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from penstock.errors import ConfigurationError
from penstock.policies import broken_policies, default_policy, make_policy, policy_entries, policy_entry
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
        options = ",".join(f"{name}={_written(value)}" for name, value in self.options.items())
        return f"{self.name}:{options}" if options else self.name


def _written(value: Any) -> str:
    """An option's value, so that `parse_policy` reads it back."""
    if isinstance(value, str) and not set(value) & set(",[]{}\"'"):
        return value
    return json.dumps(value, separators=(",", ":"), default=str)


def policy_in(settings: RunSettings, objectives: Iterable[Objective]) -> PolicyChoice:
    """The policy that a settings file names; where it names none, the one that plans for the objectives.

    Raises
    ------
    ConfigurationError
        The policy or an option is not known.
    """
    name = settings.policy.name or default_policy(objectives)
    faults = policy_entry(name).option_faults(settings.policy.all_options)
    if faults:
        raise ConfigurationError.of_all("policy.options", faults)
    return PolicyChoice(name, settings.policy.all_options)


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
    >>> parse_policy("mead:costs=[0.4,1.0],rescue=false")
    PolicyChoice(name='mead', options={'costs': [0.4, 1.0], 'rescue': False})
    """
    name, _, rest = text.partition(":")
    options = _options(text, rest)
    if name == STATIC:
        if options:
            raise ConfigurationError(f"policy: {STATIC} takes no options; see fixed", field="policy")
        return None
    is_known = name in policy_entries() or any(broken.name == name for broken in broken_policies())
    if not is_known:
        known = ", ".join((STATIC, *policy_entries()))
        raise ConfigurationError(f"policy: unknown policy {name!r}; known: {known}", field="policy")
    faults = policy_entry(name).option_faults(options)
    if faults:
        raise ConfigurationError.of_all("policy", faults)
    return PolicyChoice(name, options)


def _options(text: str, rest: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for pair in _parts(rest) if rest else []:
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not key:
            raise ConfigurationError(
                f"policy: cannot read {pair!r} in {text!r}; write options as name:option=value,option=value, and a "
                'value with commas in brackets or quotes, such as costs=[0.4,1.0] or steps="8h@1,16h@4"',
                field="policy",
            )
        if key in options:
            raise ConfigurationError(f"policy: {key} stands twice in {text!r}; leave one out", field="policy")
        try:
            options[key] = yaml.safe_load(value)
        except yaml.YAMLError as fault:
            raise ConfigurationError(
                f"policy: cannot read {value!r} in {text!r}; write the value of {key} as in YAML, such as 0.5, true, "
                '[0.4,1.0] or "text"',
                field="policy",
            ) from fault
    return options


def _parts(text: str) -> list[str]:
    """Split at the commas that stand in no bracket and in no quotes."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        if character == "," and depth == 0 and not quote:
            parts.append("")
            continue
        parts[-1] += character
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        else:
            depth += (character in "[{") - (character in "]}")
    return parts
