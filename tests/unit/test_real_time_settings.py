# SPDX-License-Identifier: Apache-2.0
"""Operators in real-time mode: what a settings file may say of them, and every mistake told."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import ConfigurationError
from penstock.running.checks import check_run
from penstock.running.real_time_floor import check_floor, known_partitions
from penstock.running.spark_configuration import spark_configuration
from penstock.settings import OperatorSettings, RunSettings, parse_settings

MATCHER = {"name": "matcher", "app": "penstock.apps.log_analysis:match_lines", "trigger": "realtime"}


def settings(*operators: dict[str, Any], **others: Any) -> dict[str, Any]:
    """A pipeline of these operators on a broker of its own, as plain data."""
    arrivals = {"shape": "constant:rate=5,duration=5s"}
    return {"name": "p", "broker": {"partitions": 2}, "arrivals": arrivals, "operators": list(operators), **others}


def faults(data: dict[str, Any]) -> str:
    """What is wrong with it."""
    with pytest.raises(ConfigurationError) as told:
        parse_settings(data)
    return str(told.value)


def test_a_trigger_is_an_interval_or_realtime() -> None:
    """The two are told apart, and a real-time query keeps its progress once a minute where nothing is said."""
    (one,) = parse_settings(settings({**MATCHER, "trigger": "RealTime"})).operators
    assert (one.is_real_time, one.trigger_seconds, one.checkpoint_seconds) == (True, None, 60.0)
    (one,) = parse_settings(settings({**MATCHER, "checkpoint_every": "20s"})).operators
    assert one.checkpoint_seconds == 20.0
    (one,) = parse_settings(settings({**MATCHER, "trigger": "2s"})).operators
    assert (one.is_real_time, one.trigger_seconds, one.checkpoint_seconds) == (False, 2.0, None)
    (one,) = parse_settings(settings({**MATCHER, "trigger": None})).operators
    assert (one.is_real_time, one.trigger_seconds, one.checkpoint_seconds) == (False, None, None)


def test_settings_survive_being_written_down() -> None:
    """What a run keeps of its settings reads as the same settings again."""
    told = parse_settings(settings({**MATCHER, "checkpoint_every": "20s"}, {**MATCHER, "name": "b", "trigger": 3}))
    assert RunSettings.model_validate_json(told.model_dump_json()) == told


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"trigger": "real-time"}, 'operators.0.trigger: write an interval such as "2s", or realtime'),
        ({"checkpoint_every": "2s"}, "operators.0.checkpoint_every: must be at least 5"),
        ({"trigger": "2s", "checkpoint_every": "20s"}, "operators.0.checkpoint_every: is for `trigger: realtime`"),
        ({"unique": ["index"]}, "operators.0.unique: real-time mode cannot drop copies"),
        (
            {"input_options": {"maxOffsetsPerTrigger": 5}},
            "operators.0.input_options.maxOffsetsPerTrigger: a real-time batch has no limit of records; leave it out",
        ),
    ],
)
def test_a_mistake_names_its_field_and_the_fix(changes: dict[str, Any], said: str) -> None:
    """Each thing that real-time mode cannot have is refused."""
    assert said in faults(settings({**MATCHER, **changes}))


def test_it_needs_topics() -> None:
    """Without a broker there is nothing to read from."""
    told = faults(settings(MATCHER, broker=None))
    assert "operators.0.trigger: realtime reads and writes topics; give `broker`" in told


def test_nobody_reads_from_it_yet() -> None:
    """Records cannot be followed behind a real-time operator, so one below it is refused; one above it is not."""
    counter = {"name": "counter", "app": "penstock.apps.log_analysis:counter", "input": "matcher"}
    assert "operators.1.input: 'matcher' runs in real-time mode" in faults(settings(MATCHER, counter))
    parser = {"name": "parser", "app": "penstock.apps.log_analysis:parser"}
    assert parse_settings(settings(parser, {**MATCHER, "input": "parser"})).operators[1].is_real_time


def test_all_mistakes_are_told_at_once() -> None:
    """Those of real-time mode stand beside those of single fields."""
    told = faults(settings({**MATCHER, "unique": ["index"], "executers": 3}, broker=None))
    for word in ("operators.0.executers", "operators.0.unique", "operators.0.trigger"):
        assert word in told


def test_too_few_cores_are_found_before_anything_starts() -> None:
    """The floor is a core for each partition of the topic; the fix is written out."""
    with pytest.raises(ConfigurationError) as told:
        check_run(parse_settings(settings(MATCHER)))
    assert "operators.0.executors: 1 with 1 core each are too few" in str(told.value)
    assert "write [2, 2], or make fewer partitions" in str(told.value)
    check_run(parse_settings(settings({**MATCHER, "executors": [2, 2]})))
    check_run(parse_settings(settings({**MATCHER, "executor_cores": 2})))
    check_run(parse_settings(settings(MATCHER, broker={"partitions": 1})))


def test_the_partitions_of_an_outside_topic_are_asked_for_later() -> None:
    """Before the start nobody knows them; once known they count."""
    told = parse_settings(
        settings(
            {**MATCHER, "executors": [2, 2]}, arrivals={"topic": "lines"}, broker={"servers": "h:1", "partitions": 2}
        )
    )
    assert known_partitions(told) == {"matcher": 2}
    check_floor(told, known_partitions(told))
    with pytest.raises(ConfigurationError, match=r"operators.0.executors: .*it needs 3 cores"):
        check_floor(told, {"arrivals": 3, "matcher": 2})


def test_a_shuffle_gets_the_cores_that_the_source_leaves() -> None:
    """Tasks behind a shuffle run at the same time as those that read; in micro-batches one after the other."""
    operator = OperatorSettings.model_validate({**MATCHER, "executors": [3, 4]})
    configuration = spark_configuration(operator, {}, is_local=True, source_partitions=2)
    assert configuration["spark.sql.shuffle.partitions"] == "1"
    operator = OperatorSettings.model_validate({**MATCHER, "executors": [3, 4], "trigger": "1s"})
    configuration = spark_configuration(operator, {}, is_local=True, source_partitions=2)
    assert configuration["spark.sql.shuffle.partitions"] == "4"
