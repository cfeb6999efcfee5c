# SPDX-License-Identifier: Apache-2.0
"""The matcher's patterns: named regular expressions, from a file or built in, checked before anything starts.

Spark searches in Java's dialect. Without a running Java, Python's compiler checks an expression, after syntax that only
Java has was masked (`\\p{Lu}`, `\\h`, `\\Q...\\E`, `(?<name>...)`) and syntax that only Python has was refused
(`(?P<name>...)`, `(?(1)...)`, `(?#...)`). With a Spark session, `check_in_java` lets Java itself judge.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Pattern(NamedTuple):
    """A regular expression and the name its matches are counted under."""

    name: str
    regex: str


# No group is repeated without a bound: Java's matcher calls itself for each repetition, and a long line would overflow
# its stack. A repetition that may begin anywhere in a word has a bound too: else its time grows with the square.
DEFAULT_PATTERNS: tuple[Pattern, ...] = (
    Pattern("ipv4 address", r"\b(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)\b"),
    Pattern("uuid", r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"),
    Pattern("mail address", r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}\b"),
    Pattern("url", r"\b(?:https?|hdfs|ftp)://[\w.-]+(?::\d{1,5})?(?:/\S*)?"),
    Pattern("block", r"\b(?:blk|rdd|broadcast|shuffle)_-?\d+(?:_\d+){0,20}\b"),
    Pattern("exception", r"\b[A-Z]\w*(?:Exception|Error)\b"),
    Pattern("stack frame", r"\bat (?:[\w$]{1,200}\.){1,40}[\w$<>]{1,200}\([\w.]+(?::\d+)?\)"),
    Pattern("failure", r"(?i)\b(?:fail(?:ed|ure|ing)?|abort(?:ed)?|fatal|panic|corrupt(?:ed)?|denied)\b"),
    Pattern("timeout", r"(?i)\btime(?:d)?[ -]?out\b|\bdeadline exceeded\b"),
    Pattern("lost connection", r"(?i)\bconnection (?:reset|refused|closed|lost)\b|\bbroken pipe\b"),
    Pattern("login failure", r"(?i)\b(?:failed|invalid|bad) (?:password|login|user|credentials?)\b.{0,80}\bfrom\b"),
    Pattern("secret in clear", r"(?i)\b(?:password|passwd|secret|token|api[_-]?key)\s*[=:]\s*\S+"),
    Pattern("sql injection", r"(?i)\bunion\s+(?:all\s+)?select\b|\bor\s+(\d+)\s*=\s*\1\b|;\s*drop\s+table\b"),
    Pattern("path traversal", r"(?:\.\./){2}|%2e%2e(?:%2f|/)|/etc/(?:passwd|shadow)\b"),
    Pattern("script injection", r"(?i)<script[^>]{0,100}>|javascript:\s*\w+\(|\bon(?:error|load)\s*="),
    Pattern("server error", r"\bHTTP/\d(?:\.\d)?\"? 5\d\d\b|\bstatus[=: ]+5\d\d\b"),
    Pattern("slow", r"\b(?:\d{4,}(?:\.\d+)? ?ms|\d{2,}(?:\.\d+)? ?(?:s|sec|seconds))\b"),
    Pattern("nearly full", r"\b(?:9\d|100)(?:\.\d+)? ?%"),
    Pattern("out of memory", r"(?i)\bout of memory\b|\boutofmemory|\boom[ -]?kill|\bheap space\b"),
    Pattern("repeated word", r"\b([A-Za-z]{3,}) \1\b"),
    Pattern("key and value", r"\b([a-z_]+)=(\w+)(?:,? [a-z_]+=\w+){2}"),
    Pattern("card number", r"\b(?:\d[ -]?){15}\d\b"),
)

_PYTHON_ONLY = (
    (re.compile(r"\(\?P<"), "write a named group as (?<name>...)"),
    (re.compile(r"\(\?P="), r"write a reference to a named group as \k<name>"),
    (re.compile(r"\(\?\("), "Java has no conditional groups; write both branches with |"),
    (re.compile(r"\(\?#"), "Java has no comments of this form; leave it out"),
)
# Each is replaced by harmless text of the same length, so that positions in messages stay correct.
_JAVA_ONLY = re.compile(
    r"\\Q.*?(?:\\E|$)|\\[pP](?:\{\w[\w=]*\}|[A-Z])|\\k<\w+>|\(\?<(?:[=!]|[A-Za-z]\w*>)|\\x\{[0-9a-fA-F]+\}"
    r"|\(\?(?=[idmsuxU-])[idmsuxU]*(?:-[idmsuxU]+)?[:)]|\\[hHvVRXGzeN]|\\\\|\\.",
    re.DOTALL,
)


def _masked(regex: str) -> str:
    def mask(found: re.Match[str]) -> str:
        text = found.group()
        if text in ("(?<=", "(?<!"):  # Java's may vary in length
            return "(?:n"
        if text.startswith("(?<"):
            return "(" + "n" * (len(text) - 1)
        if text.startswith("(?"):  # flags, which Java also accepts in the middle
            return "(?:" + "n" * (len(text) - 4) + (")" if text.endswith(")") else "n")
        if text.startswith((r"\Q", r"\k", r"\x{")):
            return "q" * len(text)
        if text[:2] in (r"\p", r"\P", r"\h", r"\H", r"\v", r"\V", r"\R", r"\X", r"\G", r"\z", r"\e", r"\N"):
            return r"\w" + "w" * (len(text) - 2)
        return text  # an escape that both dialects have

    return _JAVA_ONLY.sub(mask, regex)


def fault_of(pattern: Pattern) -> str | None:
    """Describe what is wrong with a pattern, where, and how to fix it. None: Java should compile it."""
    bare = re.sub(r"\\.", "__", pattern.regex, flags=re.DOTALL)
    for python_only, fix in _PYTHON_ONLY:
        if found := python_only.search(bare):
            return _fault(pattern, "not in Java's dialect", found.start(), fix)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # Java's set operations, such as [a-z&&[^b]]
            re.compile(_masked(pattern.regex))
    except re.error as fault:
        return _fault(pattern, fault.msg, fault.pos, None)
    return None


def in_python(pattern: Pattern) -> str:
    """Return the expression as Python's compiler reads it: what only Java has stands for something like it."""
    return _masked(pattern.regex)


