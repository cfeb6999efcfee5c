# SPDX-License-Identifier: Apache-2.0
"""`penstock rules`: mistakes, doubts, exit codes, and the forms in which rules are shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.rules import read_rules

EXAMPLE = """\
rule "queue too long":
  scale-out matcher by 2 never above 8
  when queue_length above 300 for 30 seconds
  when cpu_utilisation mean above 60% for 1 minute
  unless scale-out within 5 minutes

rule "calm":
  scale-in * by x2 never below 1
  when queue_length below 1 for 60 seconds
  unless scale-out within 5 minutes
"""


@pytest.fixture
def calm(tmp_path: Path) -> Path:
    """The example in a file."""
    path = tmp_path / "calm.rules"
    path.write_text(EXAMPLE, encoding="utf-8")
    return path


def test_a_file_without_mistakes(invoke: Callable[..., Any], calm: Path) -> None:
    """The exit code is 0, and the JSON counts the rules."""
    found = invoke("rules", "check", str(calm), "--json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout.splitlines()[-1]) == {"rules": 2, "mistakes": [], "doubts": []}
    assert "2 rules, 0 mistakes, 0 doubts" in invoke("rules", "check", str(calm)).stdout


def test_mistakes_end_with_code_2(invoke: Callable[..., Any], calm: Path) -> None:
    """Each mistake has line, column, message and rules; the words have them as an editor finds them."""
    calm.write_text(EXAMPLE.replace("queue_length above", "queue_lenght above").replace("x2", "x0.5"), encoding="utf-8")
    found = invoke("rules", "check", str(calm), "--json")
    assert found.exit_code == 2
    document = json.loads(found.stdout.splitlines()[-1])
    assert document["rules"] == 0
    assert [(m["line"], m["column"], m["rules"]) for m in document["mistakes"]] == [
        (3, 8, ["queue too long"]),
        (8, 17, ["calm"]),
    ]
    assert "did you mean queue_length?" in document["mistakes"][0]["message"]
    words = invoke("rules", "check", str(calm))
    assert words.exit_code == 2
    assert f"{calm}:3:8: mistake: " in words.stdout


def test_doubts_are_no_mistakes(invoke: Callable[..., Any], calm: Path) -> None:
    """Doubtful rules are reported with their names, and the exit code stays 0."""
    calm.write_text(EXAMPLE.replace("queue_length below 1", "arrival_rate below 1"), encoding="utf-8")
    found = invoke("rules", "check", str(calm), "--json")
    assert found.exit_code == 0
    (doubt,) = json.loads(found.stdout.splitlines()[-1])["doubts"]
    assert set(doubt["rules"]) == {"queue too long", "calm"}
    assert "for example with queue_length 301 records" in doubt["message"]


def test_the_pipeline_gives_names_and_limits(invoke: Callable[..., Any], calm: Path) -> None:
    """An operator that the pipeline does not have is a mistake, a limit beyond its own a doubt."""
    pipeline = calm.with_name("pipeline.yaml")
    pipeline.write_text("operators:\n- {name: matcher, executors: [1, 4]}\n", encoding="utf-8")
    own = invoke("rules", "check", str(calm), "--pipeline", str(pipeline))
    assert own.exit_code == 0, own.output
    assert "the operator has at most 4 executors" in own.stdout
    up = calm.with_name("up.rules")
    up.write_text('rule "up": scale-up matcher by 10% when cpu_used above 1', encoding="utf-8")
    fixed = invoke("rules", "check", str(up), "--pipeline", str(pipeline))
    assert "the operator always has 100% CPU; give it more `cpu_shares`" in fixed.stdout
    mead = "\npolicy: mead\nobjective: {p95: 2s}\n"
    pipeline.write_text("operators: [{name: matcher, executors: [1, 4]}]" + mead, encoding="utf-8")
    assert "0 doubts" in invoke("rules", "check", str(up), "--pipeline", str(pipeline)).stdout
    pipeline.write_text("operators:\n- {name: parser}\n", encoding="utf-8")
    unknown = invoke("rules", "check", str(calm), "--pipeline", str(pipeline))
    assert unknown.exit_code == 2
    assert "the pipeline has no operator 'matcher'; it has parser" in unknown.stdout


@pytest.mark.parametrize(("form", "suffix"), [("text", ".rules"), ("yaml", ".yaml"), ("python", ".py")])
def test_what_is_shown_can_be_used_in_place_of_the_file(
    invoke: Callable[..., Any], calm: Path, monkeypatch: pytest.MonkeyPatch, form: str, suffix: str
) -> None:
    """Each form, written to a file, is read as the same rules."""
    shown = invoke("rules", "show", str(calm), "--as", form)
    assert shown.exit_code == 0, shown.output
    other = calm.with_name(f"shown_by_a_test_{form}{suffix}")
    other.write_text(shown.stdout, encoding="utf-8")
    monkeypatch.syspath_prepend(str(calm.parent))
    assert read_rules(f"{other.stem}:policy" if form == "python" else other) == read_rules(calm)


def test_words_are_shown_where_no_form_is_named(invoke: Callable[..., Any], calm: Path) -> None:
    """A policy is explained in plain words, rule by rule."""
    shown = invoke("rules", "show", str(calm)).stdout
    assert "Adds 2 executors to matcher, up to 8, when queue_length has been above 300 records for 30 seconds" in shown
    assert "Halves the executors of every operator" in shown


def test_a_wrong_file_is_wrong_input(invoke: Callable[..., Any], tmp_path: Path) -> None:
    """A file that is not there, and rules with mistakes that are to be shown, end with code 2 and a message."""
    for command in ("check", "show"):
        gone = invoke("rules", command, str(tmp_path / "gone.rules"))
        assert gone.exit_code == 2
        assert "cannot be read" in gone.output
    (tmp_path / "wrong.rules").write_text("rule calm:", encoding="utf-8")
    wrong = invoke("rules", "show", str(tmp_path / "wrong.rules"))
    assert wrong.exit_code == 2
    assert "put the name of the rule into quotes" in wrong.output


def test_a_list_in_a_module_of_this_folder(
    invoke: Callable[..., Any], calm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`module:name` is found beside where the command runs, or beside the pipeline; a wrong rule names its line."""
    python = invoke("rules", "show", str(calm), "--as", "python").stdout
    (calm.parent / "rules_beside_a_test.py").write_text(python, encoding="utf-8")
    monkeypatch.chdir(calm.parent)
    found = invoke("rules", "check", "rules_beside_a_test:policy")
    assert found.exit_code == 0, found.output
    assert "2 rules, 0 mistakes" in found.stdout
    missing = invoke("rules", "check", "rules_beside_a_test:other")
    assert missing.exit_code == 2
    assert "has no 'other'" in missing.output
    (calm.parent / "rules_beside_a_test.py").write_text(python.replace("queue_length", "queue"), encoding="utf-8")
    wrong = invoke("rules", "check", "rules_beside_a_test:policy")
    assert wrong.exit_code == 2
    assert "rules_beside_a_test.py:6:15: mistake: unknown metric 'queue'" in wrong.stdout


