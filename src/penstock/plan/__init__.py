# SPDX-License-Identifier: Apache-2.0
"""P: from a request to a decision. One file per policy; guards limit what any of them may do."""

from penstock.plan.fixed import FixedPolicy
from penstock.plan.guards import (
    Cooldown,
    HoldUntilSettled,
    NoOppositeWithin,
    NoScaleDownWhileDraining,
    OnlyGoodData,
    WithinLimits,
    apply_guards,
    default_guards,
)
from penstock.plan.ladder import ladder, step
from penstock.plan.registry import make_policy, policy_names, policy_options
from penstock.plan.threshold import ThresholdPolicy

__all__ = [
    "Cooldown",
    "FixedPolicy",
    "HoldUntilSettled",
    "NoOppositeWithin",
    "NoScaleDownWhileDraining",
    "OnlyGoodData",
    "ThresholdPolicy",
    "WithinLimits",
    "apply_guards",
    "default_guards",
    "ladder",
    "make_policy",
    "policy_names",
    "policy_options",
    "step",
]
