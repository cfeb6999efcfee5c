# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus scrapes a pipeline that goes on: all it is given, every query of the dashboard, every alert."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.integration.page.toy_pipeline import ToyPipeline

from penstock.adaptors.loopback import reserve_port
from penstock.adaptors.process.children import Warden
from penstock.loop import CycleReport
from penstock.metrics import METRICS
from penstock.records import Allocation, ClusterState, LatencySummary, Prediction, WorkloadEstimate
from penstock.service.alert_rules import ALERTS, alert_rules_text
from penstock.service.application import make_application
from penstock.service.asking import Service
from penstock.service.dashboard import dashboard
from penstock.service.exposed import EXPOSED, prometheus_name
from penstock.service.server import Server, Site
from penstock.testing import a_decision, an_observation

pytestmark = [pytest.mark.prometheus, pytest.mark.core]

_PATIENCE_SECONDS = 60.0
_OPERATORS = {"parser": "arrivals", "counter": "parser"}
_OF_JUDGED_PLANS = {
    "penstock_predicted_latency_low_seconds",
    "penstock_predicted_latency_high_seconds",
    "penstock_judged_latency_seconds",
    "penstock_predictions_judged",
    "penstock_prediction_coverage_ratio",
}
"""Only a policy that judges its plans gives these, and the pipeline here has another one."""


