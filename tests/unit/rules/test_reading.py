# SPDX-License-Identifier: Apache-2.0
"""Reading rules from files and Python modules, and what the language says of itself."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import penstock.rules
from penstock.errors import RuleError
from penstock.rules import read_rules
from penstock.rules.explain import explain
from penstock.rules.text import parse_text
from penstock.rules.to_python import to_python
from penstock.rules.to_text import to_text
from penstock.rules.yaml_form import to_yaml

TEXT = 'rule "low":\n  keep matcher at least 3\n  when time on weekdays\n'


def test_the_public_names_are_these() -> None:
    """A name is added or removed on purpose only."""
    assert penstock.rules.__all__ == [
        "Rule", "RuleError", "check_operators", "every_operator", "hours", "metric", "minutes", "percent", "read_rules",
        "rule", "rules", "seconds", "time", "times",
    ]  # fmt: skip
    assert all(hasattr(penstock.rules, name) for name in penstock.rules.__all__)


def test_rules_are_built_without_the_parser() -> None:
    """Importing the language for Python loads neither the parser of text nor YAML."""
    code = "import sys, penstock.rules; print([m for m in ('lark', 'yaml', 'pydantic') if m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"


def test_the_three_forms_are_read_from_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text file, a YAML file and a list in a module give the same rules."""
    rules = parse_text(TEXT).rules
    (tmp_path / "low.rules").write_text("\ufeff" + TEXT.replace("\n", "\r\n"), encoding="utf-8")
    (tmp_path / "low.yml").write_text(to_yaml(rules), encoding="utf-8")
    (tmp_path / "rules_of_a_test.py").write_text(to_python(rules, "low"), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = [read_rules(tmp_path / "low.rules"), read_rules(tmp_path / "low.yml"), read_rules("rules_of_a_test:low")]
    assert found == [rules] * 3
    place = found[2][0].place
    assert place is not None
    assert (Path(place.source).name, place.line) == ("rules_of_a_test.py", 4)


def test_all_mistakes_of_a_file_are_one_error(tmp_path: Path) -> None:
    """Reading names every mistake with line and column; one alone has them as attributes."""
    file = tmp_path / "calm.rules"
    file.write_text(TEXT.replace("least", "last"), encoding="utf-8")
    with pytest.raises(RuleError, match=r"calm.rules, line 2, column 19: .*did you mean `least`") as one:
        read_rules(file)
    assert (one.value.line, one.value.column, one.value.source) == (2, 19, str(file))
    file.write_text(TEXT.replace("least", "last").replace("weekdays", "weekday"), encoding="utf-8")
    with pytest.raises(RuleError, match="2 mistakes") as two:
        read_rules(file)
    assert [fault.split(":")[0] for fault in two.value.faults] == ["line 2, column 19", "line 3, column 16"]


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("calm.txt", b"", "ends in .rules"),
        ("none.rules", None, "cannot be read"),
        ("calm.rules", b"\xff\xfe", "write it in UTF-8"),
        ("calm.yaml", b" " * 1_000_001, "larger than 1 MB"),
    ],
)
def test_what_is_no_file_of_rules_is_refused(tmp_path: Path, name: str, content: bytes | None, why: str) -> None:
    """Another kind of file, none at all, one that is no text, and one that is far too long."""
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(RuleError, match=why):
        read_rules(tmp_path / name)


def test_a_reference_that_leads_nowhere_is_refused() -> None:
    """A missing module or name is said, and a path that no file can have."""
    with pytest.raises(RuleError, match="no Python module 'no_such_module'"):
        read_rules("no_such_module:calm")
    with pytest.raises(RuleError, match="has no 'calm'"):
        read_rules("json:calm")
    with pytest.raises(RuleError, match="is no name of a file"):
        read_rules("calm\0.rules")


@pytest.mark.parametrize(
    ("code", "line", "why"),
    [
        ("\nimport nothing_of_this_name\n", 2, "No module named 'nothing_of_this_name'"),
        ("calm = (\n", 1, "SyntaxError: '\\(' was never closed"),
        ("import sys\n\nsys.exit(0)\n", 3, "SystemExit: 0"),
        ('from penstock.rules import rule\ncalm = [rule("a").scale_sideways("m")]\n', 2, "scale_sideways"),
        ("def each():\n    yield 1 / 0\n\n\ncalm = each()\n", 2, "ZeroDivisionError"),
    ],
)
def test_a_module_that_fails_by_itself_is_a_mistake_at_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, line: int, why: str
) -> None:
    """Whatever a module of rules raises, the error names it and the line of the module, and nothing ends the caller."""
    name = f"failing_rules_of_a_test_{line}_{len(code)}"
    (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(RuleError, match=why) as failed:
        read_rules(f"{name}:calm")
    assert (failed.value.line, failed.value.source) == (line, str(tmp_path / f"{name}.py"))


@pytest.mark.parametrize("value", ["5", "None", "'text'", "[[]]", "{'a': 1}"])
def test_what_is_no_list_of_rules_is_said_of_the_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    """A wrong value in a module is said of `module:name`, not of a line of Penstock."""
    name = f"other_things_of_a_test_{abs(hash(value))}"
    (tmp_path / f"{name}.py").write_text(f"calm = {value}\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(RuleError, match=f"^{name}:calm: .* is no rule"):
        read_rules(f"{name}:calm")


def test_a_policy_in_plain_words() -> None:
    """Every part of a rule is said in words."""
    text = """
    rule "a": scale-out * by x3 never above x4 when queue_length above 1 for 30 seconds unless scale-in within 1 hour
    rule "b": scale-up m by x2 when arrival_rate p90 in 2 minutes above 5 for 1 minute
      unless time between 22:00 and 6:00
    rule "c": scale-down m by 20% never below 40% when cpu_utilisation below 30%
    rule "d": keep m at most 50% cpu when time on monday, friday in Europe/Zurich
    """
    reading = parse_text(text)
    assert reading.mistakes == ()
    assert explain(reading.rules).splitlines() == [
        "a",
        "  Multiplies the executors of every operator by 3, up to 4 times its original size, when queue_length has "
        "been above 1 record for 30 seconds, unless it was scaled in within the last 1 hour.",
        "",
        "b",
        "  Doubles the CPU share of m, up to 100%, when the p90 of the forecast of arrival_rate in 2 minutes over "
        "1 minute is above 5 records/s and the time is not between 22:00 and 06:00 of the next day (UTC).",
        "",
        "c",
        "  Lowers the CPU share of m by 20%, down to 40%, when cpu_utilisation is below 30%.",
        "",
        "d",
        "  Keeps the CPU share of m at most 50% while the time is on Monday or Friday (Europe/Zurich).",
    ]
    assert explain(()) == "There is no rule: every operator keeps what it has.\n"
    assert to_text(()) == ""


@pytest.mark.parametrize("module", [m.name for m in pkgutil.iter_modules(penstock.rules.__path__)])
def test_the_examples_in_docstrings_run(module: str) -> None:
    """What a docstring shows is what happens."""
    assert doctest.testmod(importlib.import_module(f"penstock.rules.{module}")).failed == 0
