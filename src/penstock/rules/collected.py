# SPDX-License-Identifier: Apache-2.0
"""Takes what users wrote in Python as a policy: every chain finished, every name there once."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.rules.callers import refuse
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
    flat: list[Unfinished | Rule] = []
    for item in given:
        flat.extend([item] if isinstance(item, (Unfinished, Rule)) else list(_each(item)))
    found = tuple(item if isinstance(item, Rule) else item.finished() for item in flat)
    for i, one in enumerate(found):
        if one.name in [other.name for other in found[:i]]:
            raise placed(same_name(one.name), one.place)
    return found


def _each(items: object) -> Iterable[Unfinished | Rule]:
    if isinstance(items, (str, bytes)) or not isinstance(items, Iterable):
        refuse(f"{items!r} is no rule; write rule(...).scale_out(...) or a list of these")
    for item in items:
        if not isinstance(item, (Unfinished, Rule)):
            refuse(f"{item!r} is no rule; write rule(...).scale_out(...)")
        yield item
