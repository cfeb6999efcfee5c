# SPDX-License-Identifier: Apache-2.0
"""Declared demand in other words: as the simulator's work, and as the demand that models predict with."""

from __future__ import annotations

from penstock.markov import PH
from penstock.markov.phase_type_fit import fit_mean_scv
from penstock.performance.demand import BatchDemand, Demand, RecordDemand
from penstock.ports import FloatArray
from penstock.settings import OperatorSettings, ServiceSettings
from penstock.simulator import (
    Deterministic,
    Hyper2,
    LogNormal,
    MicroBatch,
    PhaseType,
    Samples,
    Service,
    erlang,
    exponential,
)

_MOST_PHASES = 16
"""Phases of a service time; constant ones are modelled as Erlang with this many."""
_LEAST_SECONDS = 1e-9
"""What models take a part of a batch for that is no work: theirs have some of either."""


def declared_server(operator: OperatorSettings) -> Service | MicroBatch | None:
    """The work that an operator's records are, as its settings declare it; None where they do not.

    Raises
    ------
    ConfigurationError
        A file of measured times cannot be read.
    """
    batch = operator.micro_batch
    if batch is not None:
        return MicroBatch(
            batch.fixed,
            batch.per_record,
            operator.cap,
            operator.trigger_seconds,
            batch.fixed_scv,
            batch.per_record_scv,
            batch.driver,
            batch.round_trips,
            batch.parallel,
        )
    return None if operator.service is None else _service(operator.service)


def declared_demand(server: Service | MicroBatch) -> Demand:
    """The demand of records that are this work."""
    if isinstance(server, MicroBatch):
        fixed = max(server.fixed + server.driver, _LEAST_SECONDS)
        return BatchDemand(
            fixed_seconds=fixed,
            per_record_seconds=max(server.per_record, _LEAST_SECONDS),
            fixed_scv=server.fixed_scv * (server.fixed / fixed) ** 2,
            per_record_scv=server.per_record_scv,
            fixed_cpu_seconds=server.fixed,
            cap=server.cap,
            trigger_seconds=server.trigger,
        )
    if isinstance(server, PhaseType):
        return RecordDemand(server.ph)
    return RecordDemand(fit_mean_scv(server.mean, server.scv, max_phases=_MOST_PHASES).distribution)


def policy_demand(operator: OperatorSettings) -> Demand | None:
    """The demand that policies are given; None: they learn it."""
    server = declared_server(operator) if operator.is_demand_declared else None
    return None if server is None else declared_demand(server)


def _service(given: ServiceSettings) -> Service:
    mean, family = given.mean, given.distribution
    if family == "samples":
        values = Samples(given.values if given.values is not None else _measured(given))
        return values if mean is None else Samples(values.values * (mean / values.mean))
    if family == "ph":
        assert given.alpha is not None
        assert given.T is not None
        ph = PH(given.alpha, given.T)
        return PhaseType(ph if mean is None else ph.with_mean(mean))
    assert mean is not None
    if family == "erlang":
        assert given.phases is not None
        return erlang(given.phases, mean)
    if family == "exponential":
        return exponential(mean)
    if family == "deterministic":
        return Deterministic(mean)
    assert given.scv is not None
    return Hyper2(mean, given.scv) if family == "hyper2" else LogNormal(mean, given.scv)


def _measured(given: ServiceSettings) -> FloatArray:
    from penstock.arrivals import Reading, read_window

    assert given.file is not None
    return read_window(given.file, Reading(kind="iats", unit=given.unit, format="plain"))
