# SPDX-License-Identifier: Apache-2.0
"""The list of what Prometheus is given, and what is made from it."""

from __future__ import annotations

import doctest
import json
import re
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml
from click.testing import CliRunner

from penstock.cli import main
from penstock.loop import CycleReport
from penstock.metrics import METRICS
from penstock.records import Allocation, Outcome, OutcomeStatus, Prediction
from penstock.service import exposed
from penstock.service.alert_rules import ALERTS, alert_rules
from penstock.service.dashboard import dashboard, panels
from penstock.service.exposed import BUILD_INFO, EXPOSED, OF_MASTER, RUN_INFO, prometheus_name
from penstock.service.tally import ENDS, VERBS, Tally
from penstock.testing import a_decision, an_observation

NAME = re.compile(r"penstock_[a-z0-9_]+")


def test_the_examples_hold() -> None:
    """Those in the module's own words."""
    assert doctest.testmod(exposed).failed == 0


def test_names_are_unique_and_have_their_unit() -> None:
    """In base units; counters end in _total, nothing else does."""
    names = [one.sample_name for one in EXPOSED]
    assert len(set(names)) == len(names)
    endings = {"s": "_seconds", "fraction": "_ratio", "records/s": "_records_per_second", "bytes": "_bytes"}
    for one in EXPOSED:
        assert re.fullmatch(r"penstock_[a-z][a-z0-9_]*[a-z0-9]", one.sample_name)
        assert one.sample_name.endswith("_total") is (one.kind == "counter")
        assert one.name.endswith(endings.get(one.unit, ""))
        assert one.meaning.endswith(".")


def test_the_whole_catalogue_is_given() -> None:
    """Every metric of an operator has its family."""
    assert {prometheus_name(m.name, m.unit) for m in METRICS.values()} <= {one.name for one in EXPOSED}


def test_every_family_is_in_one_panel() -> None:
    """Nothing is given that the dashboard does not show, and nothing shown that is not given."""
    shown = [name for panel in panels() for name in panel.families]
    assert sorted(shown) == sorted(one.sample_name for one in EXPOSED)
    known = {*shown, RUN_INFO, BUILD_INFO}
    queried = {
        name for panel in dashboard()["panels"] for one in panel["targets"] for name in NAME.findall(one["expr"])
    }
    assert queried == known


def test_panels_do_not_overlap() -> None:
    """Each has a place of its own within Grafana's 24 columns, and a number of its own."""
    places = [panel["gridPos"] for panel in dashboard()["panels"]]
    cells = [(x, y) for p in places for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"])]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
    numbers = [panel["id"] for panel in dashboard()["panels"]]
    assert len(set(numbers)) == len(numbers)


def test_alerts_name_only_what_is_given() -> None:
    """A metric that was renamed would leave an alert that never fires."""
    known = {*(one.sample_name for one in EXPOSED), *(one.sample_name for one in OF_MASTER), BUILD_INFO, RUN_INFO}
    for alert in ALERTS:
        assert set(NAME.findall(alert.expression)) <= known, alert.name
    assert len(alert_rules()["groups"][0]["rules"]) == len({alert.name for alert in ALERTS})


@pytest.mark.parametrize(("command", "read"), [("dashboard", json.loads), ("alerts", yaml.safe_load)])
def test_commands_print_what_can_be_read(command: str, read: object) -> None:
    """And nothing beside it, so that it can go into a file."""
    answer = CliRunner().invoke(main, ["prometheus", command])
    assert answer.exit_code == 0
    expected = dashboard() if command == "dashboard" else alert_rules()
    assert read(answer.output) == expected  # type: ignore[operator]
    listed = CliRunner().invoke(main, ["prometheus", "metrics", "--json"])
    assert [one["name"] for one in json.loads(listed.stdout)["metrics"]] == [
        *(one.sample_name for one in EXPOSED),
        *(one.sample_name for one in OF_MASTER),
    ]


def test_what_became_of_predictions_is_given() -> None:
    """Interval, measurement and coverage come from the newest decision; without one there is no sample."""
    evidence = {"predictions_judged": 12, "prediction_coverage": 0.75, "last_measured_seconds": 1.5}
    told = Prediction(("a",), 2.5, 3.0, {}, {}, "x", low_seconds=2.0, high_seconds=2.9, confidence=0.9)
    wanted = {
        "penstock_predicted_latency_low_seconds": 2.0,
        "penstock_predicted_latency_high_seconds": 2.9,
        "penstock_judged_latency_seconds": 1.5,
        "penstock_predictions_judged": 12.0,
        "penstock_prediction_coverage_ratio": 0.75,
    }
    for decided in (a_decision(evidence=evidence, prediction=told), a_decision(), None):
        desk = SimpleNamespace(decided=lambda _, decided=decided: decided)
        site = exposed.Site(cast("Any", desk), cast("Any", SimpleNamespace(name="a")), cast("Any", None))
        for name, value in wanted.items():
            samples = list(exposed.exposed_named(name).samples(site))
            assert samples == ([((), value)] if decided is not None and decided.evidence is evidence else [])


def test_a_tally_counts_by_kind_and_has_a_zero_for_the_rest() -> None:
    """A rate needs the zero before the first one."""
    tally, up = Tally(), a_decision(Allocation(1), Allocation(2))
    done = Outcome("r", "operator", 1.0, OutcomeStatus.DONE, Allocation(2), 1.0)
    pending = Outcome("r", "operator", 1.0, OutcomeStatus.PENDING, None, 1.0)
    tally.take(CycleReport(an_observation(), decision=up, outcomes=[pending, done]))
    tally.take(CycleReport(an_observation()))
    tally.fault("operator")
    assert tally.decisions("operator") == {verb: int(verb == "scale out") for verb in VERBS}
    assert tally.ends("operator") == {end: int(end == "done") for end in ENDS}
    assert (tally.looks("operator"), tally.faults("operator"), tally.faults("other")) == (2, 1, 0)
