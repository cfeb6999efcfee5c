# SPDX-License-Identifier: Apache-2.0
"""Wrong arguments of `attach`: each is named with the fix, all at once, and the query is not touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.adaptors.spark.java_query import java_query, relation_v2

import penstock as ps
from penstock import _attach
from penstock.knowledge import SqliteStore

RATE = relation_v2("rate", {"rowsPerSecond": "10"})


@pytest.fixture(autouse=True)
def untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither what the query reads is asked for, nor is the query held."""

    def touched(*_: Any, **__: Any) -> Any:
        raise AssertionError("the query was touched")

    monkeypatch.setattr(_attach, "hold_query", touched)
    monkeypatch.setattr(_attach, "_facts", touched)


def refusal(**arguments: Any) -> ps.ConfigurationError:
    """What attach says to these arguments."""
    with pytest.raises(ps.ConfigurationError) as found:
        ps.attach(java_query(RATE), **arguments)
    return found.value


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"arrivals": 3}, "arrivals: 3 is none; give an object with of, arrived_by, done_index"),
        ({"arrivals": SqliteStore}, "arrivals: <class"),
        ({"name": 3}, 'name: 3 is none; write a text such as "counts", or leave it out'),
        ({"name": " "}, "name: ' ' is none"),
        ({"store": 3}, 'store: 3 is no file; write its path, such as "scaler.sqlite", an address of PostgreSQL'),
        ({"store": "/"}, "store: / is a folder; name a file in it, such as /scaler.sqlite"),
        ({"store": "/nowhere/at/all.sqlite"}, "store: the folder /nowhere/at does not exist; create it first"),
        ({"policy_options": [1]}, "policy_options: [1] are none; write names and values"),
        ({"policy_options": {1: 2}}, "policy_options: {1: 2} are none"),
        ({"executors": 3}, "executors: 3; write them like (1, 8)"),
        ({"cpu_shares": 0.5}, "cpu_shares: 0.5; write them like (0.5, 1.0)"),
        ({"mode": "do"}, 'mode: \'do\' is unknown; use "act" or "recommend"'),
    ],
)
def test_each_mistake_is_named_with_its_fix(arguments: dict[str, Any], words: str) -> None:
    """The message begins with the argument, which is the error's field too."""
    fault = refusal(**arguments)
    assert str(fault).startswith(words)
    assert fault.field == next(iter(arguments))


@pytest.mark.parametrize(
    ("guards", "words"),
    [
        ({"cooldown": "5s"}, "guards.cooldown: is not a setting; did you mean `cooldown_up` or `cooldown_down`?"),
        ({"settle": "soon"}, "guards.settle: cannot read 'soon'; write a duration"),
        (3, "guards: write names and values, with some of: cooldown_up"),
        ("no", "guards: write names and values, with some of: cooldown_up"),
    ],
)
def test_mistakes_in_guards_are_those_of_a_settings_file(guards: Any, words: str) -> None:
    """The words are Penstock's own, not those of the library that checks them."""
    assert str(refusal(guards=guards)).startswith(words)


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    """Also those of the policy and its options, which are looked at without the query."""
    fault = refusal(
        arrivals=3, name=3, store=tmp_path, executors=(3, 1), interval_seconds="fast",
        guards={"settle": "soon", "drain": "late"}, policy="threshold", policy_options={"upper": 7.0, "lower": "x"},
    )  # fmt: skip
    named = [text.split(":")[0] for text in fault.faults]
    assert named == [
        "executors", "interval_seconds", "guards.drain", "guards.settle", "name", "arrivals", "store", "lower", "upper",
    ]  # fmt: skip
    assert str(fault).startswith("attach: 9 mistakes\n")


def test_a_file_that_is_not_a_store_is_refused_and_kept(tmp_path: Path) -> None:
    """What is in it is somebody's."""
    file = tmp_path / "notes.txt"
    file.write_text("these are words, and no database at all\n" * 30)
    assert str(refusal(store=file)).startswith(f"store: {file}: this is not an SQLite file")
    assert file.read_text().startswith("these are words")


def test_an_object_that_lacks_a_method_is_named() -> None:
    """Half of the port is not enough."""

    class Half:
        def of(self, source: Any) -> None: ...

    assert "lacks arrived_by, done_index; give it all methods" in str(refusal(arrivals=Half()))
