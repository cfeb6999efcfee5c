# SPDX-License-Identifier: Apache-2.0
"""A settings file: everything wrong is told at once, and nothing else is accepted."""

from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ConfigurationError
from penstock.records import Objective
from penstock.settings import (
    WITH_SECRETS,
    load_settings,
    make_objective,
    mode_of,
    objective_settings,
    parse_settings,
    run_faults,
)
from penstock.topology import ARRIVALS, Stream

EXPONENTIAL = {"distribution": "exponential", "mean": "1ms"}
BATCH = {"fixed": "200ms", "per_record": "1ms"}


def plain() -> dict[str, Any]:
    """The smallest good settings."""
    return {
        "name": "logs",
        "arrivals": {"shape": "constant:rate=10,duration=10s"},
        "operators": [{"name": "all", "app": "penstock.apps.log_analysis:log_analysis"}],
    }


def test_the_smallest_settings_have_sane_defaults() -> None:
    """A name, arrivals and one operator are enough."""
    settings = parse_settings(plain())
    assert settings.policy.name is None  # the one that plans for the objective
    assert settings.guards is not None
    assert settings.mode == "act"
    assert settings.cluster.master == "embedded"
    assert settings.operators[0].limits().top.executors == 1
    assert settings.objective_of(settings.operators[0].name).statistic is None


def test_durations_and_options_are_read_as_people_write_them() -> None:
    """'2s' is two seconds; option values become text."""
    data = plain() | {"objective": {"p95": "2s"}, "interval": "500ms"}
    data["operators"][0]["options"] = {"repeat": 3}
    settings = parse_settings(data)
    assert settings.objective_of(settings.operators[0].name).seconds == 2.0
    assert settings.interval == 0.5
    assert settings.operators[0].options == {"repeat": "3"}


def test_all_mistakes_show_at_once(tmp_path: Path) -> None:
    """Eight mistakes of different kinds give one error with eight lines, each with its path."""
    path = tmp_path / "bad.yaml"
    path.write_text(
        """
name: Bad Name
arrivals: {}
operatrs: []
operators:
  - {name: a, app: foo, executors: [3, 1], cpu_shares: [2]}
  - {name: a, app: "m:f", input: zzz, trigger: 2parsecs}
objective: {p95: 2s, p50: 1s}
"""
    )
    with pytest.raises(ConfigurationError) as fault:
        load_settings(path)
    text = str(fault.value)
    for part in (
        "10 mistakes",
        "name:",
        "arrivals: give either",
        "did you mean `operators`",
        "operators.0.app",
        "operators.0.executors",
        "operators.0.cpu_shares",
        "operators.1.trigger",
        "objective: give one statistic",
        "operators.1.input: 'zzz' is none of arrivals, a",
        "operators.1.name: 'a' is taken",
    ):
        assert part in text


@pytest.mark.parametrize("text", ["", "- 1\n- 2\n", "a: [", "just words"])
def test_what_is_no_settings_file_is_told(tmp_path: Path, text: str) -> None:
    """Broken YAML, a list, or nothing at all name the file."""
    path = tmp_path / "odd.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=r"odd\.yaml"):
        load_settings(path)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    """A file that is not there names itself."""
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_settings(tmp_path / "none.yaml")


def test_a_binary_file_is_told(tmp_path: Path) -> None:
    """A file that is no text names itself."""
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(ConfigurationError, match="not a text file"):
        load_settings(path)


def test_keeping_up_has_a_time_to_catch_up() -> None:
    """It is written as a bound is, goes back into settings, is not mixed with one, and is positive."""
    slow = make_objective({"catch_up": "2m"})
    assert (slow.statistic, slow.catch_up_seconds) == (None, 120.0)
    assert objective_settings(slow) == {"catch_up": 120.0}
    assert objective_settings(make_objective({})) == {}
    assert objective_settings(make_objective({"p95": "2s"})) == {"p95": 2.0}
    for wrong in ({"catch_up": "0s"}, {"catch_up": "60s", "p95": "2s"}):
        with pytest.raises(ConfigurationError, match="objective"):
            make_objective(wrong)


def test_objectives_and_modes_by_name() -> None:
    """Unknown statistics and modes list the known ones."""
    assert make_objective({}).statistic is None
    with pytest.raises(ConfigurationError, match="p99, and catch_up"):
        make_objective({"p42": "1s"})
    with pytest.raises(ConfigurationError, match="recommend"):
        mode_of("watch")