def _fault(pattern: Pattern, what: str, position: int | None, fix: str | None) -> str:
    where = "" if position is None or position < 0 else f" at position {position}"
    mend = fix or "fix the expression, or put a backslash before a character that is meant literally"
    return f"patterns: {pattern.name!r} does not compile: {what}{where} in {pattern.regex!r}; {mend}"


def load_patterns(path: str | Path) -> tuple[Pattern, ...]:
    """Read patterns from a file: a name, a tab (or a colon and a space) and an expression on each line.

    Empty lines and lines that begin with ``#`` are ignored.

    Raises
    ------
    ConfigurationError
        Lists every mistake in the file: a line without an expression, a name given twice, an expression that does not
        compile, no pattern at all.
    """
    file = Path(path)
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as fault:
        raise ConfigurationError(
            f"patterns: cannot read {file}: {fault}; give the path of a text file", field="patterns"
        ) from fault
    faults: list[str] = []
    found: dict[str, Pattern] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, regex = line.partition("\t" if "\t" in line else ": ")
        pattern = Pattern(name.strip(), regex.strip("\t"))
        if not pattern.name or not pattern.regex.strip():
            faults.append(f"patterns: line {number} is not a name and an expression: {line!r}; write 'name: regex'")
        elif pattern.name in found:
            faults.append(f"patterns: line {number} gives {pattern.name!r} a second time; choose another name")
        else:
            found[pattern.name] = pattern
            if fault_text := fault_of(pattern):
                faults.append(f"line {number}: {fault_text}")
    if not found and not faults:
        faults.append("patterns: the file has no pattern; write at least one line 'name: regex'")
    if faults:
        raise ConfigurationError.of_all(str(file), faults)
    return tuple(found.values())


def take(patterns: Sequence[Pattern], count: int) -> tuple[Pattern, ...]:
    """Return `count` patterns: the first ones, or all of them repeated under numbered names.

    The number of patterns sets the work per line. Each repetition of an expression gets one more pair of brackets:
    otherwise Spark would recognise it and not search again.
    """
    chosen = []
    for index in range(count):
        turn, place = divmod(index, len(patterns))
        name, regex = patterns[place]
        chosen.append(Pattern(f"{name} ~{turn + 1}", "(?:" * turn + regex + ")" * turn) if turn else patterns[place])
    return tuple(chosen)


def check_in_java(patterns: Sequence[Pattern], spark: SparkSession) -> None:
    """Let the session's Java compile every pattern.

    Raises
    ------
    ConfigurationError
        Lists every pattern that Java refuses, with the position and Java's own words.
    """
    from pyspark.errors import IllegalArgumentException

    jvm = spark.sparkContext._jvm
    assert jvm is not None, "a classic session always has its gateway"
    faults = []
    for pattern in patterns:
        try:
            jvm.java.util.regex.Pattern.compile(pattern.regex)
        except IllegalArgumentException as fault:  # PySpark's name for Java's PatternSyntaxException
            words, _, place = str(fault).splitlines()[0].partition(" near index ")
            faults.append(_fault(pattern, words, int(place) if place.isdecimal() else None, None))
    if faults:
        raise ConfigurationError.of_all("patterns", faults)
