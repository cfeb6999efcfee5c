# SPDX-License-Identifier: Apache-2.0
"""Rules in Python, as chains that read like English. Building one runs nothing; every step returns a new object.

::

    rule("queue too long").scale_out("matcher").by(2).but_never_above(8)
        .when(metric("queue_length") > 300).for_at_least(seconds(30)).with_no_scale_out_since(minutes(5))
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from penstock.errors import RuleError
from penstock.rules.amounts import Duration, as_number, seconds_of
from penstock.rules.callers import at_the_callers_line, callers_place, refusal, refuse
from penstock.rules.checks import (
    amount_of,
    checked_guard,
    checked_name,
    checked_operator,
    checked_rule,
    checked_trigger,
    keep_of,
    limit_is_missing,
    limit_of,
    missing_limit,
    placed,
)
from penstock.rules.conditions import Condition, lasting
from penstock.rules.nodes import ALL_OPERATORS, Direction, Guard, Keep, MetricTrigger, Place, Rule, Scale, Side, Trigger
from penstock.rules.numbers import Kind, Number
from penstock.rules.time_conditions import TimeCondition

every_operator = ALL_OPERATORS
"""All operators of the pipeline, each by its own metrics: ``scale_in(every_operator)``."""

_STEPS = frozenset({
    "scale_out", "scale_in", "scale_up", "scale_down", "keep", "by", "at_least", "at_most", "but_never_above",
    "but_never_below", "when", "unless", "for_at_least", "with_no_scale_out_since", "with_no_scale_in_since",
    "with_no_scale_up_since", "with_no_scale_down_since",
})  # fmt: skip


class Unfinished:
    """The beginning of a rule: it says what comes next, and cannot be used."""

    __slots__ = ()
    _next = ""

    def _say_place(self) -> tuple[str, Place | None]:
        raise NotImplementedError

    def finished(self) -> Rule:
        """The rule; raises `RuleError` where the chain ends too early."""
        name, place = self._say_place()
        raise placed(RuleError(f'the rule "{name}" is not finished; {self._next}'), place)

    if not TYPE_CHECKING:  # type checkers report a step that does not fit by themselves

        def __getattr__(self, name: str) -> Any:
            if name in _STEPS:
                refuse(f".{name}(...) does not fit here; {self._next}")
            raise AttributeError(name)

    def __bool__(self) -> bool:
        raise refusal("a rule is neither true nor false; put rules into a list: [rule(...), rule(...)]")

    def __str__(self) -> str:
        from penstock.rules.to_text import to_text

        return to_text([self.finished()]).rstrip("\n")

    def __repr__(self) -> str:
        return f'<unfinished rule "{self._say_place()[0]}": {self._next}>'


@dataclass(frozen=True, slots=True, repr=False)
class Named(Unfinished):
    """A rule with a name. Next: what it does to which operator."""

    name: str
    place: Place | None
    _next = 'say what it does, such as .scale_out("matcher").by(2)'

    def _say_place(self) -> tuple[str, Place | None]:
        return self.name, self.place

    def scale_out(self, operator: str) -> Directed:
        """Add executors to an operator."""
        return self._directed(operator, Direction.OUT)

    def scale_in(self, operator: str) -> Directed:
        """Take executors from an operator."""
        return self._directed(operator, Direction.IN)

    def scale_up(self, operator: str) -> Directed:
        """Raise the CPU share of an operator's executors."""
        return self._directed(operator, Direction.UP)

    def scale_down(self, operator: str) -> Directed:
        """Lower the CPU share of an operator's executors."""
        return self._directed(operator, Direction.DOWN)

    def keep(self, operator: str) -> Kept:
        """Bound what other rules may give to an operator."""
        with at_the_callers_line():
            return Kept(self.name, self.place, checked_operator(operator))

    def _directed(self, operator: str, direction: Direction) -> Directed:
        with at_the_callers_line():
            return Directed(self.name, self.place, checked_operator(operator), direction)


@dataclass(frozen=True, slots=True, repr=False)
class Directed(Unfinished):
    """A rule that scales an operator. Next: by how much."""

    name: str
    place: Place | None
    operator: str
    direction: Direction
    _next = "say by how much, such as .by(2) or .by(times(2))"

    def _say_place(self) -> tuple[str, Place | None]:
        return self.name, self.place

    def by(self, amount: float | Number) -> Draft:
        """Add or take `amount`: executors, ``percent(20)`` of CPU share, or ``times(2)`` the current size."""
        with at_the_callers_line():
            action = Scale(self.direction, amount_of(self.direction, as_number(amount)))
        return Draft(self.name, self.place, self.operator, action)


@dataclass(frozen=True, slots=True, repr=False)
class Kept(Unfinished):
    """A rule that bounds an operator. Next: at least or at most what."""

    name: str
    place: Place | None
    operator: str
    _next = "say the bound, such as .at_least(3) executors or .at_most(percent(50)) of CPU"

    def _say_place(self) -> tuple[str, Place | None]:
        return self.name, self.place

    def at_least(self, bound: float | Number) -> Draft:
        """Never less than so many executors, or ``percent(50)`` of CPU share."""
        return self._bound(Side.LEAST, bound)

    def at_most(self, bound: float | Number) -> Draft:
        """Never more than so many executors, or ``percent(50)`` of CPU share."""
        return self._bound(Side.MOST, bound)

    def _bound(self, side: Side, bound: float | Number) -> Draft:
        with at_the_callers_line():
            number = as_number(bound)
            is_share = number.kind is Kind.PERCENT or (number.kind is Kind.PLAIN and 0.0 < number.value < 1.0)
            action = keep_of(side, number, is_cpu=is_share)
        return Draft(self.name, self.place, self.operator, action)


