# SPDX-License-Identifier: Apache-2.0
"""What is doubtful in rules that have no mistake: each doubt is certain, and names the rules and an example.

Rules can fire together in opposite directions, can never fire, are shadowed by others, or have limits that contradict
each other or the operator's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations

from penstock.records import Limits
from penstock.rules.examples import MOST_TRIES, example
from penstock.rules.findings import Finding
from penstock.rules.intervals import by_series, contradict, implies, with_order
from penstock.rules.limit_doubts import Together, limit_doubts
from penstock.rules.nodes import (
    ALL_OPERATORS,
    Comparison,
    Direction,
    Guard,
    Keep,
    MetricTrigger,
    Place,
    Quantity,
    Rule,
    Scale,
    Side,
    TimeTrigger,
)
from penstock.rules.periods import common_moment, imply, moment_text, never_hold

_ALL_TRIES = 1_000_000
"""Shared by all pairs of rules, so that a long file is checked in seconds as well."""


MOST_RULES = 300
"""Each rule is held against each other one, so a file of thousands would take hours."""


def doubts(rules: Sequence[Rule], operators: Mapping[str, Limits] | None = None) -> list[Finding]:
    """Everything doubtful, in the order of the rules.

    Parameters
    ----------
    rules
        Rules without a mistake.
    operators
        The operators of the pipeline with their limits, if they are known.
    """
    found = [*_never(rules)]
    if len(rules) > MOST_RULES:
        message = f"these are {len(rules)} rules; only the first {MOST_RULES} are held against each other"
        found.append(_finding(message, rules[MOST_RULES]))
        rules = rules[:MOST_RULES]
    dead = {name for finding in found for name in finding.rules}
    alive = [rule for rule in rules if rule.name not in dead]
    shadowed = list(_shadowed(alive))
    shadows = {finding.rules for finding in shadowed}
    found += shadowed
    tries = max(100, min(MOST_TRIES, _ALL_TRIES // (len(alive) ** 2 + 1)))
    together = partial(_together, tries=tries)
    for one, other in combinations(alive, 2):
        if (other.name, one.name) not in shadows and (one.name, other.name) not in shadows:
            found += _opposite(one, other, together)
    found += limit_doubts(alive, operators or {}, together)
    return sorted(found, key=lambda finding: (finding.place.line, finding.place.column))


def _never(rules: Sequence[Rule]) -> Iterator[Finding]:
    for rule in rules:
        why = _contradiction(rule)
        if why is not None:
            yield _finding(f'"{rule.name}" can never fire: {why}', rule)


def _contradiction(rule: Rule) -> str | None:
    times = [trigger for trigger in rule.triggers if isinstance(trigger, TimeTrigger)]
    if times and never_hold(times):
        return "its times of day have no moment in common; widen or remove one"
    own = [trigger for trigger in rule.triggers if isinstance(trigger, MetricTrigger)]
    sizes = _sizes_at_which_it_acts(rule)
    for series, triggers in by_series(with_order(own)).items():
        if contradict(triggers):
            return f"no value of {series[0]} satisfies all its triggers on it; change one of them"
        acting = [trigger for trigger in sizes if (trigger.metric, trigger.ahead_seconds) == series]
        if acting and contradict([*triggers, *acting]):
            return f"where its triggers on {series[0]} hold, its limit leaves nothing to do; change one of them"
    return None


def _sizes_at_which_it_acts(rule: Rule) -> list[MetricTrigger]:
    """The sizes from which a rule can scale, as triggers; relative limits are not known before a run."""
    action = rule.action
    if isinstance(action, Keep) or (action.limit is not None and action.limit.is_relative):
        return []
    metric = "executors" if action.direction.is_horizontal else "cpu_share"
    if action.direction.is_growth:
        most = 1.0 if action.limit is None else action.limit.value
        return [MetricTrigger(metric, Comparison.BELOW, most)]
    least = 0.0 if action.direction is Direction.DOWN else 1.0
    return [MetricTrigger(metric, Comparison.ABOVE, least if action.limit is None else action.limit.value)]


def _opposite(one: Rule, other: Rule, together: Together) -> Iterator[Finding]:
    if not isinstance(one.action, Scale) or not isinstance(other.action, Scale) or not _overlap(one, other):
        return
    if one.action.direction.is_growth is other.action.direction.is_growth:
        return
    shown = together(one, other)
    if shown is None:
        return
    grows = one if one.action.direction.is_growth else other
    yield _finding(
        f'"{one.name}" ({one.action.direction}) and "{other.name}" ({other.action.direction}) can fire together'
        f'{shown}; "{grows.name}" wins then. Let their triggers exclude each other',
        other,
        one,
    )


def _together(one: Rule, other: Rule, tries: int) -> str | None:
    """An example of how two rules hold together, in words; None where none is found."""
    triggers = (*one.triggers, *other.triggers)
    metrics = [trigger for trigger in triggers if isinstance(trigger, MetricTrigger)]
    sizes = [*_sizes_at_which_it_acts(one), *_sizes_at_which_it_acts(other)]
    parts: list[str] = []
    named = by_series(metrics)
    for series, group in by_series(with_order([*metrics, *sizes])).items():
        if contradict(group):
            return None
        history = example(group, tries)
        if history is None:
            return None
        if series in named:
            parts.append(history.text(series))
    times = [trigger for trigger in triggers if isinstance(trigger, TimeTrigger)]
    when = ""
    if times:
        moment = common_moment(times)
        if moment is None:
            return None
        when = f" on {moment_text(moment, times[0].zone)}"
    if not parts and not when:
        return " at all times"
    return f", for example{' with ' if parts else ''}{' and '.join(parts)}{when}"


def _shadowed(rules: Sequence[Rule]) -> Iterator[Finding]:
    for i, rule in enumerate(rules):
        for j, other in enumerate(rules):
            if i == j or not _covers(other, rule) or not _holds_whenever(other, rule):
                continue
            why = _wins(other, rule)
            if why is None or (j > i and _holds_whenever(rule, other) and _wins(rule, other) is not None):
                continue  # of two that say the same, the later one is reported
            yield _finding(
                f'"{rule.name}" never changes anything: whenever it holds, "{other.name}" holds too and {why}; '
                "remove it, or change its triggers",
                rule,
                other,
            )
            break


def _wins(winner: Rule, loser: Rule) -> str | None:
    """Why a rule leaves another without effect where both hold, and None where it does not."""
    if isinstance(winner.action, Keep) and isinstance(loser.action, Keep):
        return "bounds it as much" if _bounds_more(winner.action, loser.action) else None
    if isinstance(winner.action, Keep) or isinstance(loser.action, Keep):
        return None
    mine, its = winner.action, loser.action
    if mine.direction.is_growth and not its.direction.is_growth:
        return f"its {mine.direction} wins over any {its.direction}"
    if mine.direction is not its.direction or mine.amount.is_relative is not its.amount.is_relative:
        return None
    if not mine.direction.is_growth:  # of rules that shrink, the one that takes least wins, even while it waits
        return "takes no more, which wins" if mine.amount.value <= its.amount.value else None
    reaches = _reaches(mine.limit, its.limit) and mine.amount.value >= its.amount.value
    waits = all(any(_waits_as_long(guard, theirs) for theirs in loser.guards) for guard in winner.guards)
    return "grows at least as far" if reaches and waits else None


def _waits_as_long(guard: Guard, other: Guard) -> bool:
    return guard.after is other.after and guard.seconds <= other.seconds


def _reaches(limit: Quantity | None, other: Quantity | None) -> bool:
    full = Quantity(1.0)  # only a CPU share may grow without a limit, and it ends at 100%
    mine, its = limit or full, other or full
    return mine.is_relative is its.is_relative and mine.value >= its.value


def _bounds_more(mine: Keep, its: Keep) -> bool:
    if mine.side is not its.side or (mine.executors is None) is not (its.executors is None):
        return False
    a = mine.executors if mine.executors is not None else mine.cpu_share
    b = its.executors if its.executors is not None else its.cpu_share
    assert a is not None
    assert b is not None
    return a >= b if mine.side is Side.LEAST else a <= b


def _holds_whenever(wanted: Rule, given: Rule) -> bool:
    """Whether all triggers of `wanted` certainly hold whenever those of `given` do."""
    metrics = with_order([trigger for trigger in given.triggers if isinstance(trigger, MetricTrigger)])
    times = [trigger for trigger in given.triggers if isinstance(trigger, TimeTrigger)]
    return all(
        imply(times, trigger) if isinstance(trigger, TimeTrigger) else any(implies(one, trigger) for one in metrics)
        for trigger in wanted.triggers
    )


def _covers(rule: Rule, other: Rule) -> bool:
    return rule.operator in (ALL_OPERATORS, other.operator)


def _overlap(one: Rule, other: Rule) -> bool:
    return _covers(one, other) or _covers(other, one)


def _finding(message: str, rule: Rule, *others: Rule) -> Finding:
    return Finding(rule.place or Place(1, 1), message, (rule.name, *(other.name for other in others)))