def three_operators() -> dict[str, Any]:
    """A parser and two that read from it."""
    operators = [
        {"name": "parser", "app": "penstock.apps.log_analysis:parser"},
        {"name": "counter", "app": "penstock.apps.log_analysis:counter", "input": "parser"},
        {"name": "matcher", "app": "penstock.apps.log_analysis:matcher", "input": "parser"},
    ]
    return plain() | {"operators": operators, "objective": {"p95": "8s"}}


def test_a_path_may_have_an_objective_of_its_own() -> None:
    """The bound of a single path goes before that of all, and an operator is held to the tightest through it."""
    data = three_operators() | {"objectives": [{"path": "parser->matcher", "objective": {"mean": "3s"}}]}
    settings = parse_settings(data)
    assert settings.path_objectives() == {
        ("parser", "counter"): Objective("p95", 8.0),
        ("parser", "matcher"): Objective("mean", 3.0),
    }
    assert settings.objective_of("counter") == Objective("p95", 8.0)
    assert settings.objective_of("parser") == Objective("mean", 3.0)


def test_an_objective_of_no_path_names_the_paths() -> None:
    """A path that is none is refused with those that are."""
    data = three_operators() | {"objectives": [{"path": "counter -> matcher", "objective": {"p95": "3s"}}]}
    with pytest.raises(ConfigurationError, match=r"objectives\.0\.path.*parser -> counter, parser -> matcher"):
        parse_settings(data)


def test_operators_that_read_from_each_other_are_told_of_the_circle() -> None:
    """An input that stands below is not called unknown."""
    data = three_operators()
    data["operators"][0]["input"] = "matcher"
    with pytest.raises(ConfigurationError, match=r"operators\.0\.input: 'matcher' does not stand above it.*circle"):
        parse_settings(data)


def test_files_are_handed_on_by_absolute_path() -> None:
    """Readers open trace and payload on executors, in other folders."""
    data = plain() | {"arrivals": {"trace": "t.npy", "options": {"payload": "file:lines.txt"}}}
    options = parse_settings(data).arrivals.replay_options()
    assert options == {"trace": str(Path("t.npy").absolute()), "payload": f"file:{Path('lines.txt').absolute()}"}


@pytest.mark.parametrize(
    "change",
    [
        {"window": [1]},
        {"window": None},
        {"interval": {}},
        {"objective": {"p95": [1]}},
        {"guards": {"opposite": [1]}},
        {"name": "logs\n"},
        {"interval": "1ns"},
    ],
)
def test_values_of_the_wrong_kind_name_their_field(change: dict[str, Any]) -> None:
    """A list where a duration is expected is told as a mistake, not as a defect."""
    with pytest.raises(ConfigurationError, match=next(iter(change))):
        parse_settings(plain() | change)


@pytest.mark.parametrize(
    ("field", "value"),
    [("options", 5), ("spark", [1]), ("executor_memory", [1]), ("executor_memory", "1.5g"), ("driver_memory", "1k")],
)
def test_operators_values_of_the_wrong_kind_name_their_field(field: str, value: object) -> None:
    """The same for what an operator is given."""
    data = plain()
    data["operators"][0][field] = value
    with pytest.raises(ConfigurationError, match=field):
        parse_settings(data)


