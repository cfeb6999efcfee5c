# SPDX-License-Identifier: Apache-2.0
"""Pipelines that policies are introduced to in tests."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.ports import AnalysisPlace, OperatorSite, PolicyContext
from penstock.records import Limits, Objective
from penstock.topology import Path, Topology

LIMITS = Limits(1, 2, (0.4, 0.55, 0.7, 0.85, 1.0))
P95 = Objective("p95", 2.0)
MEAN = Objective("mean", 1.0)
"""A bound that every policy of ours can plan for."""


def a_context(
    objective: Objective = P95,
    *,
    site: OperatorSite | None = None,
    analysis: AnalysisPlace = AnalysisPlace("here"),  # noqa: B008 - it is frozen
    operator: str = "operator",
) -> PolicyContext:
    """A pipeline of one operator with one objective."""
    topology = Topology.of_one(operator)
    return PolicyContext(
        topology, {operator: site or OperatorSite(LIMITS)}, dict.fromkeys(topology.paths, objective), analysis
    )


def a_fork(objectives: Mapping[Path, Objective], limits: Limits = LIMITS) -> PolicyContext:
    """A parser with a counter and a matcher below it."""
    topology = Topology.from_inputs({"parser": ["arrivals"], "counter": ["parser"], "matcher": ["parser"]})
    return PolicyContext(
        topology, {name: OperatorSite(limits) for name in topology.order}, objectives, AnalysisPlace("here")
    )
