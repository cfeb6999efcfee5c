# SPDX-License-Identifier: Apache-2.0
"""The shape of a pipeline: order, paths and rates of a graph, and what is said about one that is none."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigurationError
from penstock.topology import (
    ARRIVALS,
    MOST_PATHS,
    Stream,
    Topology,
    check_selectivity,
    parse_path,
    path_text,
    topology_faults,
)

DIAMOND = Topology.from_inputs(
    {"join": ["left", "right"], "left": ["parser"], "right": ["parser"], "parser": [ARRIVALS]}
)


def test_operators_come_after_all_that_they_read_from() -> None:
    """The order follows the streams, and among equals the order in which they were given."""
    assert DIAMOND.order == ("parser", "left", "right", "join")
    assert Topology.from_inputs({"b": [ARRIVALS], "a": [ARRIVALS]}).order == ("b", "a")


def test_neighbours_are_found_by_name() -> None:
    """Who reads from whom, in both directions, and where the graph begins and ends."""
    assert [str(stream) for stream in DIAMOND.outputs("parser")] == ["parser -> left", "parser -> right"]
    assert [stream.source for stream in DIAMOND.inputs("parser")] == [ARRIVALS]
    assert (DIAMOND.entries, DIAMOND.sinks) == (("parser",), ("join",))


def test_every_way_from_the_arrivals_to_the_end_is_a_path() -> None:
    """A diamond has two, a fork one for each end; an operator that is read from ends none."""
    assert DIAMOND.paths == (("parser", "left", "join"), ("parser", "right", "join"))
    assert DIAMOND.ways["left"] == (("parser", "left"),)
    mixed = Topology.from_inputs({"a": [ARRIVALS], "b": ["a", ARRIVALS]})
    assert mixed.paths == (("a", "b"), ("b",))
    assert mixed.entries == ("a", "b")
    assert Topology.of_one("only").paths == (("only",),)


def test_visits_follow_selectivities_of_operators_and_streams() -> None:
    """Records multiply along the way and add up where ways meet; an operator of which nothing is said passes all."""
    split = Topology(
        ("a", "b", "c"), (Stream(ARRIVALS, "a"), Stream("a", "b", 0.3), Stream("a", "c", 0.7), Stream("b", "c"))
    )
    assert split.visits({"a": 2.0}) == pytest.approx({"a": 1.0, "b": 0.6, "c": 2.0})
    assert split.visits({}) == pytest.approx({"a": 1.0, "b": 0.3, "c": 1.0})


@pytest.mark.parametrize(
    ("operators", "streams", "words"),
    [
        ((), (), "give at least one"),
        (("a", "a"), ((ARRIVALS, "a"),), "'a' is named twice"),
        ((ARRIVALS,), (), "is the name of the pipeline's source"),
        (("a",), (("x", "a"), (ARRIVALS, "a")), "x -> a: 'x' is not one of arrivals, a"),
        (("a",), ((ARRIVALS, "a"), ("a", ARRIVALS)), "nothing flows into the arrivals"),
        (("a",), ((ARRIVALS, "a"), (ARRIVALS, "a")), "is there twice"),
        (("a", "b"), ((ARRIVALS, "a"), ("a", "b"), ("b", "a")), "is a cycle"),
        (("a",), ((ARRIVALS, "a"), ("a", "a")), "is a cycle"),
        (("a", "b"), ((ARRIVALS, "a"),), "nothing reaches 'b'; add a stream into it, such as arrivals -> b"),
        (("a", "b"), (), "nothing reaches 'a'"),
    ],
)
def test_a_graph_that_is_no_pipeline_is_refused(
    operators: tuple[str, ...], streams: tuple[tuple[str, str], ...], words: str
) -> None:
    """The fault says what is wrong and how to mend it, as a list and as an error."""
    assert any(words in fault for fault in topology_faults(operators, streams))
    with pytest.raises(ConfigurationError, match=words):
        Topology(operators, tuple(Stream(source, target) for source, target in streams))


def test_every_mistake_is_listed() -> None:
    """Names are checked all at once; each mistake is said once."""
    with pytest.raises(ConfigurationError, match="3 mistakes") as caught:
        Topology(("a", "a"), (Stream("x", "a"), Stream("a", "y")), "mine")
    assert len(caught.value.faults) == 3
    assert str(caught.value).startswith("mine: ")
    assert topology_faults(["a"], [(ARRIVALS, "a")]) == []


def test_a_graph_with_too_many_ways_is_refused_before_they_are_listed() -> None:
    """Ten diamonds one after another have a thousand paths: too many to keep an account of each."""
    inputs: dict[str, list[str]] = {"end0": [ARRIVALS]}
    for i in range(12):
        inputs |= {f"l{i}": [f"end{i}"], f"r{i}": [f"end{i}"], f"end{i + 1}": [f"l{i}", f"r{i}"]}
    with pytest.raises(ConfigurationError, match=f"more than {MOST_PATHS} ways"):
        _ = Topology.from_inputs(inputs).paths


@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan")])
def test_a_selectivity_is_a_positive_number(value: float) -> None:
    """Anything else names the stream that has it."""
    with pytest.raises(ConfigurationError, match="stream a -> b: selectivity"):
        Stream("a", "b", value)
    with pytest.raises(ConfigurationError, match="operator a: selectivity"):
        check_selectivity("operator a", value)


def test_a_path_survives_being_written_and_read() -> None:
    """Texts of paths are read with any spaces around the arrows."""
    assert parse_path(path_text(("parser", "matcher"))) == ("parser", "matcher")
    assert parse_path("a->  b ->c") == ("a", "b", "c")
    assert path_text(()) == ""