@dataclass(frozen=True, slots=True, repr=False)
class Draft(Unfinished):
    """A rule that says what it does. A bound is finished; one that scales needs a trigger, and a scale-out a limit."""

    name: str
    place: Place | None
    operator: str
    action: Scale | Keep
    triggers: tuple[Trigger, ...] = ()
    guards: tuple[Guard, ...] = ()
    newest: int = 0
    """How many triggers the last `when` has brought."""
    _next = 'say when, such as .when(metric("queue_length") > 300).for_at_least(seconds(30))'

    def _say_place(self) -> tuple[str, Place | None]:
        return self.name, self.place

    def but_never_above(self, limit: float | Number) -> Draft:
        """Scale no further than to `limit`; ``times(4)`` is four times the original size."""
        return self._limited("above", limit)

    def but_never_below(self, limit: float | Number) -> Draft:
        """Scale in or down no further than to `limit`; ``times(0.5)`` is half the original size."""
        return self._limited("below", limit)

    def _limited(self, side: str, limit: float | Number) -> Draft:
        with at_the_callers_line():
            if not isinstance(self.action, Scale):
                raise RuleError("a bound is a limit already; leave .but_never_... out")
            if self.action.limit is not None:
                raise RuleError("it has a limit already; say one")
            found = limit_of(self.action.direction, side, as_number(limit))
            return replace(self, action=replace(self.action, limit=found))

    def when(self, condition: Condition) -> Draft:
        """Only while `condition` holds. Further `.when(...)` have to hold as well."""
        with at_the_callers_line():
            if isinstance(self.action, Scale) and limit_is_missing(self.action):
                raise missing_limit()
            if not isinstance(condition, Condition):
                raise RuleError(f'{condition!r} is no condition; write one such as metric("queue_length") > 300')
            self._check_newest()
            return replace(self, triggers=self.triggers + condition.triggers, newest=len(condition.triggers))

    def unless(self, condition: TimeCondition) -> Draft:
        """Not while the time lies in a period, such as ``time.between("22:00", "06:00")``."""
        with at_the_callers_line():
            if not isinstance(condition, TimeCondition):
                raise RuleError(
                    "`unless` takes a time, such as time.between(...); for a metric write .when with < for >"
                )
        return self.when(~condition)

    def for_at_least(self, time: Duration) -> Draft:
        """The conditions of the last `.when(...)` have to hold for at least `time`."""
        with at_the_callers_line():
            if not self.newest:
                raise RuleError(".for_at_least(...) belongs behind .when(...)")
            last = lasting(self.triggers[-self.newest :], seconds_of(time))
            return replace(self, triggers=self.triggers[: -self.newest] + last, newest=0)

    def with_no_scale_out_since(self, time: Duration) -> Draft:
        """Not within `time` after the operator was scaled out."""
        return self._guarded(Direction.OUT, time)

    def with_no_scale_in_since(self, time: Duration) -> Draft:
        """Not within `time` after the operator was scaled in."""
        return self._guarded(Direction.IN, time)

    def with_no_scale_up_since(self, time: Duration) -> Draft:
        """Not within `time` after the operator was scaled up."""
        return self._guarded(Direction.UP, time)

    def with_no_scale_down_since(self, time: Duration) -> Draft:
        """Not within `time` after the operator was scaled down."""
        return self._guarded(Direction.DOWN, time)

    def _guarded(self, after: Direction, time: Duration) -> Draft:
        with at_the_callers_line():
            self._check_newest()
            guards = (*self.guards, checked_guard(Guard(after, seconds_of(time))))
            if isinstance(self.action, Keep) or len({guard.after for guard in guards}) < len(guards):
                checked_rule(self.name, self.operator, self.action, self.triggers, guards)
            return replace(self, guards=guards, newest=0)

    def _check_newest(self) -> None:
        for trigger in self.triggers[len(self.triggers) - self.newest :]:
            if isinstance(trigger, MetricTrigger):
                checked_trigger(trigger)

    def finished(self) -> Rule:
        """The rule; raises `RuleError` where something is missing."""
        try:
            self._check_newest()
            return checked_rule(self.name, self.operator, self.action, self.triggers, self.guards, place=self.place)
        except RuleError as fault:
            raise placed(RuleError(f'the rule "{self.name}" is not finished: {fault.message}'), self.place) from None

    def explain(self) -> str:
        """The rule in plain words."""
        from penstock.rules.explain import in_words

        return in_words(self.finished())

    def __repr__(self) -> str:
        from penstock.rules.to_python import rule_in_python

        try:
            return rule_in_python(self.finished())
        except RuleError:
            return Unfinished.__repr__(self)


def rule(name: str) -> Named:
    """Begin a rule; its name stands in decisions, reports and messages.

    Examples
    --------
    >>> from penstock.rules import metric, seconds
    >>> print(rule("calm").scale_in("matcher").by(1).when(metric("queue_length") < 1).for_at_least(seconds(30)))
    rule "calm":
      scale-in matcher by 1
      when queue_length below 1 for 30 seconds
    """
    with at_the_callers_line():
        return Named(checked_name(name), callers_place())
