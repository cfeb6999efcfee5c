# SPDX-License-Identifier: Apache-2.0
"""A dashboard for Grafana, made from what Prometheus is given: every family of samples is in one of its panels."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.service.exposed import BUILD_INFO, EXPOSED, RUN_INFO, Exposed, exposed_named

_WANTED = 'pipeline=~"$pipeline", operator=~"$operator"'
_UNITS = {
    "records/s": "rps", "records": "short", "fraction": "percentunit", "cores": "short", "s": "s", "executors": "short",
    "bytes": "bytes", "money": "none", "": "short",
}  # fmt: skip
"""What Grafana calls a unit; others are shown as numbers."""
_COLUMNS, _WIDTH, _HEIGHT = 24, 12, 8


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot: what it shows, and why one would look."""

    title: str
    description: str
    families: tuple[str, ...]
    query: str = "{name}{{{wanted}}}"
    legend: str = "{{{{operator}}}} {what}"


_PANELS = (
    Panel("Latency", "Of records, over the window; dashed: the bound, and what the newest decision expects.",
          ("penstock_latency_p50_seconds", "penstock_latency_p95_seconds", "penstock_latency_p99_seconds",
           "penstock_objective_bound_seconds", "penstock_predicted_latency_seconds",
           "penstock_predicted_latency_low_seconds", "penstock_predicted_latency_high_seconds",
           "penstock_judged_latency_seconds")),
    Panel("Plans within their interval", "Part of the plans whose latency was at or below the upper end.",
          ("penstock_prediction_coverage_ratio",)),
    Panel("Plans judged", "Plans that were in force and measured.", ("penstock_predictions_judged",)),
    Panel("Objective", "1: met, 0: broken over the window.", ("penstock_objective_met",)),
    Panel("Arrivals and work", "Records that arrive, are done, and are planned for.",
          ("penstock_arrival_rate_records_per_second", "penstock_processed_rate_records_per_second",
           "penstock_predicted_arrival_rate_records_per_second")),
    Panel("Backlog", "Records that have arrived and are not done.", ("penstock_queue_length_records",)),
    Panel("Executors", "Observed, planned and asked for, and the most that settings allow.",
          ("penstock_executors", "penstock_planned_executors", "penstock_requested_executors",
           "penstock_max_executors")),
    Panel("CPU share", "Of each executor, observed and planned.",
          ("penstock_cpu_share_ratio", "penstock_planned_cpu_share_ratio")),
    Panel("Load", "How much of what is allowed is used, and the pressure at the input.",
          ("penstock_cpu_utilisation_ratio", "penstock_busy_ratio", "penstock_back_pressure_ratio",
           "penstock_cpu_throttled_ratio")),
    Panel("Cost per hour", "What is paid now, and what the top allocation would cost; needs prices.",
          ("penstock_cost_total", "penstock_static_cost_total"),
          query="3600 * rate({name}{{{wanted}}}[$__rate_interval])", legend="{{{{operator}}}} {what} {{{{currency}}}}"),
    Panel("Decisions per hour", "By what they say; holds are left out.", ("penstock_decisions_total",),
          query='3600 * rate({name}{{{wanted}, verb!="hold"}}[$__rate_interval])',
          legend="{{{{operator}}}} {{{{verb}}}}"),
    Panel("Ends of changes per hour", "A change that fails was asked for and did not come.",
          ("penstock_changes_total",), query="3600 * rate({name}{{{wanted}}}[$__rate_interval])",
          legend="{{{{operator}}}} {{{{outcome}}}}"),
    Panel("The loop", "Passes and faults each second.", ("penstock_looks_total", "penstock_faults_total"),
          query="rate({name}{{{wanted}}}[$__rate_interval])"),
    Panel("Age of the data, and orders", "Nothing is decided on old data; 1: somebody has ordered something.",
          ("penstock_observation_age_seconds", "penstock_steered")),
)  # fmt: skip


