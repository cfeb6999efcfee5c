# SPDX-License-Identifier: Apache-2.0
"""Alerts for Prometheus: what somebody should look at, by what it is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml

from penstock.service.exposed import BUILD_INFO

_HEADER = "# Written by `penstock prometheus alerts`. Change times and bounds to your needs.\n"


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert: when, how long it must hold, and what to do."""

    name: str
    expression: str
    lasting: str
    severity: str
    summary: str
    action: str


_WHERE = "{{ $labels.pipeline }}, {{ $labels.operator }}"

ALERTS = (
    Alert(
        "PenstockObjectiveBroken", "penstock_objective_met == 0", "5m", "warning", f"{_WHERE}: above its latency bound",
        "Open the page: it says in one sentence what the loop does about it, or why it does nothing.",
    ),
    Alert(
        "PenstockNoRoomLeft",
        "penstock_objective_met == 0 and on (pipeline, operator) penstock_executors >= penstock_max_executors",
        "5m", "critical",
        f"{_WHERE}: above its latency bound with all executors that it may have",
        "Raise the limits of its executors, or the bound, or see what makes records dear.",
    ),
    Alert(
        "PenstockFallsBehind", "penstock_back_pressure_ratio > 0.5", "10m", "warning",
        f"{_WHERE}: more arrives than is done", "See whether it is at its limits, paused, or held at a size.",
    ),
    Alert(
        "PenstockDataOld", "penstock_observation_age_seconds > 60", "2m", "warning",
        f"{_WHERE}: nothing was heard of it for {{{{ $value | humanizeDuration }}}}",
        "Nothing is decided without data. See whether the query runs, and the log of the run.",
    ),
    Alert(
        "PenstockChangesFail", 'increase(penstock_changes_total{outcome="failed"}[30m]) > 0', "0m", "warning",
        f"{_WHERE}: a change was asked for and did not come",
        "See its outcome on the page. The cluster may have no room for more executors.",
    ),
    Alert(
        "PenstockFaults", "increase(penstock_faults_total[10m]) > 10", "0m", "warning", f"{_WHERE}: passes fail",
        "The notes on the page, and the log of the run, say why.",
    ),
    Alert(
        "PenstockForgottenOrder", "penstock_steered == 1", "12h", "info",
        f"{_WHERE}: an order of a person has been in force for half a day",
        "`penstock resume`, if it was forgotten. The audit says who gave it and why.",
    ),
    Alert(
        "PenstockNobodyLeads", "max(penstock_master_leading) == 0", "1m", "critical", "no master leads",
        "Queries keep the size that they have. See whether the masters reach their store, and their logs.",
    ),
    Alert(
        "PenstockGone", f"absent({BUILD_INFO})", "5m", "warning", "no Penstock is scraped",
        "See whether the run goes on, and whether Prometheus has its port and its token.",
    ),
)  # fmt: skip


def alert_rules() -> dict[str, Any]:
    """The rules as Prometheus reads them."""
    return {
        "groups": [
            {
                "name": "penstock",
                "rules": [
                    {
                        "alert": one.name,
                        "expr": one.expression,
                        "for": one.lasting,
                        "labels": {"severity": one.severity},
                        "annotations": {"summary": one.summary, "description": one.action},
                    }
                    for one in ALERTS
                ],
            }
        ]
    }


def alert_rules_text() -> str:
    """The rules as a file."""
    return _HEADER + str(yaml.safe_dump(alert_rules(), sort_keys=False, allow_unicode=True, width=120))
