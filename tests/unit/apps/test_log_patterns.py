# SPDX-License-Identifier: Apache-2.0
"""User-given patterns: read, checked, multiplied."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.apps.log_analysis.patterns import DEFAULT_PATTERNS, Pattern, fault_of, load_patterns, take
from penstock.errors import ConfigurationError

EXAMPLE_FILE = Path(__file__).parents[3] / "examples" / "log_patterns.txt"
FOUND_BY = {
    "ipv4 address": "from 192.168.0.255 port",
    "uuid": "id 123e4567-e89b-12d3-a456-426614174000",
    "mail address": "to jo.doe+x@mail.example.org",
    "url": "see hdfs://name:9000/a/b",
    "block": "Removed broadcast_12_piece and rdd_4_2",
    "exception": "java.io.IOException: no",
    "stack frame": "at java.lang.Thread.run(Thread.java:748)",
    "failure": "task FAILED",
    "timeout": "request timed out",
    "lost connection": "Connection reset by peer",
    "login failure": "Failed password for root from",
    "secret in clear": "api_key = abc",
    "sql injection": "id=1 OR 1=1",
    "path traversal": "GET ../../etc",
    "script injection": "<script src=x>",
    "server error": 'HTTP/1.1" 503',
    "slow": "took 1203 ms",
    "nearly full": "disk at 97%",
    "out of memory": "OOM killer; Java heap space",
    "repeated word": "the same same word",
    "key and value": "user=al host=b port=3",
    "card number": "card 4111 1111 1111 1111",
}


def _write(folder: Path, text: str) -> Path:
    path = folder / "patterns.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_built_in_patterns_compile_and_find_what_they_name() -> None:
    """Every built-in pattern is valid, has its own name and finds its example."""
    assert {p.name for p in DEFAULT_PATTERNS} == set(FOUND_BY)
    assert len(DEFAULT_PATTERNS) == len(FOUND_BY)
    for pattern in DEFAULT_PATTERNS:
        assert fault_of(pattern) is None
        assert re.search(pattern.regex, FOUND_BY[pattern.name]), pattern
        assert not re.search(pattern.regex, "all is well"), pattern


def test_a_file_gives_its_patterns_in_order(tmp_path: Path) -> None:
    """Names end at a tab or at a colon and a space; comments and empty lines are passed over."""
    path = _write(tmp_path, "# comment\n\na b: x: y+\nwith: colon\t^z \n")
    assert load_patterns(path) == (Pattern("a b", "x: y+"), Pattern("with: colon", "^z "))


def test_the_example_file_is_valid() -> None:
    """The patterns in examples/ can be used as they are."""
    assert len(load_patterns(EXAMPLE_FILE)) >= 5


def test_all_mistakes_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    """Each mistake has its line; an expression that does not compile has its name, its position and a fix."""
    path = _write(tmp_path, "good: a\nno expression\ngood: b\nopen: ab(c\n")
    with pytest.raises(ConfigurationError) as caught:
        load_patterns(path)
    message = str(caught.value)
    assert "3 mistakes" in message
    assert "line 2 is not a name and an expression: 'no expression'; write 'name: regex'" in message
    assert "line 3 gives 'good' a second time; choose another name" in message
    assert "'open' does not compile: missing ), unterminated subpattern at position 2 in 'ab(c'" in message


@pytest.mark.parametrize("text", ["", "# only a comment\n"])
def test_a_file_without_patterns_is_refused(tmp_path: Path, text: str) -> None:
    """A file in which there is nothing to look for is a mistake."""
    with pytest.raises(ConfigurationError, match="the file has no pattern; write at least one line"):
        load_patterns(_write(tmp_path, text))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A file that is not there is an error of the field `patterns`."""
    with pytest.raises(ConfigurationError, match=r"patterns: cannot read .*none\.txt") as caught:
        load_patterns(tmp_path / "none.txt")
    assert caught.value.field == "patterns"


@pytest.mark.parametrize(
    "regex",
    [
        r"\p{Lu}\P{Alpha}[\p{Digit}x]",
        r"(?<year>\d{4})-\k<year>",
        r"\Q(not a group\E and",
        r"[a-z&&[^b]]+",
        r"a++b*+(?>c)",
        r"\h+\R\z",
        r"(?<=x|yy)y(?<!z)",
        r"(?<word>\w+) \1",
        r"\x{1F600}\\(x)",
        r"a(?i)b(?s-m:.)(?U)",
    ],
)
def test_java_dialect_is_taken(regex: str) -> None:
    """What Java reads and Python does not is no fault."""
    assert fault_of(Pattern("java", regex)) is None


@pytest.mark.parametrize(
    ("regex", "position", "hint"),
    [
        (r"a(?P<n>b)", 1, "(?<name>...)"),
        (r"(?<n>b)(?P=n)", 7, r"\k<name>"),
        (r"(a)?(?(1)b|c)", 4, "both branches"),
        (r"x(?#note)", 1, "leave it out"),
        (r"\p{Lu}[", 6, "backslash"),
        (r"(?<name>a))", 10, "backslash"),
        (r"*a", 0, "backslash"),
    ],
)
def test_what_java_does_not_read_is_a_fault_with_its_place_and_its_fix(regex: str, position: int, hint: str) -> None:
    """A fault names the pattern, the position in the text as written, and what to write instead."""
    fault = fault_of(Pattern("mine", regex))
    assert fault is not None
    assert "patterns: 'mine' does not compile" in fault
    assert f"at position {position} in" in fault
    assert hint in fault


def test_an_escaped_sign_is_no_construct() -> None:
    r"""A text that only looks like a Python construct, such as ``\(?P<``, is left alone."""
    assert fault_of(Pattern("escaped", r"\(?P<n>")) is None


def test_more_patterns_than_there_are_go_round_under_new_names_and_texts() -> None:
    """Names and texts are all different, or Spark would search once for equal ones; what they find is the same."""
    patterns = (Pattern("a", "(x)\\1|y"), Pattern("b", "(?i:z)"))
    taken = take(patterns, 5)
    assert taken[:2] == patterns
    assert [p.name for p in taken] == ["a", "b", "a ~2", "b ~2", "a ~3"]
    assert len({p.regex for p in taken}) == 5
    for text in ("xx", "y", "Z", "-"):
        found = [re.search(p.regex, text) is not None for p in taken]
        assert found == [found[0], found[1], found[0], found[1], found[0]]
    assert take(patterns, 1) == patterns[:1]


def test_no_built_in_pattern_repeats_a_group_without_a_bound() -> None:
    """Java's matcher calls itself for each repetition of a group: a long line would overflow its stack."""
    unbounded = re.compile(r"(?<!\\)\)(?:[*+]|\{\d+,\})")
    assert [p.name for p in DEFAULT_PATTERNS if unbounded.search(p.regex)] == []


def test_a_repetition_that_may_begin_anywhere_in_a_word_is_bounded() -> None:
    """Before an @ that never comes, each part of a long name would be searched to its end."""
    (mail,) = [p for p in DEFAULT_PATTERNS if p.name == "mail address"]
    assert not re.search(r"\](?:[*+]|\{\d+,\})", mail.regex)
