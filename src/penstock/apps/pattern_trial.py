# SPDX-License-Identifier: Apache-2.0
"""Tries users' regular expressions before they meet records: on texts made to keep them busy, with a limit on time.

Spark searches with Java's matcher, which cannot be interrupted: a pattern with nested repetitions may hold a task for
hours on a short line. So each pattern is tried beforehand, by Python's matcher, which goes back and tries again as
Java's does. For every repetition in the pattern a text is made of what it repeats, as long as what is searched of a
record, with an end on which the match fails. A pattern that can fail to match in many ways takes long on one of these.

It runs in a process of its own, which the kernel ends when a search has used up its time on the CPU: other work on the
machine does not count.
"""

from __future__ import annotations

import importlib
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.errors import ConfigurationError
from penstock.units import positive_seconds

DEFAULT_LIMIT = "1s"
"""How long one search may take on the CPU."""
_LONGEST_LIMIT_SECONDS = 60.0
LONGEST_TEXT = 20_000
"""Longer texts are not tried: where a pattern may search more, its time grows with at least the square."""
_MOST_TEXTS = 40
_LEAST_REPEATED = 8
"""A repetition that can do fewer is no danger."""
_ENDS = ("\x00", "")
_CHARACTERS = "0aA _-.:/=,@%(<\"'" + "".join(map(chr, range(33, 127))) + "\n\té"
"""In this order: what many classes have in common comes first, for there repetitions can take each other's text."""
_CATEGORIES: Mapping[str, Callable[[str], bool]] = {
    "DIGIT": str.isdigit,
    "SPACE": str.isspace,
    "WORD": lambda character: character.isalnum() or character == "_",
}
_PROGRAM = """
import json, re, signal, sys
signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
job = json.load(sys.stdin)
for number, (regex, texts) in enumerate(job["patterns"]):
    pattern = re.compile(regex)
    for place, (before, repeated, end) in enumerate(texts):
        room = job["length"] - len(before) - len(end)
        text = before + repeated * max(1, room // len(repeated)) + end
        print(number, place, flush=True)
        signal.setitimer(signal.ITIMER_VIRTUAL, job["seconds"])
        pattern.search(text)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
"""


@dataclass(frozen=True, slots=True)
class BusyText:
    """A text that keeps a pattern busy: something that it repeats, between a beginning and an end."""

    before: str
    repeated: str
    end: str

    def __str__(self) -> str:
        begins = f"{self.before!r}, then " if self.before else ""
        ends = f", then {self.end!r}" if self.end else ""
        return f"{begins}{self.repeated!r} again and again{ends}"


def slow_patterns(patterns: Mapping[str, str], length: int, seconds: float) -> dict[str, BusyText]:
    """Return the patterns, by name, on which a search takes longer than `seconds`, each with the text that did it.

    Parameters
    ----------
    patterns
        Expressions by name, as Python's compiler reads them.
    length
        How many characters of a record are searched.
    seconds
        The limit for one search, on the CPU.
    """
    left = [(name, regex, busy_texts(regex)) for name, regex in patterns.items()]
    slow: dict[str, BusyText] = {}
    while left:
        stopped = _try([(regex, texts) for _, regex, texts in left], min(length, LONGEST_TEXT), seconds)
        if stopped is None:
            break
        number, place = stopped
        name, _, texts = left[number]
        slow[name] = texts[place]
        left = left[number + 1 :]
    return slow


def check_in_time(patterns: Mapping[str, str], length: int, seconds: float, field: str) -> None:
    """Refuse patterns that take too long.

    Raises
    ------
    ConfigurationError
        Lists every such pattern, with the text and what to do.
    """
    if seconds <= 0:
        return
    faults = [
        f"{field}: {name!r} takes more than {seconds:g} s on {min(length, LONGEST_TEXT):,} characters of {text}; bound "
        "its repetitions ({1,80}), do not repeat what repeats, or make a repetition keep what it has (a++); "
        "pattern_seconds=0 leaves this trial out"
        for name, text in slow_patterns(patterns, length, seconds).items()
    ]
    if faults:
        raise ConfigurationError.of_all(field, faults)


def read_limit(name: str, text: str) -> float:
    """Read the limit of a search, in seconds; 0 leaves the trial out.

    Raises
    ------
    ConfigurationError
        It is no time, or longer than a minute.
    """
    seconds = 0.0 if text.strip() in ("0", "0s") else positive_seconds(name, text)
    if seconds > _LONGEST_LIMIT_SECONDS:
        raise ConfigurationError(
            f'{name}: {text!r} is longer than a minute; give a time such as "1s", or 0 for no trial', field=name
        )
    return seconds


