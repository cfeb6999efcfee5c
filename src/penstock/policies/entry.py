# SPDX-License-Identifier: Apache-2.0
"""What a policy says about itself when it registers: its options, what it needs, and how it is built."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from penstock.errors import ConfigurationError, PenstockError, did_you_mean
from penstock.ports import Policy, PolicyContext
from penstock.records import Objective

Goal = Literal["latency", "keep up"]


class Need(StrEnum):
    """What a policy cannot do without."""

    ARRIVAL_TIMES = "arrival times"
    """When records arrive; interpolated times will do, but make its plans less sharp."""
    LATENCY_BOUND = "a latency bound"
    """An objective on latency for every path."""
    THROUGHPUT_MODEL = "a throughput model"
    """How much input each allocation sustains."""
    NODES = "nodes"
    """Which nodes an executor may be placed on."""


@dataclass(frozen=True, slots=True)
class PolicyOption:
    """One option: its name in settings, its default and its meaning."""

    name: str
    default: Any
    meaning: str


RULES = PolicyOption("rules", None, "rules around the policy, which bound or overrule it: a file, their text or a list")
"""The option that every policy has besides its own; one that has an option of this name keeps its own."""


@dataclass(frozen=True, slots=True)
class PolicyEntry:
    """A policy in the registry.

    Attributes
    ----------
    name
        How settings name it.
    summary
        One line for people.
    build
        Called with the `PolicyContext` and the options by name; returns the policy. It must start nothing.
    options
        What it takes.
    needs
        What it cannot do without.
    reads_objective
        Whether a latency bound plays a part in its decisions. A catch-up time is read by the policies that have one.
    default_for
        The goal for which it is chosen where no policy is named; None: it has to be named.
    cpu_shares
        The CPU shares of an operator that sets none; None: all CPU, always.
    """

    name: str
    summary: str
    build: Callable[..., Policy]
    options: tuple[PolicyOption, ...] = ()
    needs: frozenset[Need] = frozenset()
    reads_objective: bool = False
    default_for: Goal | None = None
    cpu_shares: tuple[float, ...] | None = None

    def make(self, context: PolicyContext, options: Mapping[str, Any]) -> Policy:
        """Build the policy.

        Raises
        ------
        ConfigurationError
            With every fault: an unknown option, a path without the bound it needs, or what the policy itself refuses.
        """
        faults = [*self.option_faults(options), *self._objective_faults(context)]
        if faults:
            raise ConfigurationError.of_all(f"policy {self.name}", faults)
        try:
            return self.build(context, **options)
        except PenstockError:
            raise
        except Exception as fault:  # it may be anybody's
            raise ConfigurationError(
                f"policy {self.name}: cannot be built: {type(fault).__name__}: {fault}; it is called with the "
                "PolicyContext, and with its options by name",
                field="policy",
            ) from fault

    @property
    def chooses_nodes(self) -> bool:
        """Whether its decisions name nodes where there are some to choose from."""
        return Need.NODES in self.needs or any(option.name == "nodes" for option in self.options)

    @property
    def takes_rules_around(self) -> bool:
        """Whether the option `rules` puts rules around it; it does not where the policy has one of this name."""
        return RULES.name not in [option.name for option in self.options]

    @property
    def all_options(self) -> tuple[PolicyOption, ...]:
        """Its own options, and that which every policy has."""
        return (*self.options, RULES) if self.takes_rules_around else self.options

    def option_faults(self, options: Mapping[str, Any]) -> list[str]:
        """Every option that the policy does not have."""
        known = [option.name for option in self.all_options]
        return [
            f"{option}: {self.name} has no such option; {did_you_mean(option, known, 'it has')}"
            for option in options
            if option not in known
        ]

    def _objective_faults(self, context: PolicyContext) -> list[str]:
        if Need.LATENCY_BOUND not in self.needs:
            return []
        return [
            f"objective: {self.name} plans for a latency bound, and the path {' -> '.join(path)} has none; give one, "
            'such as p95: "2s", or name a policy that needs none'
            for path in context.topology.paths
            if context.objectives.get(path, Objective()).seconds is None
        ]

    def to_json(self) -> dict[str, Any]:
        """The object that `penstock policies --json` prints."""
        return {
            "name": self.name,
            "summary": self.summary,
            "needs": sorted(str(need) for need in self.needs),
            "reads_objective": self.reads_objective,
            "default_for": self.default_for,
            "cpu_shares": None if self.cpu_shares is None else list(self.cpu_shares),
            "options": [{"name": o.name, "default": o.default, "meaning": o.meaning} for o in self.all_options],
        }


def options_of(build: Callable[..., Any], meanings: Mapping[str, str] | None = None) -> tuple[PolicyOption, ...]:
    """The options of a function, from its signature; the first parameter, the context, is none of them."""
    return tuple(
        PolicyOption(
            p.name, None if p.default is inspect.Parameter.empty else p.default, (meanings or {}).get(p.name, "")
        )
        for p in list(inspect.signature(build).parameters.values())[1:]
    )