def panels() -> tuple[Panel, ...]:
    """All panels: those that are laid out, and one for every family that none of them has, by its unit."""
    shown = {name for panel in _PANELS for name in panel.families}
    rest = [one for one in EXPOSED if one.sample_name not in shown]
    by_unit: dict[str, list[Exposed]] = {}
    for one in rest:
        by_unit.setdefault(one.unit, []).append(one)
    others = (
        Panel(
            f"Other metrics{f' in {unit}' if unit else ''}",
            " ".join(f"{one.sample_name}: {one.meaning}" for one in families),
            tuple(one.sample_name for one in families),
        )
        for unit, families in by_unit.items()
    )
    return (*_PANELS, *others)


def queries(panel: Panel) -> list[tuple[str, str]]:
    """The queries of a panel, each with its legend."""
    return [
        (panel.query.format(name=name, wanted=_WANTED), panel.legend.format(what=_what(name)))
        for name in panel.families
    ]


def _what(name: str) -> str:
    one = exposed_named(name)
    words = name.removeprefix("penstock_").removesuffix("_total")
    for ending in ("_seconds", "_ratio", "_records_per_second", "_records", "_cores", "_bytes"):
        words = words.removesuffix(ending)
    extra = " ".join(f"{{{{{label}}}}}" for label in one.labels if label in ("statistic", "metric"))
    return " ".join([words.replace("_", " "), *([extra] if extra else [])])


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana imports it."""
    drawn = [_stat(), *(_plot(number, panel) for number, panel in enumerate(panels()))]
    return {
        "__inputs": [{"name": "DS_PROMETHEUS", "label": "Prometheus", "type": "datasource", "pluginId": "prometheus"}],
        "uid": "penstock",
        "title": "Penstock",
        "description": "Pipelines on Spark and how they are scaled. Written by `penstock prometheus dashboard`.",
        "tags": ["penstock", "spark"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
                _variable("pipeline", f"label_values({RUN_INFO}, pipeline)"),
                _variable("operator", 'label_values(penstock_max_executors{pipeline=~"$pipeline"}, operator)'),
            ]
        },
        "panels": drawn,
    }


def dashboard_text() -> str:
    """The dashboard as a file."""
    return json.dumps(dashboard(), indent=2, ensure_ascii=False) + "\n"


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": query,
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "current": {"text": "All", "value": "$__all"},
    }


def _stat() -> dict[str, Any]:
    wanted = 'pipeline=~"$pipeline"'
    return {
        "id": 1,
        "type": "table",
        "title": "Pipelines",
        "description": "Those that go on, with the policy that decides.",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": {"x": 0, "y": 0, "w": _COLUMNS, "h": 5},
        "targets": [
            {"refId": "A", "expr": f"{RUN_INFO}{{{wanted}}}", "instant": True, "format": "table"},
            {"refId": "B", "expr": BUILD_INFO, "instant": True, "format": "table"},
        ],
    }


def _plot(number: int, panel: Panel) -> dict[str, Any]:
    unit = _UNITS.get(exposed_named(panel.families[0]).unit, "short")
    across = _COLUMNS // _WIDTH
    return {
        "id": number + 2,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": {"x": _WIDTH * (number % across), "y": 5 + _HEIGHT * (number // across), "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": unit, "custom": {"spanNulls": False}}, "overrides": _dashed(panel)},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(ord("A") + i), "expr": expr, "legendFormat": legend}
            for i, (expr, legend) in enumerate(queries(panel))
        ],
    }


def _dashed(panel: Panel) -> Sequence[dict[str, Any]]:
    """Bounds and predictions are no measurements, and look different."""
    letters = [chr(ord("A") + i) for i, name in enumerate(panel.families) if "bound" in name or "predicted" in name]
    return [
        {
            "matcher": {"id": "byFrameRefID", "options": letter},
            "properties": [{"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [8, 8]}}],
        }
        for letter in letters
    ]