class Scraped:
    """A Prometheus that scrapes a pipeline once a second; every time it is waited for, the pipeline is looked at."""

    def __init__(self, port: int, pipeline: ToyPipeline) -> None:
        self.port, self.pipeline = port, pipeline
        self.text = ""

    def look(self) -> None:
        """Let the loop report a pass in which everything is known."""
        now, size, more = self.pipeline.clock.now(), Allocation(1, 0.5), Allocation(2, 1.0)
        for operator in _OPERATORS:
            latency = LatencySummary(100, 0.3, 0.2, 0.5, 0.6, 0.7)
            seen = an_observation(
                operator=operator, at=now, cluster=ClusterState(more, more, size), path_latency=latency,
                busy_fraction=0.5, back_pressure=0.2, metrics={"own_sessions": 12.0},
            )  # fmt: skip
            decision = a_decision(
                size, more, operator=operator, at=now, workload=WorkloadEstimate(now, 1100.0),
                prediction=Prediction(("parser", "counter"), 0.7, 2.0, {operator: 0.7}, {operator: 0.5}, "1"),
            )  # fmt: skip
            self.pipeline.desk.report(CycleReport(seen, decision=decision))

    def ask(self, path: str, **query: str) -> Any:
        """What Prometheus answers; raises where it refuses."""
        asked = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(asked, timeout=10) as answer:
            found = json.load(answer)
        assert found["status"] == "success", found
        return found["data"]

    def until(self, is_so: Callable[[], bool], what: str) -> None:
        """Wait; the bound only ends a failing test."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            self.look()
            try:
                if is_so():
                    return
            except OSError:
                pass  # it is not up yet
            assert time.monotonic() < deadline, what
            time.sleep(0.2)

    @property
    def given(self) -> set[str]:
        """The families with a sample in what is given."""
        return {line.partition("{")[0] for line in self.text.splitlines() if not line.startswith("#")}


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    """A pipeline behind the real service, scraped until rates are known."""
    programs = shutil.which("prometheus"), shutil.which("promtool")
    if None in programs:
        pytest.skip("Prometheus is not installed; run: apt-get install prometheus")
    folder = tmp_path_factory.mktemp("prometheus")
    pipeline = ToyPipeline(tmp_path_factory.mktemp("toy"), _OPERATORS, past_hours=0.1)
    app = make_application(Service([pipeline.desk], pipeline.access, pipeline.feed))
    with Server(app, Site(), pipeline.feed) as server, Warden() as warden:
        token = folder / "token"
        token.write_text(pipeline.access.read_token)
        (folder / "penstock.rules.yml").write_text(alert_rules_text())
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["penstock.rules.yml"],
            "scrape_configs": [
                {
                    "job_name": "penstock",
                    "authorization": {"credentials_file": str(token)},
                    "static_configs": [{"targets": [f"127.0.0.1:{server.port}"]}],
                }
            ],
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        with reserve_port("127.0.0.1", 0, "prometheus.port") as reserved:
            port = int(reserved.getsockname()[1])
        warden.start(
            "Prometheus",
            [str(programs[0]), f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}",
             f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"],
            log=folder / "prometheus.log",
            cwd=folder,
        )  # fmt: skip
        found = Scraped(port, pipeline)
        found.until(
            lambda: len(found.ask("query", query="rate(penstock_looks_total[30s]) > 0")["result"]) == len(_OPERATORS),
            "nothing was scraped twice",
        )
        request = urllib.request.Request(
            f"{server.address}/metrics", headers={"Authorization": f"Bearer {pipeline.access.read_token}"}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            found.text = answer.read().decode()
        yield found
    pipeline.history.close()
    pipeline.store.close()


def test_promtool_finds_no_fault_in_what_is_given(scraped: Scraped, tmp_path: Path) -> None:
    """Names, units and help texts keep to the conventions, and the alerts can be read."""
    lint = subprocess.run(
        ["promtool", "check", "metrics"], input=scraped.text, capture_output=True, text=True, check=False, timeout=60
    )
    assert (lint.returncode, lint.stdout + lint.stderr) == (0, "")
    rules = tmp_path / "rules.yml"
    rules.write_text(alert_rules_text())
    checked = subprocess.run(
        ["promtool", "check", "rules", str(rules)], capture_output=True, text=True, check=False, timeout=60
    )
    assert checked.returncode == 0, checked.stderr
    assert f"{len(ALERTS)} rules found" in checked.stdout


def test_the_target_is_up_and_all_that_is_given_arrives(scraped: Scraped) -> None:
    """Every family has its series, with no labels but those that are promised; nothing is missing that is known."""
    targets = scraped.ask("targets")["activeTargets"]
    assert [(one["health"], one["lastError"]) for one in targets] == [("up", "")]
    seen = scraped.pipeline.desk.seen("parser")
    unknown = {prometheus_name(m.name, m.unit) for m in METRICS.values() if seen is None or m.read(seen) is None}
    assert {one.sample_name for one in EXPOSED} - unknown - _OF_JUDGED_PLANS <= scraped.given
    for one in EXPOSED:
        series = scraped.ask("query", query=one.sample_name)["result"]
        assert bool(series) is (one.sample_name in scraped.given), one.sample_name
        for found in series:
            assert set(found["metric"]) == {"__name__", "instance", "job", "pipeline", "operator", *one.labels}


def test_every_query_of_the_dashboard_answers(scraped: Scraped) -> None:
    """With the variables filled in as Grafana does, each is understood and finds the series that are given."""
    drawn = dashboard()
    for variable in drawn["templating"]["list"][1:]:
        query = variable["query"].removeprefix("label_values(").rpartition(",")[0]
        assert scraped.ask("query", query=query.replace("$pipeline", ".+"))["result"]
    for panel in drawn["panels"]:
        for target in panel["targets"]:
            query = target["expr"].replace("$pipeline", ".+").replace("$operator", ".+")
            found = scraped.ask("query", query=query.replace("$__rate_interval", "30s"))["result"]
            is_given = any(name in scraped.given for name in re.findall(r"penstock_\w+", query))
            assert bool(found) is is_given, query


def test_the_alerts_are_loaded_and_evaluated(scraped: Scraped) -> None:
    """All of them, without an error; and the one about orders waits while nobody has ordered anything."""

    def rules() -> list[dict[str, Any]]:
        groups = scraped.ask("rules")["groups"]
        return [rule for group in groups for rule in group["rules"]]

    scraped.until(lambda: all(rule["health"] == "ok" for rule in rules()), "alerts were not evaluated")
    assert [rule["name"] for rule in rules()] == [one.name for one in ALERTS]
    states = {rule["name"]: rule["state"] for rule in rules()}
    assert states["PenstockForgottenOrder"] == "inactive"
    assert states["PenstockGone"] == "inactive"
