# SPDX-License-Identifier: Apache-2.0
"""The text that Prometheus reads: what `exposed` lists, of every pipeline whose loop goes on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

import penstock
from penstock.service.desk import PipelineDesk
from penstock.service.exposed import BUILD_INFO, EXPOSED, OF_MASTER, OPERATOR_LABELS, RUN_INFO, Site

if TYPE_CHECKING:
    from penstock.service.master import Master


class PipelineCollector(Collector):
    """Reads the newest of everything when it is asked; what is not known has no sample.

    Parameters
    ----------
    desks
        The pipelines. Runs that have ended are left out: their values are not of now.
    master
        Who takes agents here; None: nobody does.
    """

    def __init__(self, desks: Iterable[PipelineDesk], master: Master | None = None) -> None:
        self._desks, self._master = [desk for desk in desks if desk.is_live], master

    def collect(self) -> Iterator[Metric]:
        """Every family."""
        build = GaugeMetricFamily(BUILD_INFO, "The version of Penstock.", labels=("version",))
        build.add_metric((penstock.__version__,), 1.0)
        yield build
        run = GaugeMetricFamily(RUN_INFO, "A pipeline that goes on.", labels=("pipeline", "policy", "mode"))
        for desk in self._desks:
            run.add_metric((desk.facts.name, desk.state().policy.name, desk.facts.mode), 1.0)
        yield run
        if self._master is not None:
            for about in OF_MASTER:
                number = about.read(self._master)
                make = CounterMetricFamily if about.kind == "counter" else GaugeMetricFamily
                yield make(about.name, about.meaning, value=number)
        bills = [(desk, desk.bill()) for desk in self._desks]
        sites = [Site(desk, operator, bill) for desk, bill in bills for operator in desk.facts.operators]
        for one in EXPOSED:
            make = CounterMetricFamily if one.kind == "counter" else GaugeMetricFamily
            family = make(one.name, one.meaning, labels=(*OPERATOR_LABELS, *one.labels))
            for site in sites:
                for values, number in one.samples(site):
                    family.add_metric((site.desk.facts.name, site.name, *values), number)
            yield family


def exposition(desks: Iterable[PipelineDesk], master: Master | None = None) -> tuple[bytes, str]:
    """The text that Prometheus reads, and its type."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(PipelineCollector(desks, master))
    return generate_latest(registry), CONTENT_TYPE_LATEST
