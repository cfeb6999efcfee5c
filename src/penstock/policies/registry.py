# SPDX-License-Identifier: Apache-2.0
"""Policies by the names that settings use: ours, and those that other packages register.

A package registers a policy as an entry point of the group ``penstock.policies``. It names a `PolicyEntry`, or simply
a class or function that takes the `PolicyContext` and options by name and returns a policy.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from penstock.errors import ConfigurationError
from penstock.policies.entry import Goal, PolicyEntry, options_of
from penstock.policies.fixed import ENTRY as FIXED
from penstock.policies.mead.entries import ENTRIES as MEAD
from penstock.policies.schedule import ENTRY as SCHEDULE
from penstock.policies.threshold import ENTRY as THRESHOLD
from penstock.ports import Policy, PolicyContext
from penstock.records import Objective

GROUP = "penstock.policies"


@cache
def policy_entries() -> Mapping[str, PolicyEntry]:
    """Every registered policy by its name, ours first.

    Raises
    ------
    ConfigurationError
        A package registers a policy that cannot be loaded, or under a name that is taken.
    """
    found = {entry.name: entry for entry in (*MEAD, THRESHOLD, SCHEDULE, FIXED)}
    for point in entry_points(group=GROUP):
        if point.name in found:
            raise ConfigurationError(
                f"policy: the package {point.dist and point.dist.name} registers {point.name!r}, which is taken",
                field="policy",
            )
        try:
            found[point.name] = _entry(point.name, point.load())
        except Exception as fault:  # somebody else's module
            raise ConfigurationError(
                f"policy: {point.name!r} of {point.value} cannot be loaded: {type(fault).__name__}: {fault}",
                field="policy",
            ) from fault
    return found


def policy_entry(name: str) -> PolicyEntry:
    """The policy called `name`; ConfigurationError lists the known ones."""
    entries = policy_entries()
    if name not in entries:
        raise ConfigurationError(f"policy: unknown policy {name!r}; known: {', '.join(entries)}", field="policy")
    return entries[name]


def default_policy(objectives: Iterable[Objective]) -> str:
    """The policy that is used where none is named: one that plans for what is wanted."""
    wanted = list(objectives)
    goal: Goal = "latency" if wanted and all(objective.seconds is not None for objective in wanted) else "keep up"
    return next(entry.name for entry in policy_entries().values() if entry.default_for == goal)


def make_policy(policy: str | Policy, context: PolicyContext, options: Mapping[str, Any] | None = None) -> Policy:
    """Build the policy called `policy`; an object that is a policy already is given back as it is.

    Raises
    ------
    ConfigurationError
        The name or an option is not known, a value is wrong, or the object is not a policy.
    """
    if isinstance(policy, str):
        return policy_entry(policy).make(context, options or {})
    missing = [part for part in ("name", "every_seconds", "plan") if not hasattr(policy, part)]
    if missing:
        raise ConfigurationError(
            f"policy: {policy!r} is neither a policy's name nor a policy; it lacks {', '.join(missing)}", field="policy"
        )
    if options:
        raise ConfigurationError(
            "policy_options: an object has its options already; give them to it instead", field="policy_options"
        )
    return policy


def reads_objective(policy: Policy) -> bool:
    """Whether the objective plays a part in a policy's decisions; of somebody else's object, as it says itself."""
    entry = policy_entries().get(policy.name)
    return bool(getattr(policy, "reads_objective", True)) if entry is None else entry.reads_objective


def _entry(name: str, value: object) -> PolicyEntry:
    if isinstance(value, PolicyEntry):
        return value
    if not callable(value):
        raise ConfigurationError(f"policy: {name!r} is neither a PolicyEntry nor something to call", field="policy")
    summary = (inspect.getdoc(value) or "somebody else's policy").splitlines()[0]
    reads = bool(getattr(value, "reads_objective", True))
    return PolicyEntry(name, summary, value, options_of(value), reads_objective=reads)