def test_what_cannot_be_read_is_a_mistake_in_the_json_too(invoke: Callable[..., Any], tmp_path: Path) -> None:
    """Other programs get their JSON also of a file that is not there or no text, and of a module that fails."""
    (tmp_path / "wide.rules").write_bytes(EXAMPLE.encode("utf-16"))
    for file in (tmp_path / "gone.rules", tmp_path / "wide.rules", tmp_path, "no_such_module:x"):
        found = invoke("rules", "check", str(file), "--json")
        assert found.exit_code == 2
        document = json.loads(found.stdout)
        assert document["rules"] == 0
        assert [(m["line"], m["column"], m["rules"]) for m in document["mistakes"]] == [(1, 1, [])]
    assert "no_such_module:x:1:1: mistake: there is no Python module" in found.stderr


def test_what_a_module_prints_is_no_part_of_the_result(
    invoke: Callable[..., Any], calm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """stdout has the JSON, or the rules in another form, and nothing else."""
    python = invoke("rules", "show", str(calm), "--as", "python").stdout
    (calm.parent / "rules_that_print_in_a_test.py").write_text(f"print('hello')\n{python}", encoding="utf-8")
    monkeypatch.chdir(calm.parent)
    found = invoke("rules", "check", "rules_that_print_in_a_test:policy", "--json")
    assert json.loads(found.stdout)["rules"] == 2
    assert "hello" in found.stderr
    assert invoke("rules", "show", "rules_that_print_in_a_test:policy", "--as", "text").stdout.startswith("rule ")


def test_a_rule_with_a_mistake_is_held_against_the_pipeline_too(invoke: Callable[..., Any], tmp_path: Path) -> None:
    """Beside an unknown metric, the unknown operator is a mistake and a limit beyond that of the one meant a doubt."""
    (tmp_path / "shop.yaml").write_text("operators:\n- {name: orders, executors: [1, 4]}\n", encoding="utf-8")
    (tmp_path / "wrong.rules").write_text(
        'rule "burst":\n  scale-out order by 2 never above 9\n  when queue_lenght above 250 for 3 seconds\n'
        'rule "late":\n  scale-out orders by 1 never above 7\n  when latency_p95 above 3 parsecs\n',
        encoding="utf-8",
    )
    found = invoke("rules", "check", str(tmp_path / "wrong.rules"), "--pipeline", str(tmp_path / "shop.yaml"))
    assert found.exit_code == 2
    for words in (
        "the pipeline has no operator 'order'; did you mean orders?",
        "did you mean queue_length",
        '"burst" never comes to its limit 9 executors: the operator has at most 4 executors',
        '"late" never comes to its limit 7 executors',
        "`parsecs` does not fit here; a value has no unit: latency_p95 is counted in s, so write 3 alone; "
        "only times have one: second, seconds, minute, minutes, hour, hours",
    ):
        assert words in found.stdout