def busy_texts(regex: str) -> list[BusyText]:
    """The texts for each repetition of an expression, without copies."""
    tree = importlib.import_module("re._parser").parse(regex)
    found: dict[BusyText, None] = {}
    for before, repeated in _repetitions(tree, ""):
        for end in _ENDS:
            found.setdefault(BusyText(before, repeated, end))
            found.setdefault(BusyText("", repeated, end))
    return list(found)[:_MOST_TEXTS]


def _try(patterns: Sequence[tuple[str, Sequence[BusyText]]], length: int, seconds: float) -> tuple[int, int] | None:
    """Search for all; gives the number of the pattern and of the text at which the time was up. None: it never was."""
    job = {
        "length": length,
        "seconds": seconds,
        "patterns": [(regex, [(t.before, t.repeated, t.end) for t in texts]) for regex, texts in patterns],
    }
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-W", "ignore", "-c", _PROGRAM],
        input=json.dumps(job), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode == -signal.SIGVTALRM:
        number, place = map(int, done.stdout.splitlines()[-1].split())
        return number, place
    if done.returncode != 0:
        raise ConfigurationError(
            f"patterns: they could not be tried: {done.stderr.strip().splitlines()[-1:]}", field="patterns"
        )
    return None


# --- what an expression repeats, from the tree that Python's compiler makes of it ---


def _repetitions(items: Any, before: str) -> Iterator[tuple[str, str]]:
    """What comes before each repetition, and what it repeats once."""
    for operation, argument in items:
        kind = str(operation)
        if kind.endswith("_REPEAT"):
            least, most, body = argument
            if most >= _LEAST_REPEATED and most > least:
                yield from ((before, text) for text in _texts(body) if text)
            yield from _repetitions(body, before)
        elif kind == "BRANCH":
            for branch in argument[1]:
                yield from _repetitions(branch, before)
        elif kind == "SUBPATTERN":
            yield from _repetitions(argument[-1], before)
        elif kind == "ATOMIC_GROUP":
            yield from _repetitions(argument, before)
        elif kind in ("ASSERT", "ASSERT_NOT"):
            yield from _repetitions(argument[1], before)
        before += _text([(operation, argument)])


def _texts(items: Any) -> list[str]:
    """Texts that a part of an expression matches: one for each of its first branches."""
    for place, (operation, argument) in enumerate(items):
        if str(operation) == "BRANCH":
            around = _text(items[:place]), _text(items[place + 1 :])
            return [around[0] + _text(branch) + around[1] for branch in argument[1][:3]]
    return [_text(items)]


def _text(items: Any) -> str:
    """A short text that a part of an expression matches; what repeats any number of times is there once."""
    found = ""
    for operation, argument in items:
        kind = str(operation)
        if kind.endswith("_REPEAT"):
            found += _text(argument[2]) * min(max(1, argument[0]), _LEAST_REPEATED)
        elif kind == "BRANCH":
            found += _text(argument[1][0])
        elif kind == "SUBPATTERN":
            found += _text(argument[-1])
        elif kind == "ATOMIC_GROUP":
            found += _text(argument)
        elif kind == "LITERAL":
            found += chr(argument)
        elif kind in ("NOT_LITERAL", "ANY", "IN"):
            found += next((one for one in _CHARACTERS if _is_matched(kind, argument, one)), "")
    return found


def _is_matched(kind: str, argument: Any, character: str) -> bool:
    if kind == "ANY":
        return character != "\n"
    if kind in ("LITERAL", "NOT_LITERAL"):
        return (chr(argument) == character) is (kind == "LITERAL")
    if kind == "RANGE":
        return bool(argument[0] <= ord(character) <= argument[1])
    if kind == "CATEGORY":
        name = str(argument).removeprefix("CATEGORY_").removeprefix("UNI_").removeprefix("LOC_")
        is_in = _CATEGORIES[name.removeprefix("NOT_")](character)
        return bool(is_in) is not name.startswith("NOT_")
    # A class: any of its parts, or none of them.
    is_negated = bool(argument) and str(argument[0][0]) == "NEGATE"
    return any(_is_matched(str(part), what, character) for part, what in argument[is_negated:]) is not is_negated
