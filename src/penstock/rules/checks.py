# SPDX-License-Identifier: Apache-2.0
"""What every part of a rule has to be, whatever form it is written in.

Each function returns the part, or raises `RuleError` with the fix and without a place: the form that reads the part
knows where it stands.
"""

from __future__ import annotations

import difflib
import reprlib
import zoneinfo
from collections.abc import Iterable, Sequence

from penstock.errors import ConfigurationError, RuleError
from penstock.metrics import METRICS, metric_named
from penstock.rules.nodes import (
    ALL_OPERATORS,
    WEEKDAYS,
    Direction,
    Guard,
    Keep,
    MetricTrigger,
    Place,
    Quantity,
    Rule,
    Scale,
    Side,
    Trigger,
)
from penstock.rules.numbers import Kind, Number, number_text

STATISTICS = ("mean", "max", "min")
"""What a trigger may take of the readings of its time, beside percentiles."""

WEEKDAYS_ONLY, WEEKENDS = WEEKDAYS[:5], WEEKDAYS[5:]


def checked_name(name: object) -> str:
    """The name of a rule: one line of printable text."""
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise RuleError(f'{reprlib.repr(name)} is no name for a rule; write one line of text, such as "queue too long"')
    return name


def checked_operator(name: object) -> str:
    """The name of an operator, or ``*`` for all."""
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise RuleError(f"{reprlib.repr(name)} is no operator; write its name, or * for all operators")
    return name


def amount_of(direction: Direction, number: Number) -> Quantity:
    """By how much a rule scales."""
    if number.kind is Kind.TIMES:
        if number.value <= 1.0:
            raise RuleError(
                f"the factor x{number_text(number.value)} is not above 1; write x2 (times(2) in Python) to "
                f"{'double' if direction.is_growth else 'halve'}: {direction} already says which way"
            )
        return Quantity(number.value, is_relative=True)
    return _absolute(direction, number)


def limit_of(direction: Direction, side: str, number: Number) -> Quantity:
    """How far a rule scales: `side` is ``above`` or ``below``, as it was written."""
    right = "above" if direction.is_growth else "below"
    if side != right:
        raise RuleError(f"{direction} is limited with `never {right}`, not `never {side}`")
    if number.kind is not Kind.TIMES:
        return _absolute(direction, number)
    if number.value < 1.0 and direction.is_growth:
        raise RuleError(
            f"the limit x{number_text(number.value)} is below the original size; write at least x1, such as x4"
        )
    if number.value <= 0.0:
        raise RuleError("the limit x0 is below 1 executor; write more than x0, such as x0.5, or a number")
    return Quantity(number.value, is_relative=True)


def _absolute(direction: Direction, number: Number) -> Quantity:
    if direction.is_horizontal:
        return Quantity(_executors(number))
    return Quantity(_share(number))


def _executors(number: Number) -> float:
    if number.kind is not Kind.PLAIN:
        raise RuleError("executors are counted: write a whole number, such as 2; a percentage is a CPU share")
    if number.value < 1 or not number.value.is_integer():
        raise RuleError(f"{number_text(number.value)} is not a number of executors; write a whole number from 1 on")
    return number.value


def _share(number: Number) -> float:
    if number.kind is Kind.TIMES or not 0.0 < number.value <= 1.0:
        raise RuleError(
            f"{number_text(number.value)} is not a CPU share; write more than 0% and at most 100%, such as 20% "
            "(percent(20) in Python) or 0.2"
        )
    return number.value


def keep_of(side: Side, number: Number, *, is_cpu: bool) -> Keep:
    """A bound on executors, or on the CPU share."""
    if is_cpu:
        return Keep(side, cpu_share=_share(number))
    if number.kind is Kind.PERCENT:
        raise RuleError("a percentage bounds the CPU share: write `50% cpu`, or a whole number of executors")
    return Keep(side, executors=int(_executors(number)))


def checked_metric(name: str) -> str:
    """The name of a metric as the catalogue has it today."""
    try:
        return metric_named(name).name
    except ConfigurationError as fault:
        message = str(fault).removeprefix("metric: ")
        raise RuleError(f"{message}, as does docs/reference/metrics.md") from None


def checked_statistic(text: str) -> str:
    """The name of a statistic: mean, max, min, or a percentile in its shortest form."""
    if text in STATISTICS:
        return text
    try:
        percentile = float(text.removeprefix("p")) if text.startswith("p") and text.isascii() else 0.0
    except ValueError:
        percentile = 0.0
    if not 0.0 < percentile < 100.0 or "_" in text:
        raise RuleError(
            f"unknown statistic {reprlib.repr(text)}; "
            "use mean, max, min or a percentile such as p90, between p0 and p100"
        )
    return f"p{number_text(percentile)}"


