# SPDX-License-Identifier: Apache-2.0
"""What Prometheus is given: every metric of the catalogue, and what is planned, wanted, counted and paid beside it.

Names have their unit, in base units, and counters end in `_total`. Labels are bounded: a pipeline's and an operator's
name, and words of a fixed list. The dashboard, the alerts and the reference are made from this list.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from penstock.metrics import METRICS, Metric, own_values
from penstock.records import ClusterState, Decision, Observation, Prediction
from penstock.service.bill import Bill
from penstock.service.desk import PipelineDesk
from penstock.service.facts import OperatorFacts

if TYPE_CHECKING:
    from penstock.service.master import Master

OPERATOR_LABELS = ("pipeline", "operator")
_SUFFIXES = {
    "records/s": "_records_per_second",
    "records": "_records",
    "fraction": "_ratio",
    "cores": "_cores",
    "s": "_seconds",
    "executors": "",
    "": "",
}
_MOST_OWN = 100
"""So many metrics of the user's own an operator may have here: labels are bounded."""
Sample = tuple[tuple[str, ...], float]
"""The values of labels besides pipeline and operator, and the number."""


@dataclass(frozen=True, slots=True)
class Site:
    """One operator when Prometheus asks."""

    desk: PipelineDesk
    operator: OperatorFacts
    bill: Bill

    @property
    def name(self) -> str:
        """The operator's."""
        return self.operator.name

    @property
    def seen(self) -> Observation | None:
        """The newest look."""
        return self.desk.seen(self.name)

    @property
    def decided(self) -> Decision | None:
        """The newest decision."""
        return self.desk.decided(self.name)

    @property
    def cluster(self) -> ClusterState:
        """What is planned, was asked for, and is there."""
        return ClusterState() if self.seen is None else self.seen.cluster

    @property
    def prediction(self) -> Prediction | None:
        """What the newest decision expects."""
        return None if self.decided is None else self.decided.prediction

    def told(self, name: str) -> float | None:
        """A number that the newest decision rests on."""
        value = None if self.decided is None else self.decided.evidence.get(name)
        return float(value) if isinstance(value, int | float) else None


@dataclass(frozen=True, slots=True)
class Exposed:
    """One family of samples.

    Attributes
    ----------
    name
        Without `_total`, which a counter gets.
    kind
        A counter only rises, and begins at 0 when the service does.
    unit
        As in the catalogue of metrics; empty for numbers without one.
    samples
        Those of one operator; none where nothing is known.
    labels
        Besides `pipeline` and `operator`.
    """

    name: str
    kind: Literal["gauge", "counter"]
    unit: str
    meaning: str
    samples: Callable[[Site], Iterable[Sample]]
    labels: tuple[str, ...] = ()

    @property
    def sample_name(self) -> str:
        """How its samples are called."""
        return f"{self.name}_total" if self.kind == "counter" else self.name


def prometheus_name(metric: str, unit: str) -> str:
    """What a metric of the catalogue is called.

    Examples
    --------
    >>> prometheus_name("latency_p95", "s"), prometheus_name("executors", "executors")
    ('penstock_latency_p95_seconds', 'penstock_executors')
    """
    return f"penstock_{metric}{_SUFFIXES.get(unit, f'_{unit}')}"


def _gauge(name: str, unit: str, meaning: str, read: Callable[[Site], float | None]) -> Exposed:
    def samples(site: Site) -> list[Sample]:
        value = read(site)
        return [] if value is None or not math.isfinite(value) else [((), float(value))]

    return Exposed(name, "gauge", unit, meaning, samples)


def _of_catalogue(metric: Metric) -> Exposed:
    return _gauge(
        prometheus_name(metric.name, metric.unit),
        metric.unit,
        metric.meaning,
        lambda site: None if site.seen is None else metric.read(site.seen),
    )


def _counted(name: str, meaning: str, label: str, read: Callable[[Site], dict[str, int]]) -> Exposed:
    return Exposed(
        name, "counter", "", meaning, lambda site: [((word,), float(n)) for word, n in read(site).items()], (label,)
    )


def _paid(name: str, meaning: str, field: str) -> Exposed:
    def samples(site: Site) -> list[Sample]:
        cost = site.bill.of(site.name)
        return [] if cost is None else [((cost.currency,), getattr(cost, field))]

    return Exposed(name, "counter", "money", meaning, samples, ("currency",))


def _bound(site: Site) -> list[Sample]:
    objective = site.operator.objective
    if objective.statistic is None or objective.seconds is None:
        return []
    return [((objective.statistic,), objective.seconds)]


def _is_met(site: Site) -> float | None:
    return None if site.seen is None else site.operator.objective.is_met_by(site.seen.latency)


def _own(site: Site) -> list[Sample]:
    known = [] if site.seen is None else list(own_values(site.seen).items())[:_MOST_OWN]
    return [((name,), float(value)) for name, value in known if value is not None and math.isfinite(value)]