def test_a_yaml_bomb_is_told_in_a_line(tmp_path: Path) -> None:
    """Aliases of aliases do not blow the message up."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    path = tmp_path / "bomb.yaml"
    path.write_text("\n".join([*lines, "name: *a8"]))
    with pytest.raises(ConfigurationError) as fault:
        load_settings(path)
    assert len(str(fault.value)) < 5000


def test_a_key_that_stands_twice_is_refused(tmp_path: Path) -> None:
    """YAML alone would keep the second value and say nothing."""
    path = tmp_path / "twice.yaml"
    path.write_text("name: one\nmode: act\nmode: recommend\n")
    with pytest.raises(ConfigurationError, match=r"line 3, column 1: `mode` stands twice in one mapping; keep one$"):
        load_settings(path)


def test_secrets_come_from_the_environment_and_are_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """``${NAME}`` is a variable's value; what is written down of the settings has no password in it."""
    monkeypatch.setenv("KAFKA_PASSWORD", "abra")
    broker = {"servers": "h:1", "options": {"sasl.username": "ada", "sasl.password": "${KAFKA_PASSWORD}"}}
    settings = parse_settings(plain() | {"broker": broker})
    assert settings.broker is not None
    assert settings.broker.options["sasl.password"] == "abra"
    assert "abra" not in settings.model_dump_json()
    again = parse_settings(settings.model_dump(mode="json", context=WITH_SECRETS))
    assert again == settings
    monkeypatch.delenv("KAFKA_PASSWORD")
    with pytest.raises(ConfigurationError, match=r"broker\.options.*no variable KAFKA_PASSWORD"):
        parse_settings(plain() | {"broker": broker})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"arrivals": {"topic": "t"}}, "arrivals.topic: needs `broker`"),
        ({"arrivals": {"topic": "no such name"}, "broker": {}}, "use up to 249 letters"),
        ({"arrivals": {"topic": "t", "options": {"speed": 2}}, "broker": {}}, "input_options"),
        ({"arrivals": {"topic": "t", "shape": "x"}, "broker": {}}, "give either"),
        ({"broker": {"partitions": 0}}, "broker.partitions"),
        ({"broker": {"server": "h:1"}}, "did you mean `servers`"),
        ({"restarts": {"most": -1}}, "restarts.most"),
        ({"broker": "embedded"}, "broker: write names and values, with some of: servers"),
        ({"arrivals": {"topic": "t"}, "broker": {}}, "nobody else writes to an embedded broker"),
        ({"operators": []}, "operators: give at least one"),
        ({"broker": {"options": "sasl.password=abra"}}, "broker.options: write names and values"),
    ],
)
def test_mistakes_of_topics_are_told(change: dict[str, Any], words: str) -> None:
    """What does not go together is named with the way out."""
    with pytest.raises(ConfigurationError) as caught:
        parse_settings(plain() | change)
    assert words in str(caught.value)
    assert "abra" not in str(caught.value)


@pytest.mark.parametrize("line", ["@abra", "%abra", "*abra", "!abra", '"abra\\q"', "abra: x", "{abra"])
def test_what_is_no_yaml_is_told_by_its_place_alone(tmp_path: Path, line: str) -> None:
    """The line itself may hold a password."""
    path = tmp_path / "odd.yaml"
    path.write_text(f"name: x\nbroker:\n  options: {{sasl.password: {line}}}\n")
    with pytest.raises(ConfigurationError, match=r"is not YAML: line \d") as caught:
        load_settings(path)
    assert "abra" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"maxOffsetsPerTrigger": "abc"}, "whole number"),
        ({"maxOffsetsPerTrigger": 0}, "whole number"),
        ({"maxOffsetPerTrigger": 5}, "did you mean maxOffsetsPerTrigger?"),
        ({"subscribe": "other"}, "leave it out"),
        ({"kafka.bootstrap.servers": "x:1"}, "leave it out"),
    ],
)
def test_wrong_options_of_a_reader_are_told(options: dict[str, Any], words: str) -> None:
    """Before anything starts, and with the field."""
    data = plain() | {"broker": {}}
    data["operators"][0]["input_options"] = options
    with pytest.raises(ConfigurationError, match=r"operators\.0\.input_options") as caught:
        parse_settings(data)
    assert words in str(caught.value)


def test_an_input_that_is_no_name_and_a_path_with_two_bounds_are_told() -> None:
    """Neither ends in a crash or in the last one winning."""
    data = three_operators()
    data["operators"][1]["input"] = [5]
    with pytest.raises(ConfigurationError, match=r"operators\.1\.input"):
        parse_settings(data)
    twice = [{"path": "parser -> matcher", "objective": {"p95": f"{n}s"}} for n in (2, 3)]
    with pytest.raises(ConfigurationError, match=r"objectives\.1\.path.*has a bound already"):
        parse_settings(three_operators() | {"objectives": twice})


