# SPDX-License-Identifier: Apache-2.0
"""Paths through a pipeline: from its source to an operator that nobody reads from, as names of operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

Path: TypeAlias = tuple[str, ...]
_ARROW = "->"


def path_text(path: Path) -> str:
    """Write a path for people and files.

    Examples
    --------
    >>> path_text(("parser", "matcher"))
    'parser -> matcher'
    """
    return f" {_ARROW} ".join(path)


def path_of(text: str) -> Path:
    """Read what `path_text` wrote.

    Examples
    --------
    >>> path_of("parser->matcher")
    ('parser', 'matcher')
    """
    return tuple(name.strip() for name in text.split(_ARROW))


def paths_through(inputs: Mapping[str, Sequence[str]]) -> tuple[Path, ...]:
    """Every path of a graph without cycles, given as the operators that each operator reads from.

    Examples
    --------
    >>> paths_through({"parser": (), "counter": ("parser",), "matcher": ("parser",)})
    (('parser', 'counter'), ('parser', 'matcher'))
    """
    readers = {name: [reader for reader, above in inputs.items() if name in above] for name in inputs}

    def onward(path: Path) -> list[Path]:
        below = readers[path[-1]]
        return [path] if not below else [long for name in below for long in onward((*path, name))]

    return tuple(path for name, above in inputs.items() if not above for path in onward((name,)))
