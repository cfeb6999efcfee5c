# SPDX-License-Identifier: Apache-2.0
"""Which nodes a run may choose, and what is refused before it starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ConfigurationError
from penstock.records import Allocation
from penstock.running.run_nodes import check_nodes, run_nodes
from penstock.running.spark_configuration import spark_configuration
from penstock.settings import RunSettings, parse_settings

GEO = {
    "nodes": {"near": 0.5, "middle": 0.5, "far": 0.5},
    "round_trips": {"home:near": "10ms", "home:middle": "60ms", "home:far": "200ms", "near:far": "180ms"},
}


def a_run(policy: str = "gesscale+", executors: tuple[int, int] = (1, 2), **more: Any) -> RunSettings:
    """A run of the taxi application, with its policy named."""
    operator = {
        "name": "taxi", "app": "penstock.apps.taxi_attractions:taxi_attractions", "cpu_shares": [1.0],
        "executors": list(executors), "first_executors": more.pop("first", None),
    }  # fmt: skip
    arrivals = {"shape": "constant:rate=5,duration=9s", "options": {"payload": "taxi-ride"}}
    plain = {"name": "geo", "arrivals": arrivals, "operators": [operator], "policy": policy, **more}
    return parse_settings(plain)


def test_a_geo_cluster_gives_its_nodes_to_a_policy_that_chooses() -> None:
    """With the delays it was asked for until some are measured, and as many executors on each as fit."""
    settings = a_run(cluster={"geo": GEO | {"slots": 2}})
    nodes = run_nodes(settings)
    assert nodes is not None
    assert (nodes.names, nodes.driver, nodes.is_measured) == (("near", "middle", "far"), "home", True)
    assert nodes.on(settings.operators[0]).executors_per_node == 2
    assert nodes.round_trips is not None
    assert nodes.round_trips.between("near", "middle") == 0.0  # not listed: no delay
    assert nodes.round_trips.largest(["near", "far"]) == 0.2


def test_the_nodes_of_a_run_in_words(tmp_path: Path) -> None:
    """Which they are, whence round trips come, pairs that are missing, and where the driver is."""
    assert str(run_nodes(a_run(cluster={"geo": GEO}))) == (
        "near, middle, far; measured round trips; the driver is on home"
    )
    (tmp_path / "trips.csv").write_text("from,to,round_trip\na,b,10ms\n")
    nodes = {"names": ["a", "b", "c"], "round_trips": str(tmp_path / "trips.csv")}
    settings = a_run(cluster={"master": "spark://host:7077"}, nodes=nodes)
    assert str(run_nodes(settings)) == "a, b, c; round trips as given, 2 pairs are missing"
    named = a_run(cluster={"master": "spark://host:7077"}, nodes={"names": ["a"]})
    assert str(run_nodes(named)) == "a; no round trips are known"


def test_a_policy_that_chooses_no_nodes_leaves_them_to_the_cluster() -> None:
    """On the same cluster."""
    assert run_nodes(a_run("fixed", cluster={"geo": GEO})) is None


def test_a_policy_of_somebodys_own_is_given_nodes_where_the_settings_have_them() -> None:
    """An object may choose nodes, whatever policy the settings name; without `nodes` the cluster chooses for it."""
    settings = a_run("fixed", cluster={"geo": GEO}, nodes={"names": ["near", "far"]})
    with pytest.raises(ConfigurationError, match="chooses no nodes"):
        check_nodes(settings)
    check_nodes(settings, has_own_policy=True)
    nodes = run_nodes(settings, has_own_policy=True)
    assert nodes is not None
    assert nodes.names == ("near", "far")
    assert run_nodes(a_run("gesscale", cluster={"geo": GEO}), has_own_policy=True) is None


def test_without_nodes_the_cluster_chooses() -> None:
    """Whatever the policy."""
    assert run_nodes(a_run()) is None


def test_nodes_of_a_geo_cluster_can_be_narrowed() -> None:
    """By name, and to one executor on each; with the delays as they were set."""
    settings = a_run(
        cluster={"geo": GEO | {"slots": 2}}, nodes={"names": ["near", "far"], "executors": 1, "round_trips": "as-set"}
    )
    check_nodes(settings)
    nodes = run_nodes(settings)
    assert nodes is not None
    assert (nodes.names, nodes.is_measured) == (("near", "far"), False)
    assert nodes.on(settings.operators[0]).executors_per_node == 1


def test_a_table_of_a_geo_cluster_says_how_far_and_not_which_nodes(tmp_path: Path) -> None:
    """No executor can be on its home, nor on nodes that it does not have; a table of other nodes is a mistake."""
    table = tmp_path / "trips.csv"
    table.write_text("from,to,round_trip\nhome,near,10ms\nhome,far,20ms\nnear,elsewhere,1s\n")
    settings = a_run(cluster={"geo": GEO}, nodes={"round_trips": str(table)})
    check_nodes(settings)
    nodes = run_nodes(settings)
    assert nodes is not None
    assert (nodes.names, nodes.driver) == (("near", "middle", "far"), "home")
    assert nodes.round_trips is not None
    assert nodes.round_trips.between("home", "far") == 0.02
    table.write_text("from,to,round_trip\nedge-1,edge-2,10ms\n")
    with pytest.raises(ConfigurationError, match=r"has no node of cluster\.geo"):
        check_nodes(a_run(cluster={"geo": GEO}, nodes={"round_trips": str(table)}))


def test_a_table_serves_a_standalone_cluster(tmp_path: Path) -> None:
    """Its nodes are those of the table, without the driver's."""
    (tmp_path / "trips.csv").write_text("from,to,round_trip\nhere,a,10ms\nhere,b,20ms\n")
    settings = a_run(
        cluster={"master": "spark://host:7077"},
        nodes={"round_trips": str(tmp_path / "trips.csv"), "driver": "here"},
    )
    check_nodes(settings)
    nodes = run_nodes(settings)
    assert nodes is not None
    assert (nodes.names, nodes.is_measured, nodes.driver) == (("a", "b"), False, "here")


