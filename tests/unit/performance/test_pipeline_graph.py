# SPDX-License-Identifier: Apache-2.0
"""The pipeline's graph: order, paths, and everything that can be wrong with it."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigurationError
from penstock.performance.queueing.graph import PipelineGraph, Stream

DIAMOND = PipelineGraph(
    ("join", "left", "right", "parse"),
    (
        Stream("log", None, ("parse",)),
        Stream("events", "parse", ("left", "right")),
        Stream("l", "left", ("join",)),
        Stream("r", "right", ("join",)),
    ),
)


def test_operators_come_after_what_they_read() -> None:
    """The order puts every operator behind the writers of its streams."""
    place = {name: i for i, name in enumerate(DIAMOND.order)}
    assert place["parse"] < place["left"] < place["join"]
    assert place["right"] < place["join"]
    assert DIAMOND.sources == ("log",)


def test_every_way_is_a_path() -> None:
    """A diamond has two paths from its source to its end."""
    assert [path.operators for path in DIAMOND.paths] == [("parse", "left", "join"), ("parse", "right", "join")]
    assert {path.source for path in DIAMOND.paths} == {"log"}


@pytest.mark.parametrize(
    ("operators", "streams", "message"),
    [
        (("a",), (Stream("in", None, ("a", "b")),), "unknown operator 'b'"),
        (("a",), (Stream("in", None, ("a",)), Stream("out", "c", ("a",))), "unknown operator 'c'"),
        (("a",), (Stream("in", None, ("a",)), Stream("out", "a", ())), "'out' is dangling"),
        (("a", "b"), (Stream("in", None, ("a",)),), "'b' reads no stream"),
        (("a", "a"), (Stream("in", None, ("a",)),), "operator 'a' stands twice"),
        (("a",), (Stream("in", None, ("a",)), Stream("in", None, ("a",))), "stream 'in' stands twice"),
        (("a",), (Stream("in", None, ("a", "a")),), "reader 'a' stands twice"),
        ((), (), "no operator"),
    ],
)
def test_faults_are_named(operators: tuple[str, ...], streams: tuple[Stream, ...], message: str) -> None:
    """A graph that is no pipeline is refused with the name of what is wrong."""
    with pytest.raises(ConfigurationError, match=message):
        PipelineGraph(operators, streams)


def test_a_cycle_is_named_without_what_follows_it() -> None:
    """Operators in a cycle are listed; those that only come after it are not."""
    with pytest.raises(ConfigurationError, match="'b', 'c' form a cycle"):
        PipelineGraph(
            ("a", "b", "c", "d"),
            (
                Stream("in", None, ("a",)),
                Stream("ab", "a", ("b",)),
                Stream("bc", "b", ("c",)),
                Stream("cb", "c", ("b", "d")),
            ),
        )


def test_all_faults_are_told_at_once() -> None:
    """Several mistakes are listed in one error."""
    with pytest.raises(ConfigurationError) as caught:
        PipelineGraph(("a", "b"), (Stream("in", None, ("x",)), Stream("out", "a", ())))
    assert len(caught.value.faults) == 4
