# SPDX-License-Identifier: Apache-2.0
"""Takes what users wrote in Python as a policy: every chain finished, every name there once."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator

from penstock.errors import RuleError
from penstock.rules.callers import at_the_callers_line
from penstock.rules.checks import placed, same_name
from penstock.rules.fluent import Unfinished
from penstock.rules.nodes import Rule


def rules(*given: Unfinished | Rule | Iterable[Unfinished | Rule]) -> tuple[Rule, ...]:
    """All `given` rules, finished and checked; lists of rules are taken apart.

    Raises
    ------
    RuleError
        A chain ends too early, or two rules have one name; it says where the rule was written.
    """
    with at_the_callers_line():
        return collected(*given)


def collected(*given: object) -> tuple[Rule, ...]:
    """The same; an error that is about no single rule has no place."""
    flat: list[Unfinished | Rule] = []
    for item in given:
        flat.extend([item] if isinstance(item, (Unfinished, Rule)) else _each(item))
    found = tuple(item if isinstance(item, Rule) else item.finished() for item in flat)
    names: set[str] = set()
    for one in found:
        if one.name in names:
            raise placed(same_name(one.name), one.place)
        names.add(one.name)
    return found


def _each(items: object) -> Iterator[Unfinished | Rule]:
    if isinstance(items, (str, bytes)) or not isinstance(items, Iterable):
        raise RuleError(f"{reprlib.repr(items)} is no rule; write rule(...).scale_out(...) or a list of these")
    for item in items:
        if not isinstance(item, (Unfinished, Rule)):
            raise RuleError(f"{reprlib.repr(item)} is no rule; write rule(...).scale_out(...)")
        yield item
