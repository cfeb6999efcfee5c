# SPDX-License-Identifier: Apache-2.0
"""The demand that a run has learnt, out of its knowledge: what a policy wrote down as evidence of its decisions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.ports import KnowledgeStore
from penstock.records import Decision
from penstock.settings import OperatorSettings
from penstock.simulator import MicroBatch, Service, exponential
from penstock.units import format_seconds

_DECISIONS_READ = 200_000


@dataclass(frozen=True, slots=True)
class LearntDemand:
    """What a run has learnt about its operators.

    Attributes
    ----------
    run
        Which run, for people.
    evidence
        The newest evidence with a demand in it, by operator.
    """

    run: str
    evidence: Mapping[str, Mapping[str, float]]

    def server(self, operator: OperatorSettings) -> Service | MicroBatch | None:
        """The work of an operator's records; None where the run has not learnt it.

        A batch's fixed part is taken to be slowed by the CPU share, unless the run says which part of it is: on the
        safe side. Records that are taken one by one have exponential work, as the policy assumes that learnt it.
        """
        known = self.evidence.get(operator.name)
        if known is None:
            return None
        if "cpu_seconds_per_record" in known:
            return exponential(known["cpu_seconds_per_record"] / operator.executor_cores)
        fixed = known["fixed_seconds"]
        on_cpu = min(known.get("fixed_cpu_seconds", fixed), fixed)
        return MicroBatch(
            on_cpu, known["per_record_seconds"], operator.cap, operator.trigger_seconds, driver=fixed - on_cpu
        )

    def text(self, operator: OperatorSettings) -> str:
        """The demand in words."""
        server = self.server(operator)
        if isinstance(server, MicroBatch):
            fixed = format_seconds(server.fixed + server.driver)
            return f"{fixed} a batch and {format_seconds(server.per_record)} a record"
        return "not known" if server is None else f"{format_seconds(server.mean)} a record"


def learnt_demand(store: KnowledgeStore, run: str) -> LearntDemand:
    """Read what a run has learnt."""
    found: dict[str, Mapping[str, float]] = {}
    for decision in reversed(store.decisions(limit=_DECISIONS_READ)):
        if decision.operator not in found:
            known = _demand_in(decision)
            if known is not None:
                found[decision.operator] = known
    return LearntDemand(run, found)


def _demand_in(decision: Decision) -> Mapping[str, float] | None:
    numbers = {
        name: float(value)
        for name, value in decision.evidence.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
    }
    if numbers.get("cpu_seconds_per_record", 0.0) > 0:
        return numbers
    has_both = "fixed_seconds" in numbers and "per_record_seconds" in numbers
    return numbers if has_both and numbers["fixed_seconds"] + numbers["per_record_seconds"] > 0 else None