def test_an_operator_may_read_from_several_and_take_a_part() -> None:
    """One name, a list of names, or entries with a part of their own; all are written down as they were given."""
    data = three_operators()
    data["operators"][1]["input"] = ["parser"]
    data["operators"][2]["input"] = [{"from": "parser", "selectivity": 0.3}, "counter"]
    settings = parse_settings(data)
    assert settings.operators[1].input == "parser"
    assert settings.topology.streams == (
        Stream(ARRIVALS, "parser"), Stream("parser", "counter"), Stream("parser", "matcher", 0.3),
        Stream("counter", "matcher"),
    )  # fmt: skip
    assert settings.paths == (("parser", "matcher"), ("parser", "counter", "matcher"))
    written = settings.model_dump(mode="json")
    assert [o["input"] for o in written["operators"]] == [
        "arrivals", "parser", [{"from": "parser", "selectivity": 0.3}, "counter"],
    ]  # fmt: skip
    assert parse_settings(written) == settings


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "operators.2.input: it reads nothing"),
        (["parser", "parser"], "operators.2.input: 'parser' is there twice"),
        (["parser", "zzz"], "operators.2.input: 'zzz' is none of arrivals, parser, counter"),
        ({"to": "parser"}, "operators.2.input.0.from: is missing"),
        ({"from": "parser", "selectivity": 0}, "operators.2.input.0.selectivity: must be above 0"),
        ({"from": "parser", "part": 0.5}, "operators.2.input.0.part: is not a setting"),
        (7, "operators.2.input: write the name of what it reads"),
    ],
)
def test_wrong_inputs_are_told(given: object, words: str) -> None:
    """Nothing to read, one thing twice, an unknown name or an impossible part."""
    data = three_operators()
    data["operators"][2]["input"] = given
    with pytest.raises(ConfigurationError) as caught:
        parse_settings(data)
    assert words in str(caught.value)


def test_settings_of_the_past_say_what_replaces_them() -> None:
    """The former pipeline file's streams and levels are refused, all at once and each with the way out."""
    data = plain() | {"streams": ["arrivals -> all"], "levels": [0.5, 1.0]}
    data["operators"][0] |= {"levels": [1.0], "micro_batch": {"fixed": "1s", "per_record": "1ms", "trigger": "1s"}}
    with pytest.raises(ConfigurationError) as caught:
        parse_settings(data)
    for words in (
        "4 mistakes",
        "streams: is said by the operators now: give each the `input` it reads from",
        "- levels: is said by the operators now: give each its `cpu_shares`",
        "operators.0.levels: is called `cpu_shares` now",
        "operators.0.micro_batch.trigger: stands beside `micro_batch` now",
    ):
        assert words in str(caught.value)


@pytest.mark.parametrize(
    ("operator", "words"),
    [
        (
            {"service": EXPONENTIAL, "micro_batch": BATCH},
            "operators.0.micro_batch: `service` is given too; keep the one",
        ),
        ({"demand": "declared"}, "operators.0.demand: nothing is declared; add `service` or `micro_batch`"),
        ({"demand": "known"}, "operators.0.demand: use 'declared' or 'learnt'"),
        ({"service": EXPONENTIAL, "trigger": "2s"}, "operators.0.service: is the work of records taken one by one"),
        ({"micro_batch": BATCH, "trigger": "realtime"}, "operators.0.micro_batch: with `trigger: realtime`"),
        ({"micro_batch": BATCH | {"cap": 5}, "input_options": {"maxOffsetsPerTrigger": 6}}, "leave `cap` out"),
        ({"selectivity": 0}, "operators.0.selectivity: must be above 0"),
        ({"micro_batch": {"fixed": "1s"}}, "operators.0.micro_batch.per_record: is missing"),
        ({"micro_batch": "1s"}, "operators.0.micro_batch: write names and values, with some of: fixed, per_record"),
        ({"service": {"distribution": "exponential", "meen": 1}}, "did you mean `mean`?"),
    ],
)
def test_demands_that_do_not_fit_are_told(operator: dict[str, Any], words: str) -> None:
    """What a record costs must fit how the operator takes its records."""
    data = plain() | {"broker": {}}
    data["operators"][0] |= operator
    with pytest.raises(ConfigurationError) as caught:
        parse_settings(data)
    assert words in str(caught.value)


