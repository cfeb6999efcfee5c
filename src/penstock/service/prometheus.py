# SPDX-License-Identifier: Apache-2.0
"""The catalogue of metrics for Prometheus: one gauge each, with the unit in its name, by pipeline and operator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from penstock.metrics import METRICS
from penstock.service.desk import PipelineDesk
from penstock.service.views import metric_values

_LABELS = ("pipeline", "operator")
_SUFFIXES = {
    "records/s": "_records_per_second",
    "records": "_records",
    "fraction": "_ratio",
    "cores": "_cores",
    "s": "_seconds",
    "executors": "",
}


def prometheus_name(metric: str, unit: str) -> str:
    """What a metric of the catalogue is called.

    Examples
    --------
    >>> prometheus_name("latency_p95", "s"), prometheus_name("executors", "executors")
    ('penstock_latency_p95_seconds', 'penstock_executors')
    """
    return f"penstock_{metric}{_SUFFIXES.get(unit, f'_{unit}')}"


class PipelineCollector(Collector):
    """Reads the newest observations when it is asked; what is not known has no sample.

    Parameters
    ----------
    desks
        The pipelines. Stored runs are left out: their values are not of now.
    """

    def __init__(self, desks: Iterable[PipelineDesk]) -> None:
        self._desks = [desk for desk in desks if desk.is_live]

    def collect(self) -> Iterator[Metric]:
        """Every gauge."""
        sites = [(desk, name, desk.seen(name)) for desk in self._desks for name in desk.facts.names]
        values = [(desk, name, metric_values(seen)) for desk, name, seen in sites]
        for metric in METRICS.values():
            gauge = GaugeMetricFamily(prometheus_name(metric.name, metric.unit), metric.meaning, labels=_LABELS)
            for desk, name, known in values:
                if (value := known[metric.name]) is not None:
                    gauge.add_metric((desk.facts.name, name), float(value))
            yield gauge
        age = GaugeMetricFamily(
            "penstock_observation_age_seconds", "Time since the operator was last seen.", labels=_LABELS
        )
        steered = GaugeMetricFamily(
            "penstock_steered", "1 while somebody has ordered a pause, a mode or a size.", labels=_LABELS
        )
        for desk, name, seen in sites:
            if seen is not None:
                age.add_metric((desk.facts.name, name), max(0.0, desk.now() - seen.at))
            steered.add_metric((desk.facts.name, name), float(desk.state().of(name).is_steered))
        yield age
        yield steered
        yield from self._costs()

    def _costs(self) -> Iterator[Metric]:
        labels = (*_LABELS, "currency")
        paid = CounterMetricFamily("penstock_cost", "What the operator has cost since the run began.", labels=labels)
        static = CounterMetricFamily(
            "penstock_static_cost", "What the operator would have cost with its top allocation.", labels=labels
        )
        for desk in self._desks:
            bill = desk.bill()
            for name in desk.facts.names:
                if (cost := bill.of(name)) is not None:  # without prices there is no sample
                    paid.add_metric((desk.facts.name, name, cost.currency), cost.amount)
                    static.add_metric((desk.facts.name, name, cost.currency), cost.static)
        yield paid
        yield static


def exposition(desks: Iterable[PipelineDesk]) -> tuple[bytes, str]:
    """The text that Prometheus reads, and its type."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(PipelineCollector(desks))
    return generate_latest(registry), CONTENT_TYPE_LATEST
