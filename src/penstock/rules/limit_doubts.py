# SPDX-License-Identifier: Apache-2.0
"""Limits and bounds that contradict each other, or what the operator may have at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, permutations

from penstock.records import Limits
from penstock.rules.findings import Finding
from penstock.rules.nodes import ALL_OPERATORS, Direction, Keep, Place, Rule, Scale, Side
from penstock.rules.numbers import number_text, percent_text

Together = Callable[[Rule, Rule], str | None]
"""An example of how two rules hold together, in words; None where there is none."""


def limit_doubts(rules: Sequence[Rule], operators: Mapping[str, Limits], together: Together) -> list[Finding]:
    """Everything doubtful about limits."""
    found: list[Finding] = []
    for one, other in permutations(rules, 2):
        if ALL_OPERATORS in (one.operator, other.operator) or one.operator == other.operator:
            found += _between(one, other)
    for one, other in combinations(rules, 2):
        if ALL_OPERATORS in (one.operator, other.operator) or one.operator == other.operator:
            found += _bounds(one, other, together)
    return found + own_limit_doubts(rules, operators)


def own_limit_doubts(rules: Sequence[Rule], operators: Mapping[str, Limits]) -> list[Finding]:
    """What is doubtful about the limits of rules, each by itself, beside those of their operators."""
    return [
        finding
        for rule in rules
        for name, limits in operators.items()
        if rule.operator in (ALL_OPERATORS, name)
        for finding in _own(rule, name, limits)
    ]


def _between(one: Rule, other: Rule) -> Iterator[Finding]:
    """The limits of a rule that grows (`one`) against those of one that shrinks, or bounds."""
    if not isinstance(one.action, Scale) or one.action.limit is None:
        return
    mine = one.action
    limit = one.action.limit
    if isinstance(other.action, Scale):
        its = other.action.limit
        is_pair = (mine.direction, other.action.direction) in (
            (Direction.OUT, Direction.IN),
            (Direction.UP, Direction.DOWN),
        )
        if is_pair and its is not None and its.is_relative is limit.is_relative and its.value >= limit.value:
            yield _finding(
                f'the limits contradict each other: "{one.name}" never scales above {_text(one, limit.value)}, '
                f'"{other.name}" never below {_text(other, its.value)}; leave room between them',
                other,
                one,
            )
    elif not limit.is_relative:
        bound = other.action.executors if mine.direction.is_horizontal else other.action.cpu_share
        if bound is None:
            return
        is_above = mine.direction.is_growth
        if other.action.side is Side.LEAST and is_above and bound > limit.value:
            yield _finding(
                f'"{other.name}" keeps at least {_text(one, bound)}, above the limit {_text(one, limit.value)} of '
                f'"{one.name}"; raise the limit or lower the bound',
                other,
                one,
            )
        is_always = not other.triggers
        if other.action.side is Side.MOST and is_always and is_above and bound < limit.value:
            yield _finding(
                f'"{other.name}" always keeps at most {_text(one, bound)}, so "{one.name}" never comes to its limit '
                f"{_text(one, limit.value)}; say the same in both",
                one,
                other,
            )
        if other.action.side is Side.MOST and not is_above and bound < limit.value:
            yield _finding(
                f'"{other.name}" keeps at most {_text(one, bound)}, below the limit {_text(one, limit.value)} of '
                f'"{one.name}"; lower the limit or raise the bound',
                other,
                one,
            )


def _bounds(one: Rule, other: Rule, together: Together) -> Iterator[Finding]:
    """At least more than at most, at the same time."""
    if not isinstance(one.action, Keep) or not isinstance(other.action, Keep) or one.action.side is other.action.side:
        return
    least, most = (one, other) if one.action.side is Side.LEAST else (other, one)
    low, high = _bound_of(least), _bound_of(most)
    if low is None or high is None or low[1] is not high[1] or low[0] <= high[0]:
        return
    shown = together(one, other)
    if shown is not None:
        yield _finding(
            f'the bounds contradict each other: "{least.name}" keeps at least {_amount(*low)}, "{most.name}" at most '
            f"{_amount(*high)}, and both can hold{shown}; at least wins then",
            other,
            one,
        )


def _own(rule: Rule, operator: str, limits: Limits) -> Iterator[Finding]:
    """A rule against what its operator may have."""
    found = _own_of_keep(rule, limits) if isinstance(rule.action, Keep) else _own_of_scale(rule.action, limits)
    if found is not None:
        yield _finding(f'"{rule.name}" {found} (operator {operator} in the pipeline)', rule)


def _own_of_keep(rule: Rule, limits: Limits) -> str | None:
    bound = _bound_of(rule)
    if bound is None or not isinstance(rule.action, Keep):
        return None
    low, high = _range(limits, is_executors=bound[1])
    if rule.action.side is Side.LEAST and bound[0] > high:
        return f"keeps at least {_amount(*bound)}, but the operator has at most {_amount(high, bound[1])}"
    if rule.action.side is Side.MOST and bound[0] < low:
        return f"keeps at most {_amount(*bound)}, but the operator has at least {_amount(low, bound[1])}"
    return None


def _own_of_scale(action: Scale, limits: Limits) -> str | None:
    is_executors = action.direction.is_horizontal
    low, high = _range(limits, is_executors=is_executors)
    if low == high:
        setting = "executors" if is_executors else "cpu_shares"
        return f"can never fire: the operator always has {_amount(low, is_executors)}; give it more `{setting}`"
    limit = action.limit
    if limit is None or limit.is_relative:
        return None
    said, least, most = (_amount(value, is_executors) for value in (limit.value, low, high))
    if action.direction.is_growth:
        is_dead, is_cut, near, far = limit.value <= low, limit.value > high, f"at least {least}", f"at most {most}"
    else:
        # Never below 1 is what holds anyway: whoever writes it down contradicts nobody.
        is_cut = limit.value < low and not (is_executors and limit.value == 1.0)
        is_dead, near, far = limit.value >= high, f"at most {most}", f"at least {least}"
    if is_dead:
        side = "above" if action.direction.is_growth else "below"
        return f"can never fire: it never scales {side} {said}, and the operator has {near}"
    return f"never comes to its limit {said}: the operator has {far}" if is_cut else None


def _range(limits: Limits, *, is_executors: bool) -> tuple[float, float]:
    if is_executors:
        return float(limits.min_executors), float(limits.max_executors)
    return min(limits.cpu_shares), max(limits.cpu_shares)


def _bound_of(rule: Rule) -> tuple[float, bool] | None:
    """The bound of a `Keep`, and whether it is of executors."""
    if not isinstance(rule.action, Keep):
        return None
    if rule.action.executors is not None:
        return float(rule.action.executors), True
    return None if rule.action.cpu_share is None else (rule.action.cpu_share, False)


def _text(rule: Rule, value: float) -> str:
    assert isinstance(rule.action, Scale)
    limit = rule.action.limit
    if limit is not None and limit.is_relative:
        return f"x{number_text(value)}"
    return number_text(value) if rule.action.direction.is_horizontal else percent_text(value)


def _amount(value: float, is_executors: bool) -> str:
    if not is_executors:
        return f"{percent_text(value)} CPU"
    return "1 executor" if value == 1.0 else f"{number_text(value)} executors"


def _finding(message: str, rule: Rule, *others: Rule) -> Finding:
    return Finding(rule.place or Place(1, 1), message, (rule.name, *(other.name for other in others)))
