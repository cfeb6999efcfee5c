# SPDX-License-Identifier: Apache-2.0
"""Options and schemas of the log-analysis operators, without Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.apps.log_analysis import check_options, stream_schema
from penstock.apps.log_analysis.options import chosen_format, chosen_patterns, longest_message
from penstock.apps.log_analysis.patterns import DEFAULT_PATTERNS
from penstock.errors import ConfigurationError


@pytest.mark.parametrize(
    ("operator", "options"),
    [
        ("parser", {}),
        ("parser", {"format": "hdfs"}),
        ("parser", {"output": "out"}),
        ("counter", {"output": "out"}),
        ("matcher", {"output": "out", "pattern_count": "40"}),
        ("log_analysis", {"output": "out", "format": "combined", "pattern_count": "1"}),
        ("match_lines", {}),
        ("match_lines", {"output": "out", "format": "hdfs", "pattern_count": "3"}),
    ],
)
def test_good_options_pass(operator: str, options: dict[str, str]) -> None:
    """Options an operator knows are taken."""
    check_options(operator, options)


@pytest.mark.parametrize("operator", ["counter", "matcher", "log_analysis"])
def test_a_result_needs_a_folder(operator: str) -> None:
    """An operator that writes counts names the missing folder."""
    with pytest.raises(ConfigurationError, match="output: is missing"):
        check_options(operator, {})


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    """One error lists the unknown option, the format, the pattern and the count, each with its fix."""
    patterns = tmp_path / "p.txt"
    patterns.write_text("bad: [\n", encoding="utf-8")
    with pytest.raises(ConfigurationError) as caught:
        check_options("log_analysis", {"format": "x", "patterns": str(patterns), "pattern_count": "3", "colour": "red"})
    message = str(caught.value)
    assert "options of log_analysis: 4 mistakes" in message
    for part in (
        "colour: unknown option; known: format",
        "output: is missing",
        "format 'x'",
        "'bad' does not compile",
    ):
        assert part in message


@pytest.mark.parametrize("count", ["0", "-1", "1.5", "many", "", "1001"])
def test_a_pattern_count_is_a_whole_number(count: str) -> None:
    """A count that is none, or beyond the bound, is refused with the bounds."""
    with pytest.raises(ConfigurationError, match=r"pattern_count: .* is not a whole number from 1 to 1000"):
        check_options("matcher", {"output": "out", "pattern_count": count})


def test_unknown_operators_are_named() -> None:
    """An operator that does not exist is an error that lists those that do."""
    with pytest.raises(ConfigurationError, match="'sorter'; known: parser, counter, matcher, log_analysis"):
        stream_schema("sorter")


def test_schemas_say_what_an_operator_emits() -> None:
    """The parser's schema begins with what came in and ends with the fields of a line."""
    names = [column.split()[0] for column in stream_schema("parser").split(", ")]
    assert names == ["index", "arrival", "timestamp", "level", "component", "message"]
    assert stream_schema("matcher") == "kind STRING, key STRING, count BIGINT"


def test_defaults_are_the_built_in_ones() -> None:
    """Without options the generated format and every built-in pattern are used."""
    assert chosen_format({}).name == "penstock"
    assert chosen_patterns({}) == DEFAULT_PATTERNS
    assert len(chosen_patterns({"pattern_count": "50"})) == 50


def test_options_are_checked_without_loading_spark() -> None:
    """Checking options imports no PySpark, so a mistake is told at once."""
    code = (
        "import sys; from penstock.apps.log_analysis import check_options; "
        "check_options('log_analysis', {'output': 'x'}); assert 'pyspark' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("text", ["0", "9", "-5", "many", "2.5", "1000001"])
def test_a_length_that_cannot_be_searched_is_refused(text: str) -> None:
    """The option says how many characters of a message are searched."""
    with pytest.raises(ConfigurationError, match="longest_message"):
        check_options("match_lines", {"longest_message": text})


def test_messages_are_searched_up_to_a_length() -> None:
    """Without the option there is a limit all the same."""
    assert longest_message({}) == 2000
    assert longest_message({"longest_message": "500"}) == 500