EXPOSED: tuple[Exposed, ...] = (
    *(_of_catalogue(metric) for metric in METRICS.values()),
    Exposed("penstock_own_metric", "gauge", "", "Metrics of the user's own that a rule or a policy reads.", _own,
            ("metric",)),
    _gauge("penstock_planned_executors", "executors", "Executors that the newest plan wants.",
           lambda site: None if site.cluster.planned is None else site.cluster.planned.executors),
    _gauge("penstock_requested_executors", "executors", "Executors that were asked for.",
           lambda site: None if site.cluster.requested is None else site.cluster.requested.executors),
    _gauge("penstock_max_executors", "executors", "The most executors that the settings allow.",
           lambda site: site.operator.limits.room),
    _gauge("penstock_planned_cpu_share_ratio", "fraction", "CPU share of each executor that the newest plan wants.",
           lambda site: None if site.cluster.planned is None else site.cluster.planned.cpu_share),
    Exposed("penstock_objective_bound_seconds", "gauge", "s", "Bound on latency; none where the aim is to keep up.",
            _bound, ("statistic",)),
    _gauge("penstock_objective_met", "", "1 while latency over the window is within the bound, 0 while it is not.",
           _is_met),
    _gauge("penstock_predicted_latency_seconds", "s", "Latency of the path that the newest decision expects.",
           lambda site: None if site.prediction is None else site.prediction.seconds),
    _gauge("penstock_predicted_latency_low_seconds", "s", "Lower end of that latency's interval.",
           lambda site: None if site.prediction is None else site.prediction.low_seconds),
    _gauge("penstock_predicted_latency_high_seconds", "s", "Upper end of that latency's interval.",
           lambda site: None if site.prediction is None else site.prediction.high_seconds),
    _gauge("penstock_judged_latency_seconds", "s", "Latency measured under the newest plan that was judged.",
           lambda site: site.told("last_measured_seconds")),
    _gauge("penstock_predictions_judged", "", "Plans that were judged so far by what was measured under them.",
           lambda site: site.told("predictions_judged")),
    _gauge("penstock_prediction_coverage_ratio", "fraction",
           "Part of them whose latency was at or below the upper end of its interval.",
           lambda site: site.told("prediction_coverage")),
    _gauge("penstock_predicted_arrival_rate_records_per_second", "records/s",
           "Arrivals that the newest decision plans for.",
           lambda site: None if site.decided is None or site.decided.workload is None
           else site.decided.workload.arrivals_per_second),
    _gauge("penstock_observation_age_seconds", "s", "Time since the operator was last seen.",
           lambda site: None if site.seen is None else max(0.0, site.desk.now() - site.seen.at)),
    _gauge("penstock_steered", "", "1 while somebody has ordered a pause, a mode or a size.",
           lambda site: site.desk.state().of(site.name).is_steered),
    Exposed("penstock_looks", "counter", "", "Passes of the loop.",
            lambda site: [((), float(site.desk.tally.looks(site.name)))]),
    _counted("penstock_decisions", "Decisions, by what they say.", "verb",
             lambda site: site.desk.tally.decisions(site.name)),
    _counted("penstock_changes", "Changes that came to an end, by how.", "outcome",
             lambda site: site.desk.tally.ends(site.name)),
    Exposed("penstock_faults", "counter", "", "Passes that failed, and other faults that a run has named.",
            lambda site: [((), float(site.desk.tally.faults(site.name)))]),
    _paid("penstock_cost", "What the operator has cost since the run began; none without prices.", "amount"),
    _paid("penstock_static_cost", "What it would have cost with its top allocation; none without prices.", "static"),
)  # fmt: skip
"""Everything about an operator, in the order in which it is given."""

RUN_INFO = "penstock_run_info"
"""1 for each pipeline, with its policy and mode."""
BUILD_INFO = "penstock_build_info"
"""1, with the version of Penstock."""


@dataclass(frozen=True, slots=True)
class OfMaster:
    """One number about a master itself; without labels."""

    name: str
    kind: Literal["gauge", "counter"]
    meaning: str
    read: Callable[[Master], float]

    @property
    def sample_name(self) -> str:
        """How its sample is called."""
        return f"{self.name}_total" if self.kind == "counter" else self.name


OF_MASTER: tuple[OfMaster, ...] = (
    OfMaster("penstock_master_leading", "gauge", "Of a master: 1 while it leads, 0 while another one may.",
             lambda master: float(master.leadership.is_leading)),
    OfMaster("penstock_master_agents", "gauge", "Of a master: agents that are connected.",
             lambda master: float(len(master.port.connections))),
    OfMaster("penstock_master_refused_connections", "counter", "Of a master: connections that it refused.",
             lambda master: float(master.port.refused)),
)  # fmt: skip
"""What a master says about itself; a service that is none gives nothing of it."""


def exposed_named(name: str) -> Exposed:
    """A family by the name of its samples."""
    return next(one for one in EXPOSED if one.sample_name == name)
