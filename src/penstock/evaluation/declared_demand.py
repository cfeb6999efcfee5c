# SPDX-License-Identifier: Apache-2.0
"""The demand of a simulated operator as the models see it: known beforehand, as where it was measured."""

from __future__ import annotations

from penstock.markov import PH
from penstock.markov.phase_type_fit import fit_mean_scv
from penstock.performance.demand import BatchDemand, Demand, RecordDemand
from penstock.simulator import MicroBatch, Service
from penstock.simulator.service import PhaseType

_MOST_PHASES = 16
"""Phases of a service time; constant ones are modelled as Erlang with this many."""


def declared_demand(server: Service | MicroBatch) -> Demand:
    """The demand that a simulated operator's records have."""
    if isinstance(server, MicroBatch):
        return BatchDemand(
            fixed_seconds=server.fixed + server.driver,
            per_record_seconds=server.per_record,
            fixed_scv=server.fixed_scv * (server.fixed / (server.fixed + server.driver)) ** 2,
            per_record_scv=server.per_record_scv,
            fixed_cpu_seconds=server.fixed,
            cap=server.cap,
            trigger_seconds=server.trigger,
        )
    return RecordDemand(_service(server))


def _service(server: Service) -> PH:
    if isinstance(server, PhaseType):
        return server.ph
    return fit_mean_scv(server.mean, server.scv, max_phases=_MOST_PHASES).distribution