def test_declared_demand_is_kept_with_the_settings() -> None:
    """What is declared reads the same again; `learnt` keeps it from policies."""
    data = three_operators() | {"guards": "none"}
    data["operators"][0] |= {"service": EXPONENTIAL, "selectivity": 0.9}
    data["operators"][1] |= {"micro_batch": BATCH, "demand": "learnt"}
    settings = parse_settings(data)
    assert [o.is_demand_declared for o in settings.operators] == [True, False, False]
    assert settings.guards is None
    assert parse_settings(settings.model_dump(mode="json")) == settings
    assert parse_settings(data | {"guards": None}).guards is None


def test_measured_times_are_found_beside_the_file(tmp_path: Path) -> None:
    """A file of samples is named from the settings file's folder, wherever the command is started."""
    path = tmp_path / "p.yaml"
    path.write_text("operators: [{name: a, service: {distribution: samples, file: times.txt, unit: ms}}]\n")
    (operator,) = load_settings(path).operators
    assert operator.service is not None
    assert operator.service.file == tmp_path / "times.txt"


def test_what_only_a_run_needs_is_said_by_itself() -> None:
    """A file to simulate is good settings; to run it, everything that lacks is listed with what to add."""
    data: dict[str, Any] = {
        "operators": [
            {"name": "a", "service": EXPONENTIAL},
            {"name": "b", "service": EXPONENTIAL, "input": ["arrivals", {"from": "a", "selectivity": 0.5}]},
        ]
    }
    settings = parse_settings(data)
    faults = run_faults(data)
    assert [fault.partition(":")[0] for fault in faults] == [
        "name", "arrivals", "operators.0.app", "operators.1.app", "operators.1.input", "operators.1.input",
    ]  # fmt: skip
    assert "a run reads one input for each operator" in faults[4]
    for read in (lambda: settings.arrivals, lambda: settings.operators[0].app, lambda: settings.operators[1].input):
        with pytest.raises(ConfigurationError):
            read()
    assert run_faults(plain()) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"guards": {"cooldwn": "1s"}}, "guards.cooldwn: is not a setting; did you mean `cooldown_up` or"),
        ({"guards": {"opposit": "1s"}}, "guards.opposit: is not a setting; did you mean `opposite`?"),
        ({"policy": {"policy": "mead"}}, "policy.policy: is called `name` here: write `policy: mead`"),
        (
            {"policy": {"window": 5}},
            "policy.window: is not a setting; known here: name, options, rules; what the policy takes",
        ),
        ({"policy": 5}, "policy: write names and values, with some of: name, options"),
        ({"policy": {"options": 5}}, "policy.options: write names and values, such as {name: value} (got 5)"),
        ({"restarts": {"most": "many"}}, "restarts.most: write a whole number, such as 2 (got 'many')"),
        ({"restarts": {"most": -1}}, "restarts.most: must be at least 0 (got -1)"),
        ({"objective": 5}, "objective: write a statistic and a time, such as {p95: 2s} (got 5)"),
        ({"mode": "go"}, "mode: use 'act' or 'recommend' (got 'go')"),
        ({"cluster": {"master": 5}}, "cluster.master: write text; a number needs quotes"),
        ({"arrivals": {"trace": 5}}, "arrivals.trace: write the path of a file (got 5)"),
        ({"operators": 5}, "operators: write a list such as [{name: counter, app: my_module:count}] (got 5)"),
    ],
)
def test_wrong_keys_and_values_are_said_in_our_words(changes: dict[str, Any], said: str) -> None:
    """Each message names the field and what to write; none is that of a library."""
    data = {"name": "words", "operators": [{"name": "a", "app": "m:f"}]} | changes
    with pytest.raises(ConfigurationError) as caught:
        parse_settings(data)
    assert any(fault.startswith(said) for fault in caught.value.faults), caught.value.faults
    assert "Input" not in str(caught.value)


def test_a_plain_name_is_a_policy_and_a_single_column_a_list_of_one() -> None:
    """What can only mean one thing is taken as that."""
    operator = {"name": "a", "app": "m:f", "unique": "id"}
    settings = parse_settings({"name": "x", "broker": {"servers": "h:9092"}, "operators": [operator], "policy": "mead"})
    assert settings.policy.name == "mead"
    assert settings.operators[0].unique == ("id",)
    wrong = {"name": "x", "broker": {"servers": "h:9092"}, "operators": [operator | {"unique": 5}]}
    with pytest.raises(ConfigurationError, match=r"operators.0.unique: write a list such as \[id\]"):
        parse_settings(wrong)