def value_of(metric: str, number: Number) -> float:
    """What a metric is compared with; `metric` is a name of the catalogue."""
    unit = METRICS[metric].unit
    if number.kind is Kind.TIMES:
        raise RuleError(f"{metric} is compared with a number, such as 300; x{number_text(number.value)} is a factor")
    if number.kind is Kind.PERCENT and unit != "fraction":
        raise RuleError(f"{metric} is counted in {unit}, so a percentage says nothing; write a number without %")
    if not number.value >= 0.0:
        raise RuleError(f"{metric} is never below 0; compare it with 0 or more")
    if unit == "fraction" and number.value > 1.0:
        percent = number_text(number.value if number.kind is Kind.PLAIN and number.value <= 100 else 60.0)
        raise RuleError(
            f"{metric} is a fraction between 0 and 1; write {percent}% (percent({percent}) in Python) or a fraction"
        )
    return number.value


def checked_trigger(trigger: MetricTrigger) -> MetricTrigger:
    """A trigger on a metric whose parts are right one by one."""
    if trigger.statistic is not None and trigger.for_seconds <= 0.0:
        raise RuleError(
            f"{trigger.statistic} of {trigger.metric} needs the time over which it is taken; add `for 30 seconds` "
            "(.for_at_least(seconds(30)) in Python)"
        )
    if trigger.ahead_seconds is not None and trigger.ahead_seconds <= 0.0:
        raise RuleError("a forecast looks ahead by more than 0 seconds; write `in 2 minutes`, or leave it out")
    return trigger


def checked_guard(guard: Guard) -> Guard:
    """A guard time that lasts."""
    if guard.seconds <= 0.0:
        raise RuleError("a guard time lasts more than 0 seconds; write `within 5 minutes`, or leave it out")
    return guard


def checked_days(days: Iterable[str]) -> tuple[str, ...]:
    """Weekdays in their order, each once; none where all seven are meant."""
    given = list(days)
    for day in given:
        if day not in WEEKDAYS:
            near = difflib.get_close_matches(day.lower(), (*WEEKDAYS, "weekdays", "weekends"), n=1)
            meant = f"did you mean {near[0]}?" if near else "write monday to sunday, weekdays or weekends"
            raise RuleError(f"unknown day {reprlib.repr(day)}; {meant}")
    chosen = tuple(day for day in WEEKDAYS if day in given)
    return () if chosen == WEEKDAYS else chosen


def checked_zone(name: str) -> str:
    """The name of an IANA time zone."""
    try:
        zoneinfo.ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        near = difflib.get_close_matches(name, zoneinfo.available_timezones(), n=3, cutoff=0.5)
        meant = f"did you mean {' or '.join(near)}?" if near else "write one such as Europe/Zurich or UTC"
        raise RuleError(f"unknown time zone {reprlib.repr(name)}; {meant}") from None
    return name


def limit_is_missing(action: Scale) -> bool:
    """Whether a rule would scale out without end."""
    return action.direction is Direction.OUT and action.limit is None


def missing_limit() -> RuleError:
    """The error for such a rule."""
    return RuleError(
        "a rule that scales out needs a limit; add `never above 8` or `never above x4` "
        "(.but_never_above(8) or .but_never_above(times(4)) in Python)"
    )


def missing_trigger() -> RuleError:
    """The error for a rule that scales at all times."""
    return RuleError(
        "the rule has no trigger; add `when queue_length above 300 for 30 seconds` "
        '(.when(metric("queue_length") > 300) in Python)'
    )


def checked_rule(
    name: str,
    operator: str,
    action: Scale | Keep,
    triggers: Sequence[Trigger],
    guards: Sequence[Guard],
    *,
    place: Place | None = None,
) -> Rule:
    """A rule of parts that are right one by one, if they fit together."""
    if isinstance(action, Scale):
        if limit_is_missing(action):
            raise missing_limit()
        if not triggers:
            raise missing_trigger()
    elif guards:
        raise RuleError("a bound holds while its triggers hold and knows no guard times; leave `unless ... within` out")
    for i, guard in enumerate(guards):
        if guard.after in [other.after for other in guards[:i]]:
            raise RuleError(f"the guard time after {guard.after} stands twice; keep the longer one")
    return Rule(name, operator, action, tuple(triggers), tuple(guards), place)


def same_name(name: str) -> RuleError:
    """The error for a second rule of one name."""
    return RuleError(f'a rule before is called "{name}" as well; give each its own name')


def near_operators(name: str, known: Sequence[str]) -> list[str]:
    """The operators that a name may stand for, the nearest first."""
    return difflib.get_close_matches(name, known, n=3, cutoff=0.5)


def unknown_operator(name: str, known: Sequence[str]) -> RuleError:
    """The error for an operator that the pipeline does not have."""
    near = near_operators(name, known)
    meant = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(known) or 'none'}"
    return RuleError(f"the pipeline has no operator {name!r}; {meant}")


def check_operators(rules: Sequence[Rule], operators: Iterable[str]) -> None:
    """Raise `RuleError` with every rule whose operator is not among `operators`; it says where the rule was written."""
    known = list(operators)
    faults = [
        str(placed(unknown_operator(rule.operator, known), rule.place))
        for rule in rules
        if rule.operator != ALL_OPERATORS and rule.operator not in known
    ]
    if faults:
        raise RuleError.of_all("rules", faults)


def placed(fault: RuleError, place: Place | None) -> RuleError:
    """The same error with its place, unless it has one."""
    if place is None or fault.line is not None:
        return fault
    return fault.at(place.line, place.column, place.source)
