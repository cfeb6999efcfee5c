# SPDX-License-Identifier: Apache-2.0
"""Settings files: YAML in which no key stands twice."""

from __future__ import annotations

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from penstock.errors import ConfigurationError

_QUOTED = re.compile(r"'[^']{2,}'|\"[^\"]{2,}\"")

_MOST_VALUES = 100_000


class _OnceOnlyLoader(yaml.SafeLoader):
    """Refuses a key that stands twice in one mapping: YAML would drop the first without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if str(key.value) in seen and key.tag != "tag:yaml.org,2002:merge":
                raise yaml.constructor.ConstructorError(
                    None, None, f"`{key.value}` stands twice in one mapping; keep one", key.start_mark
                )
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


def read_settings(path: Path) -> dict[str, Any]:
    """The plain data of a settings file; ConfigurationError where it is not a YAML mapping."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as fault:
        raise ConfigurationError(f"{path}: cannot be read: {fault.strerror}", field="settings file") from fault
    except UnicodeDecodeError as fault:
        raise ConfigurationError(
            f"{path}: is not a text file; write it as YAML in UTF-8", field="settings file"
        ) from fault
    try:
        data = yaml.load(text, _OnceOnlyLoader)
    except yaml.MarkedYAMLError as fault:
        raise ConfigurationError(f"{path}: is not YAML: {_in_words(fault)}", field="settings file") from None
    except (yaml.YAMLError, ValueError, RecursionError) as fault:
        raise ConfigurationError(f"{path}: is not YAML: {fault}", field="settings file") from fault
    if _is_larger(data, _MOST_VALUES):
        raise ConfigurationError(
            f"{path}: holds more than {_MOST_VALUES:,} values, with what its aliases (*) repeat; write less",
            field="settings file",
        )
    if not isinstance(data, dict):
        raise ConfigurationError(
            f"{path}: needs `name:`, `operators:` and, to run it, `arrivals:`", field="settings file"
        )
    return data


def _is_larger(data: Any, most: int) -> bool:
    """Whether plain data hold more values than that, aliases counted each time: a few lines of them can stand for
    millions of values, which would all be looked through. One that contains itself has no end."""
    waiting, seen = [data], 0
    while waiting:
        seen += 1
        if seen > most:
            return True
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, (list, tuple, set)):
            waiting += value
    return False


def _in_words(fault: yaml.MarkedYAMLError) -> str:
    """Where and what, without the line itself: it may hold a password, and so may a word in quotes."""
    mark = fault.problem_mark or fault.context_mark
    where = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
    problem = _QUOTED.sub("...", fault.problem or fault.context or "cannot be read")
    if isinstance(fault, yaml.constructor.ConstructorError):
        return f"{where}{problem}"
    return f"{where}{problem}; put values with @, %, *, &, !, # or ': ' in them into quotes"