def test_a_master_is_asked_for_its_workers() -> None:
    """Where nobody names them; measured round trips need it too."""
    settings = a_run(
        cluster={"master": "spark://host:7077", "page": "http://host:8080"}, nodes={"round_trips": "measured"}
    )
    check_nodes(settings)
    nodes = run_nodes(settings, workers=("a", "b"))
    assert nodes is not None
    assert (nodes.names, nodes.driver, nodes.is_measured) == (("a", "b"), "driver", True)


def test_a_run_begins_on_the_nodes_nearest_to_the_driver() -> None:
    """With as many executors as the settings say, else with the most."""
    for first, expected in (
        (1, Allocation(1, nodes=(("near", 1),))),
        (None, Allocation(2, nodes=(("middle", 1), ("near", 1)))),
    ):
        settings = a_run(first=first, cluster={"geo": GEO})
        nodes = run_nodes(settings)
        assert nodes is not None
        assert nodes.first(settings.operators[0], nodes.on(settings.operators[0])) == expected


def test_there_is_room_for_executors_that_come_to_other_nodes_first() -> None:
    """The application may hold a core on every node, more than its executors ever are."""
    settings = a_run(cluster={"geo": GEO})
    nodes, operator = run_nodes(settings), settings.operators[0]
    assert nodes is not None
    assert spark_configuration(operator, {}, is_local=True, limits=nodes.on(operator))["spark.cores.max"] == "3"
    assert spark_configuration(operator, {}, is_local=True)["spark.cores.max"] == "2"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"nodes": {"names": ["a"]}}, "give `cluster.geo`"),
        ({"nodes": {"names": ["a"]}, "cluster": {"master": "yarn"}}, "standalone cluster"),
        ({"nodes": {"names": ["near"]}, "cluster": {"geo": GEO}, "policy": "fixed"}, "fixed chooses no nodes"),
        ({"nodes": {"names": ["nowhere"]}, "cluster": {"geo": GEO}}, "nowhere is not a node of cluster.geo"),
        ({"nodes": {"names": ["near"]}, "cluster": {"geo": GEO}}, "2 do not fit on 1 nodes with 1 each"),
        ({"nodes": {}, "cluster": {"master": "spark://h:1"}}, "give their `names`"),
        ({"nodes": {"names": ["a", "b"], "round_trips": "measured"}, "cluster": {"master": "spark://h:1"}}, "page"),
        ({"nodes": {"names": ["a", "b"], "round_trips": "as-set"}, "cluster": {"master": "spark://h:1"}}, "as-set"),
        ({"cluster": {"page": "http://h:8080"}}, "give `master: spark://host:port` too"),
    ],
)
def test_nodes_that_cannot_be_chosen_are_refused(more: dict[str, Any], words: str) -> None:
    """Before anything starts, with what to write instead."""
    with pytest.raises(ConfigurationError, match=words):
        check_nodes(a_run(**more))


def test_a_table_without_rows_names_no_node(tmp_path: Path) -> None:
    """Nothing else says which nodes there are; nobody would be asked for them when the run begins."""
    table = tmp_path / "trips.csv"
    table.write_text("from,to,round_trip\n")
    nodes, master = {"round_trips": str(table)}, "spark://host:7077"
    with pytest.raises(ConfigurationError, match=r"trips.csv has no node"):
        check_nodes(a_run(cluster={"master": master}, nodes=nodes))
    check_nodes(a_run(cluster={"master": master}, nodes=nodes | {"names": ["a", "b"]}))
    check_nodes(a_run(cluster={"master": master, "page": "http://host:8080"}, nodes=nodes))


def test_nodes_of_kubernetes_can_be_chosen_by_name() -> None:
    """They are named in the settings; a cluster that can be asked for them needs nothing else."""
    settings = a_run(cluster={"master": "k8s://https://h:6443"}, nodes={"names": ["a", "b"]})
    check_nodes(settings)
    nodes = run_nodes(settings)
    assert nodes is not None
    assert nodes.names == ("a", "b")
