# SPDX-License-Identifier: Apache-2.0
"""Gesscale's places in the registry."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from penstock.policies.entry import PolicyEntry, PolicyOption
from penstock.policies.gesscale.options import MEANINGS, PLUS_MEANINGS, gesscale_options, plus_options
from penstock.policies.gesscale.plus import GesscalePlusPolicy
from penstock.policies.gesscale.policy import GesscalePolicy
from penstock.ports import PolicyContext


def _build(context: PolicyContext, **options: Any) -> GesscalePolicy:
    return GesscalePolicy(context, gesscale_options(**options))


def _build_plus(context: PolicyContext, **options: Any) -> GesscalePlusPolicy:
    return GesscalePlusPolicy(context, plus_options(**options))


def _options(read: Callable[..., Any], meanings: Mapping[str, str]) -> tuple[PolicyOption, ...]:
    return tuple(PolicyOption(p.name, p.default, meanings[p.name]) for p in inspect.signature(read).parameters.values())


ENTRIES = (
    PolicyEntry(
        name="gesscale",
        summary="one executor more under back pressure, as many fewer as the model allows, on near nodes",
        build=_build,
        options=_options(gesscale_options, MEANINGS),
    ),
    PolicyEntry(
        name="gesscale+",
        summary="plans executors and nodes in one step, by arrivals, backlog and the throughput of each set of nodes",
        build=_build_plus,
        options=_options(plus_options, PLUS_MEANINGS),
    ),
)
