# SPDX-License-Identifier: Apache-2.0
"""Whole policies, each composed of the stages: one file or folder each, found by name in the registry.

The loop knows only the port `Policy`. Nothing but the registry's entry names a policy.
"""

from penstock.policies.entry import Need, PolicyEntry, PolicyOption
from penstock.policies.registry import (
    BrokenPolicy,
    broken_policies,
    default_policy,
    make_policy,
    policy_entries,
    policy_entry,
    reads_objective,
)

__all__ = [
    "BrokenPolicy",
    "Need",
    "PolicyEntry",
    "PolicyOption",
    "broken_policies",
    "default_policy",
    "make_policy",
    "policy_entries",
    "policy_entry",
    "reads_objective",
]
