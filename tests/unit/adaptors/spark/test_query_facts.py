# SPDX-License-Identifier: Apache-2.0
"""What is read from a running query: trigger, cap and sources; and what is not known stays so."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from py4j.protocol import Py4JError
from tests.unit.adaptors.spark.java_query import java_query, relation_v1, relation_v2, static_relation

from penstock.adaptors.spark.query_facts import QueryFacts, QuerySource, read_query_facts

RATE = relation_v2("rate", {"rowsPerSecond": "10"})


@pytest.mark.parametrize(
    ("trigger", "seconds", "is_real_time"),
    [
        ("ProcessingTimeTrigger(4000)", 4.0, False),
        ("ProcessingTimeTrigger(500)", 0.5, False),
        ("ProcessingTimeTrigger(0)", None, False),
        ("RealTimeTrigger(10000)", None, True),
        ("AvailableNowTrigger", None, False),
        ("OneTimeTrigger", None, False),
    ],
)
def test_the_trigger_is_read(trigger: str, seconds: float | None, is_real_time: bool) -> None:
    """An interval is one of a processing-time trigger; that of real-time mode is the length of its batches."""
    facts = read_query_facts(java_query(RATE, trigger=trigger))
    assert (facts.trigger_seconds, facts.is_real_time, facts.notes) == (seconds, is_real_time, ())


def test_a_trigger_of_another_kind_is_not_guessed() -> None:
    """What Penstock has no word for stays unknown, and a note names it."""
    facts = read_query_facts(java_query(RATE, trigger="ContinuousTrigger(2000)"))
    assert facts.trigger_seconds is None
    assert facts.notes == (
        "the trigger of the query is not known, and plans go without it: ContinuousTrigger(2000) is not known here",
    )


def test_sources_are_read_with_their_options_and_tables_are_left_out() -> None:
    """Both of Spark's APIs; a table that the stream is joined with is no source."""
    query = java_query(relation_v1("text", {"maxFilesPerTrigger": "1", "path": "/in"}), static_relation(), RATE)
    facts = read_query_facts(query)
    assert facts.sources == (
        QuerySource("text", {"maxfilespertrigger": "1", "path": "/in"}),
        QuerySource("rate", {"rowspersecond": "10"}),
    )
    assert facts.cap is None
    assert facts.notes == ("maxFilesPerTrigger of text bounds a batch, but not in records; plans go without it",)


@pytest.mark.parametrize(
    ("leaves", "cap"),
    [
        ([relation_v2("kafka", {"MaxOffsetsPerTrigger": "1000"})], 1000),
        ([relation_v2("penstock_replay", {"maxRowsPerBatch": "40"})], 40),
        ([relation_v2("rate-micro-batch", {"rowsPerBatch": "7"})], 7),
        ([relation_v2("kafka", {"maxOffsetsPerTrigger": "1000"}), relation_v2("kafka", {})], None),
        (
            [relation_v2("kafka", {"maxOffsetsPerTrigger": "30"}), relation_v2("kafka", {"maxoffsetspertrigger": "4"})],
            34,
        ),
        ([RATE], None),
        ([], None),
    ],
)
def test_the_cap_is_that_of_all_sources_together(leaves: list[Any], cap: int | None) -> None:
    """A batch is bounded where every source is."""
    assert read_query_facts(java_query(*leaves)).cap == cap


def test_what_cannot_be_read_is_not_known() -> None:
    """Another Spark may have none of this; each part that fails is a note, and nothing is raised."""

    def fail() -> Any:
        raise Py4JError("An error occurred while calling o413.streamingQuery. Trace:\npy4j.Py4JException: no method")

    broken = cast(Any, SimpleNamespace(_jsq=SimpleNamespace(streamingQuery=fail)))
    facts = read_query_facts(broken)
    assert facts == QueryFacts(notes=facts.notes)
    assert [note.split(":")[0] for note in facts.notes] == [
        "the trigger of the query is not known, and plans go without it",
        "what the query reads is not known, nor the most records of a batch",
    ]
    assert "\n" not in "".join(facts.notes)
    assert len(read_query_facts(cast(Any, object())).notes) == 2


def test_a_source_does_not_show_its_secrets() -> None:
    """Options of a source may hold a password."""
    shown = repr(QuerySource("kafka", {"subscribe": "a", "kafka.sasl.jaas.config": "password=hunter2"}))
    assert "hunter2" not in shown
    assert "'subscribe': 'a'" in shown
