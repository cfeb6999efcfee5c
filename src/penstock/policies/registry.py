# SPDX-License-Identifier: Apache-2.0
"""Policies by the names that settings use: ours, and those that other packages register.

A package registers a policy as an entry point of the group ``penstock.policies``. It names a `PolicyEntry`, or simply
a class or function that takes the `PolicyContext` and options by name and returns a policy.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from penstock.errors import ConfigurationError, did_you_mean
from penstock.policies.elastic.entries import ENTRY as ELASTIC
from penstock.policies.entry import RULES, Goal, PolicyEntry, options_of
from penstock.policies.fixed import ENTRY as FIXED
from penstock.policies.gesscale.entries import ENTRIES as GESSCALE
from penstock.policies.mead.entries import ENTRIES as MEAD
from penstock.policies.rules.entry import ENTRY as RULES_ENTRY
from penstock.policies.rules.entry import with_rules
from penstock.policies.schedule import ENTRY as SCHEDULE
from penstock.policies.threshold import ENTRY as THRESHOLD
from penstock.ports import Policy, PolicyContext
from penstock.records import Objective

GROUP = "penstock.policies"


@dataclass(frozen=True, slots=True)
class BrokenPolicy:
    """A policy that a package registers and that cannot be used; all others can."""

    name: str
    origin: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name!r} of {self.origin} cannot be used: {self.reason}"

    def to_json(self) -> dict[str, str]:
        """The object that `penstock policies --json` prints."""
        return {"name": self.name, "origin": self.origin, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class FoundPolicies:
    """Those that can be used by their names, ours first, and those that cannot."""

    entries: Mapping[str, PolicyEntry]
    broken: tuple[BrokenPolicy, ...]


@cache
def found_policies() -> FoundPolicies:
    """Look for policies, ours and those of other packages; what is wrong with one keeps nobody from the others."""
    ours = {entry.name: entry for entry in (*MEAD, ELASTIC, *GESSCALE, THRESHOLD, RULES_ENTRY, SCHEDULE, FIXED)}
    found, broken = dict(ours), list[BrokenPolicy]()
    points = list(entry_points(group=GROUP))
    for point in points:
        origin = point.value if point.dist is None else f"{point.value} (package {point.dist.name})"
        rivals = [other.value for other in points if other.name == point.name and other is not point]
        if point.name in ours:
            reason = "a policy of Penstock has this name; register it under another"
        elif rivals:
            reason = f"{', '.join(rivals)} has this name too; uninstall one of them"
        else:
            try:
                found[point.name] = _entry(point.name, point.load())
                continue
            except ConfigurationError as fault:
                reason = str(fault)
            except (Exception, SystemExit) as fault:  # somebody else's module
                reason = f"it cannot be loaded: {type(fault).__name__}: {fault}"
        broken.append(BrokenPolicy(point.name, origin, reason))
    return FoundPolicies(found, tuple(broken))


def policy_entries() -> Mapping[str, PolicyEntry]:
    """Every registered policy that can be used by its name, ours first."""
    return found_policies().entries


def broken_policies() -> tuple[BrokenPolicy, ...]:
    """The policies that packages register and that cannot be used, with the reasons."""
    return found_policies().broken


def policy_entry(name: str) -> PolicyEntry:
    """The policy called `name`; ConfigurationError lists the known ones, or says why it cannot be used."""
    entries = policy_entries()
    if name in entries:
        return entries[name]
    for broken in broken_policies():
        if broken.name == name:
            raise ConfigurationError(f"policy: {broken}", field="policy")
    raise ConfigurationError(f"policy: unknown policy {name!r}; {did_you_mean(name, entries)}", field="policy")


def default_policy(objectives: Iterable[Objective]) -> str:
    """The policy that is used where none is named: one that plans for what is wanted."""
    wanted = list(objectives)
    goal: Goal = "latency" if wanted and all(objective.seconds is not None for objective in wanted) else "keep up"
    return next(entry.name for entry in policy_entries().values() if entry.default_for == goal)


def make_policy(policy: str | Policy, context: PolicyContext, options: Mapping[str, Any] | None = None) -> Policy:
    """Build the policy called `policy`, with rules around it where the option `rules` gives some.

    An object that is a policy already is given back as it is.

    Raises
    ------
    ConfigurationError
        The name or an option is not known, a value is wrong, or the object is not a policy.
    """
    if isinstance(policy, str):
        entry, own = policy_entry(policy), dict(options or {})
        around = own.pop(RULES.name, None) if entry.takes_rules_around else None
        made = entry.make(context, own)
        faults = _faults_of(made)
        if faults:
            raise ConfigurationError.of_all(f"policy {policy}", faults)
        return made if around is None else with_rules(made, around, context, reads_objective=reads_objective(made))
    if isinstance(policy, type):
        raise ConfigurationError(
            f"policy: {policy.__name__} is a class; give an object, such as {policy.__name__}()", field="policy"
        )
    faults = _faults_of(policy)
    if faults:
        raise ConfigurationError.of_all("policy", faults)
    if options:
        raise ConfigurationError(
            "policy_options: an object has its options already; give them to it instead", field="policy_options"
        )
    return policy


def reads_objective(policy: Policy) -> bool:
    """Whether the objective plays a part in a policy's decisions: as it says itself, else as its entry does."""
    own = getattr(policy, "reads_objective", None)
    if own is not None:
        return bool(own)
    entry = policy_entries().get(policy.name)
    return True if entry is None else entry.reads_objective


def _faults_of(policy: object) -> list[str]:
    """What keeps an object from being a policy, each with the part and the fix."""
    missing = [part for part in ("name", "every_seconds", "plan") if not hasattr(policy, part)]
    if missing:
        return [f"{policy!r} is not a policy; it lacks {', '.join(missing)}"]
    name, every, plan = (getattr(policy, part) for part in ("name", "every_seconds", "plan"))
    faults: list[str] = []
    if not isinstance(name, str) or not name.strip():
        faults.append(f"name: {name!r} is not a name; give the policy one, a text that decisions show")
    if isinstance(every, bool) or not isinstance(every, (int, float)) or not 0.0 < every < math.inf:
        faults.append(f"every_seconds: {every!r} must be a positive time, in seconds, such as 10.0")
    if not callable(plan):
        faults.append(f"plan: {plan!r} cannot be called; make it a method that takes a PlanRequest")
    # One part alone would be overlooked without a word: the loop shows looks to policies that have both.
    if hasattr(policy, "watch") and not hasattr(policy, "close"):
        faults.append("watch: it comes with close; add close, which ends what watch has started")
    return faults


def _entry(name: str, value: object) -> PolicyEntry:
    if isinstance(value, PolicyEntry):
        if value.name != name:
            raise ConfigurationError(f"its entry is named {value.name!r}; give both the same name", field="policy")
        return value
    if not callable(value):
        raise ConfigurationError(f"{value!r} is neither a PolicyEntry nor something to call", field="policy")
    try:
        options = options_of(value)
    except ValueError as fault:
        raise ConfigurationError(f"its parameters cannot be read: {fault}", field="policy") from fault
    summary = (inspect.getdoc(value) or "somebody else's policy").splitlines()[0]
    reads = bool(getattr(value, "reads_objective", True))
    return PolicyEntry(name, summary, value, options, reads_objective=reads)
