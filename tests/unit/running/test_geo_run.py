# SPDX-License-Identifier: Apache-2.0
"""A run on a geo cluster: its settings, what is refused before anything starts, and where drivers run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.demo import demo_settings
from penstock.errors import ConfigurationError
from penstock.running.checks import check_run
from penstock.running.operator_launcher import OperatorLauncher
from penstock.running.spark_configuration import spark_configuration
from penstock.settings import GeoSettings, RunSettings, parse_settings


def run_on(geo: dict[str, Any], **more: Any) -> RunSettings:
    """A run of the taxi application."""
    operator = {"name": "taxi", "app": "penstock.apps.taxi_attractions:taxi_attractions", "cpu_shares": [1.0]}
    return parse_settings(
        {
            "name": "geo",
            "cluster": {"geo": geo},
            "arrivals": {"shape": "constant:rate=5,duration=9s", "options": {"payload": "taxi-ride"}},
            "operators": [operator | more],
            "policy": "fixed",
        },
        "here",
    )


def test_the_geo_demo_has_nodes_with_delays() -> None:
    """Three nodes of half a core, all pairs with home apart, and the taxi application with all CPU of a node."""
    settings = demo_settings(geo=True)
    geo = settings.cluster.geo
    assert geo is not None
    assert geo.nodes == {"near": 0.5, "middle": 0.5, "far": 0.5}
    assert len(geo.pairs) == 6
    assert geo.pairs["home", "far"] == 0.2
    assert settings.operators[0].app.endswith(":taxi_attractions")
    assert settings.operators[0].cpu_shares == (1.0,)


def test_round_trips_of_the_demo_can_be_replaced() -> None:
    """A pair in any order replaces the built-in one, and the others stay."""
    geo = demo_settings(geo=True, round_trips="far:home=300ms").cluster.geo
    assert geo is not None
    assert geo.pairs["far", "home"] == 0.3
    assert ("home", "far") not in geo.pairs
    assert geo.pairs["home", "near"] == 0.01


def test_options_of_the_other_demo_are_refused() -> None:
    """Patterns belong to logs and round trips to nodes; each is named, and so is what cannot be read."""
    with pytest.raises(ConfigurationError, match="--patterns: taxi rides have none"):
        demo_settings(geo=True, patterns=Path("p"))
    with pytest.raises(ConfigurationError, match="--round-trips: are those of --geo"):
        demo_settings(round_trips="home:far=1ms")
    with pytest.raises(ConfigurationError, match="--round-trips: cannot read 'far'"):
        demo_settings(geo=True, round_trips="far")


@pytest.mark.parametrize(
    ("geo", "words"),
    [
        ({"nodes": {}}, "at least one"),
        ({"nodes": {"home": 1}}, "home is the node of master and drivers"),
        ({"nodes": {"far": 0}}, "far has 0 cores"),
        ({"nodes": {"far": 1}, "round_trips": {"far": "1ms"}}, "does not name two nodes"),
        ({"nodes": {"far": 1}, "round_trips": {"far:far": "1ms"}}, "does not name two nodes"),
        ({"nodes": {"far": 1}, "round_trips": {"home:far": "soon"}}, "soon"),
    ],
)
def test_wrong_geo_settings_are_named(geo: dict[str, Any], words: str) -> None:
    """Each wrong value is refused where it stands."""
    with pytest.raises(ConfigurationError, match=words) as caught:
        run_on(geo)
    assert "geo" in str(caught.value)


def test_what_a_geo_cluster_cannot_do_is_refused_before_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unknown nodes, wrong names, shares beside a node's cap, more executors than room, no root: all at once."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    settings = run_on(
        {"nodes": {"Far": 1}, "round_trips": {"home:farr": "1ms"}}, cpu_shares=[0.5, 1.0], executors=[1, 2]
    )
    with pytest.raises(ConfigurationError) as caught:
        check_run(settings)
    faults = "\n".join(caught.value.faults)
    for words in (
        "'Far' cannot be a host's name", "no node farr", "set `cpu_shares: [1.0]`", "need root",
        "operators.0.executors: 2 do not fit on 1 nodes with room for 1 cores",
    ):  # fmt: skip
        assert words in faults


def test_a_driver_listens_at_its_node_and_is_started_there(tmp_path: Path) -> None:
    """The driver's address is that of its node, and its command begins with what enters the node."""
    operator = run_on({"nodes": {"far": None}}).operators[0]
    configuration = spark_configuration(operator, {}, is_local=True, driver_host="10.83.0.1")
    assert configuration["spark.driver.host"] == configuration["spark.driver.bindAddress"] == "10.83.0.1"
    assert spark_configuration(operator, {}, is_local=True)["spark.driver.host"] == "127.0.0.1"
    launcher = OperatorLauncher("taxi", tmp_path, tmp_path / "logs", {}, None, command=lambda argv: ["enter", *argv])
    assert launcher._command(["python", "x"]) == ["enter", "python", "x"]


def test_round_trips_are_read_by_their_two_nodes() -> None:
    """In seconds, whatever the unit was."""
    geo = GeoSettings.model_validate({"nodes": {"a": None, "b": 2}, "round_trips": {"home:a": "20ms", "a:b": 1}})
    assert geo.pairs == {("home", "a"): 0.02, ("a", "b"): 1.0}
