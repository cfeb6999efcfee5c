# SPDX-License-Identifier: Apache-2.0
"""`penstock demo`: its options become settings, wrong ones are named all at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.demo import demo_settings, lasting
from penstock.errors import ConfigurationError


def test_without_options_the_built_in_demo() -> None:
    """The built-in settings are valid and have the sizes the help names."""
    settings = demo_settings()
    (operator,) = settings.operators
    assert operator.app == "penstock.apps.log_analysis:log_analysis"
    assert operator.executors == (1, 2)
    assert operator.cpu_shares == (0.4, 0.55, 0.7, 0.85, 1.0)
    assert settings.objective == {"p95": 6.0}
    assert settings.policy.name == "mead"
    assert settings.policy.options["every_seconds"] == "5s"
    assert "duration=4m" in str(settings.arrivals.shape)
    assert settings.arrivals.options["payload"] == "log"


def test_every_option_reaches_the_settings(tmp_path: Path) -> None:
    """Each option changes the setting it names."""
    settings = demo_settings(
        minutes=1.5, objective="mean=500ms", policy="fixed", mode="recommend", executors="2:3",
        cpu_shares="0.5,1.0", patterns=tmp_path / "patterns.txt",
    )  # fmt: skip
    (operator,) = settings.operators
    assert "duration=90s" in str(settings.arrivals.shape)
    assert settings.objective == {"mean": 0.5}
    assert (settings.policy.name, settings.policy.options) == ("fixed", {})
    assert settings.mode == "recommend"
    assert operator.executors == (2, 3)
    assert operator.cpu_shares == (0.5, 1.0)
    assert operator.options["patterns"] == str(tmp_path / "patterns.txt")


def test_a_single_number_of_executors_is_both_ends() -> None:
    """`--executors 2` means always two."""
    assert demo_settings(executors="2").operators[0].executors == (2, 2)


@pytest.mark.parametrize(
    ("shape", "minutes", "expected"),
    [
        ("constant:rate=5,duration=9s", None, "constant:rate=5,duration=9s"),
        ("constant:rate=5", None, "constant:rate=5,duration=240s"),
        ("constant:duration=9s,rate=5", 1.0, "constant:duration=60s,rate=5"),
        ("steps:30s@5,30s@9", None, "steps:30s@5,30s@9"),
        ("steps:30s@5,30s@9", 2.0, "steps:30s@5,30s@9,duration=120s"),
    ],
)
def test_minutes_set_the_duration_of_a_shape(shape: str, minutes: float | None, expected: str) -> None:
    """A shape keeps its own duration unless minutes are given; one without gets the default."""
    assert lasting(shape, minutes) == expected


def test_minutes_set_the_speed_of_a_trace(tmp_path: Path) -> None:
    """A trace of 120 s in one minute is played at twice its speed; without minutes at its own."""
    trace = tmp_path / "trace.txt"
    trace.write_text("0\n60\n120\n")
    assert demo_settings(trace=trace, minutes=1.0).arrivals.options["speed"] == "2.0"
    assert "speed" not in demo_settings(trace=trace).arrivals.options


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--objective", "p95", "--objective: cannot read 'p95'; write it like p95=6s"),
        ("--objective", "p42=3s", "--objective: unknown statistic 'p42'"),
        ("--objective", "p95=soon", "--objective.p95: cannot read 'soon'"),
        ("--objective", "p95=0s", "--objective: the bound must be a positive time"),
        ("--executors", "3:1", "--executors: minimum 3 is above maximum 1"),
        ("--executors", "0:1", "--executors: the minimum is 0"),
        ("--executors", "many", "--executors: cannot read 'many'"),
        ("--cpu-shares", "0.4,1.5", "--cpu-shares: 1.5 is outside (0, 1]"),
        ("--cpu-shares", "1.0,0.4", "must rise without repeats"),
        ("--cpu-shares", "nan", "--cpu-shares: nan is outside"),
        ("--cpu-shares", "", "--cpu-shares: cannot read ''"),
        ("--minutes", "0", "--minutes: 0 is not between"),
        ("--minutes", "nan", "--minutes: nan is not between"),
        ("--policy", "magic", "unknown policy 'magic'; known: mead, mead-published"),
        ("--mode", "maybe", "'maybe' is not one of 'act', 'recommend'"),
        ("--minutes", "long", "'long' is not a valid float"),
        ("--trace", "nowhere.txt", "nowhere.txt"),
        ("--shape", "wave:rate=5", "unknown shape 'wave'"),
        ("--patterns", "nowhere.txt", "nowhere.txt"),
    ],
)
def test_bad_options_end_with_code_two_and_leave_nothing(
    invoke: Callable[..., Any], here: Path, option: str, value: str, words: str
) -> None:
    """A wrong value is told with its option and the fix; no folder is made."""
    result = invoke("demo", "--no-view", option, value)
    assert result.exit_code == 2, result.output
    assert words in result.stderr
    assert list(here.iterdir()) == []


def test_all_mistakes_are_told_at_once() -> None:
    """Mistakes in several options come in one message."""
    with pytest.raises(ConfigurationError) as caught:
        demo_settings(objective="p95", executors="3:1", cpu_shares="2", minutes=-1.0)
    assert [fault.split(":")[0] for fault in caught.value.faults] == [
        "--objective", "--executors", "--cpu-shares", "--minutes",
    ]  # fmt: skip


def test_a_shape_beside_a_trace_is_refused(invoke: Callable[..., Any], here: Path) -> None:
    """Only one of --shape and --trace can be played."""
    result = invoke("demo", "--shape", "constant:rate=5", "--trace", "x.txt")
    assert result.exit_code == 2
    assert "either a trace or a shape" in result.stderr


def test_json_is_the_last_line_and_alone_on_stdout(invoke: Callable[..., Any], here: Path, pipeline: Any) -> None:
    """With --json stdout is one object with the run's figures; words go to stderr; the report is written."""
    result = invoke("demo", "--minutes", "1", "--no-view", "--json")
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) == 1
    found = json.loads(result.stdout)
    assert {"records_due", "records_read", "records_done", "objective", "latency", "cpu_share_mean",
            "executor_seconds", "decisions"} <= set(found)  # fmt: skip
    assert set(found["latency"]) >= {"mean", "p50", "p95", "p99"}
    assert all(d["reason"] for d in found["decisions"])
    assert "starting the Spark cluster" in result.stderr
    (folder,) = (here / "runs").iterdir()
    assert folder.name.startswith("demo-20")
    assert (here / found["report"]).read_text().startswith("<!DOCTYPE html>")
    assert pipeline.settings is not None
    assert pipeline.settings.name == "demo"
