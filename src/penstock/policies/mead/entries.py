# SPDX-License-Identifier: Apache-2.0
"""MEAD's places in the registry: with our additions, as published, and with the queues that its paper compares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock.policies.entry import Need, PolicyEntry, PolicyOption, options_of
from penstock.policies.mead.options import AS_PUBLISHED, MEANINGS, mead_options
from penstock.policies.mead.policy import MeadPolicy
from penstock.ports import PolicyContext

LEVELS = (0.40, 0.55, 0.70, 0.85, 1.0)
"""The CPU levels of the paper (Sec. VII)."""


def _entry(name: str, summary: str, preset: Mapping[str, Any], *, is_default: bool = False) -> PolicyEntry:
    fixed = {"queues"} & set(preset)
    options = tuple(
        PolicyOption(option.name, preset.get(option.name, option.default), MEANINGS[option.name])
        for option in options_of(mead_options)
        if option.name != "name" and option.name not in fixed
    )
    return PolicyEntry(
        name=name,
        summary=summary,
        build=_builder(name, preset),
        options=options,
        needs=frozenset({Need.ARRIVAL_TIMES, Need.LATENCY_BOUND}),
        reads_objective=True,
        default_for="latency" if is_default else None,
        cpu_shares=LEVELS,
    )


def _builder(name: str, preset: Mapping[str, Any]) -> Callable[..., MeadPolicy]:
    def build(context: PolicyContext, **options: Any) -> MeadPolicy:
        return MeadPolicy(context, mead_options(name, **{**preset, **options}))

    return build


ENTRIES = (
    _entry("mead", "plans the cheapest CPU and executors that keep every latency bound", {}, is_default=True),
    _entry("mead-published", "MEAD as published, without any addition of ours", AS_PUBLISHED),
    _entry("m/g/1", "MEAD's planning with M/G/1 queues, blind to bursts", {**AS_PUBLISHED, "queues": "m/g/1"}),
    _entry("gi/g/1", "MEAD's planning with GI/G/1 queues (bounds on means only)", {**AS_PUBLISHED, "queues": "gi/g/1"}),
)
