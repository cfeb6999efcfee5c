# SPDX-License-Identifier: Apache-2.0
"""What to write in place of a wrong value, in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_LISTS = {
    "operators": "[{name: counter, app: my_module:count}]",
    "operators.unique": "[id]",
    "operators.executors": "[1, 4]",
    "operators.cpu_shares": "[0.5, 1.0]",
    "operators.sizes": "[{cores: 2}, {cores: 4}]",
    "objectives": "[{path: parser -> matcher, objective: {p95: 2s}}]",
}
_WRITE = {
    "int": "write a whole number, such as 2",
    "float": "write a number, such as 0.5",
    "finite": "write a finite number, such as 0.5",
    "string": 'write text; a number needs quotes, such as "5"',
    "dict": "write names and values, such as {name: value}",
    "mapping": "write names and values, such as {name: value}",
    "path": "write the path of a file",
    "bool": "write true or false",
    "invalid": "write the name as text",
}
"""By the first word of the kind of error."""
_LIMITS = {
    "greater_than": ("gt", "above"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "below"),
    "less_than_equal": ("le", "at most"),
}


def what_to_write(error: Mapping[str, Any], place: str) -> str | None:
    """What a value of the settings should be; None where the error's own message says it.

    Parameters
    ----------
    error
        As the library that reads the settings reports it.
    place
        The path of the value, without the numbers of list entries.

    Examples
    --------
    >>> what_to_write({"type": "greater_than", "ctx": {"gt": 0.0}}, "operators.selectivity")
    'must be above 0'
    >>> what_to_write({"type": "literal_error", "ctx": {"expected": "'act' or 'recommend'"}}, "mode")
    "use 'act' or 'recommend'"
    """
    kind, context = str(error["type"]), error.get("ctx", {})
    if kind in ("tuple_type", "list_type"):
        return f"write a list such as {_LISTS.get(place, '[1, 2]')}"
    if kind in _LIMITS:
        key, word = _LIMITS[kind]
        return f"must be {word} {context[key]:g}"
    if kind == "literal_error":
        return f"use {context['expected']}"
    if kind == "too_long":
        return f"give at most {context['max_length']}"
    if kind == "dict_type" and place.endswith("objective"):
        return "write a statistic and a time, such as {p95: 2s}"
    return _WRITE.get(kind.split("_", maxsplit=1)[0])
