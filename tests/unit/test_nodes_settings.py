# SPDX-License-Identifier: Apache-2.0
"""Nodes in a settings file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ConfigurationError
from penstock.evaluation.pipeline_file import parse_pipeline
from penstock.settings import parse_settings


def settings(**nodes: Any) -> dict[str, Any]:
    """A pipeline of one operator with up to two executors."""
    batch = {"fixed": "100ms", "per_record": "1ms", "round_trips": 2, "parallel": 0.9}
    operator = {"name": "rides", "executors": [1, 2], "micro_batch": batch, "standstill": "5s"}
    return {"name": "taxi", "operators": [operator], "nodes": nodes}


def test_nodes_and_round_trips_reach_the_simulator(tmp_path: Path) -> None:
    """The table is looked for beside the file; limits have the nodes, the pipeline has the map."""
    (tmp_path / "trips.csv").write_text("from,to,round_trip\na,b,100ms\n")
    found = parse_pipeline(settings(round_trips="trips.csv", executors=1), folder=tmp_path).pipeline
    limits = found.operators[0].limits
    assert (limits.nodes, limits.executors_per_node) == (("a", "b"), 1)
    assert found.round_trips is not None
    assert found.round_trips.between("a", "b") == 0.1
    assert found.operators[0].standstill_seconds == 5.0


def test_names_alone_are_enough() -> None:
    """Nobody knows how far they are apart: all are equally near."""
    found = parse_pipeline(settings(names=["a", "b", "c"])).pipeline
    assert found.operators[0].limits.nodes == ("a", "b", "c")


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ({"names": ["a", "a"]}, "named once"),
        ({"names": ["a"], "executors": 0}, "nodes.executors"),
        ({"names": ["a"], "delay": 1}, "is not a setting"),
    ],
)
def test_wrong_nodes_are_reported_with_their_path(nodes: dict[str, Any], words: str) -> None:
    """As every other setting."""
    with pytest.raises(ConfigurationError, match=words):
        parse_settings(settings(**nodes))


def test_more_executors_than_the_nodes_hold_are_refused() -> None:
    """The message names both numbers."""
    with pytest.raises(ConfigurationError, match="do not fit on 1 nodes"):
        _ = parse_pipeline(settings(names=["a"], executors=1)).pipeline


@pytest.mark.parametrize(
    ("nodes", "words"),
    [({}, "give the nodes' `names`"), ({"names": ["a", "b"], "round_trips": "measured"}, "give a table")],
)
def test_what_only_a_cluster_knows_cannot_be_simulated(nodes: dict[str, Any], words: str) -> None:
    """The message says what to give instead."""
    with pytest.raises(ConfigurationError, match=words):
        _ = parse_pipeline(settings(**nodes)).pipeline


def test_the_driver_of_the_table_is_no_node_for_executors(tmp_path: Path) -> None:
    """Unless it is named as one: its way to the others counts all the same."""
    (tmp_path / "trips.csv").write_text("from,to,round_trip\nhome,a,100ms\nhome,b,10ms\n")
    found = parse_pipeline(settings(round_trips="trips.csv", driver="home"), folder=tmp_path).pipeline
    assert found.operators[0].limits.nodes == ("a", "b")
    assert found.round_trips is not None
    assert found.round_trips.largest(["a"]) == 0.1


def test_a_driver_that_the_table_does_not_know_is_refused(tmp_path: Path) -> None:
    """All nodes would count as far from it, and nobody would see why."""
    (tmp_path / "trips.csv").write_text("from,to,round_trip\nhome,a,100ms\nhome,b,10ms\n")
    for names in ([], ["a", "b"]):
        with pytest.raises(ConfigurationError, match=r"nodes\.driver: 'hom' is in no row"):
            _ = parse_pipeline(settings(round_trips="trips.csv", driver="hom", names=names), folder=tmp_path).pipeline


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"cluster": {"page": "host:8080"}}, "http://host:8080"),
        ({"operators": [{"name": "rides", "executors": [1, 2], "first_executors": 3}]}, "outside `executors`"),
    ],
)
def test_wrong_pages_and_first_executors_are_refused(part: dict[str, Any], words: str) -> None:
    """Each says what would be right."""
    with pytest.raises(ConfigurationError, match=words):
        parse_settings(settings(names=["a"]) | part)
