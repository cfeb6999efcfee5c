# SPDX-License-Identifier: Apache-2.0
"""What a rule says, as plain frozen data; the fluent, text and YAML forms all build these and nothing else.

References
----------
The dynamic scaling framework, Sec. 4.2 and the EBNF of Figs. 4.4 to 4.10. Beyond it: CPU shares as a second thing to
scale, bounds (`Keep`), statistics over the window, forecasts, and the time of day as a trigger.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

ALL_OPERATORS = "*"
"""The operator of a rule that holds for every operator."""


class Direction(StrEnum):
    """What a rule scales and which way: out and in are executors, up and down the CPU share of each."""

    OUT = "scale-out"
    IN = "scale-in"
    UP = "scale-up"
    DOWN = "scale-down"

    @property
    def is_growth(self) -> bool:
        """Whether it adds resources."""
        return self in (Direction.OUT, Direction.UP)

    @property
    def is_horizontal(self) -> bool:
        """Whether it changes executors, not CPU shares."""
        return self in (Direction.OUT, Direction.IN)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number of executors or a CPU share (a fraction); relative: a multiple.

    As the amount of a `Scale`, a relative one multiplies or divides the current size; as its limit, a relative one is
    a multiple of the original size.
    """

    value: float
    is_relative: bool = False


@dataclass(frozen=True, slots=True)
class Scale:
    """Add or take resources: by `amount`, never beyond `limit`."""

    direction: Direction
    amount: Quantity
    limit: Quantity | None = None


class Side(StrEnum):
    """Which side a bound holds."""

    LEAST = "at least"
    MOST = "at most"


@dataclass(frozen=True, slots=True)
class Keep:
    """Bound what another rule or a model proposes, while the triggers hold: `executors` or `cpu_share`, one of them."""

    side: Side
    executors: int | None = None
    cpu_share: float | None = None


class Comparison(StrEnum):
    """How a metric is compared with a value."""

    ABOVE = "above"
    BELOW = "below"


@dataclass(frozen=True, slots=True)
class MetricTrigger:
    """A metric is above or below a value for at least a time.

    Attributes
    ----------
    metric
        A name of the catalogue.
    comparison, value
        The value threshold, strict on both sides; fractions for metrics whose unit is a fraction.
    for_seconds
        The time threshold: how long it has to hold. 0: the newest reading decides.
    statistic
        None: every reading of that time has to be beyond the value. Else ``mean``, ``max``, ``min`` or a percentile
        such as ``p90`` of the readings of that time.
    ahead_seconds
        None: what is read. Else the forecast so far ahead is compared instead.
    """

    metric: str
    comparison: Comparison
    value: float
    for_seconds: float = 0.0
    statistic: str | None = None
    ahead_seconds: float | None = None


WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


@dataclass(frozen=True, slots=True)
class TimeTrigger:
    """The time of day and the day of the week lie inside a period, or outside it.

    Attributes
    ----------
    start, end
        Minutes since midnight, end excluded; an end before the start lies on the next day. Both equal: the whole day.
    days
        The weekdays (by `WEEKDAYS`) on which the period begins; empty: every day.
    zone
        An IANA time zone; periods follow its clock through summer time.
    is_outside
        Whether it holds outside the period instead of inside.
    """

    start: int = 0
    end: int = 0
    days: tuple[str, ...] = ()
    zone: str = "UTC"
    is_outside: bool = False


Trigger = MetricTrigger | TimeTrigger


@dataclass(frozen=True, slots=True)
class Guard:
    """The rule does nothing for a time after the operator was last scaled in this direction (guard time)."""

    after: Direction
    seconds: float


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands in its source: a line and a column of a file, both from 1."""

    line: int
    column: int
    source: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: what to do to an operator when all triggers hold and no guard time runs.

    `place` is where it was written; two rules that say the same are equal wherever they stand.
    """

    name: str
    operator: str
    action: Scale | Keep
    triggers: tuple[MetricTrigger | TimeTrigger, ...]
    guards: tuple[Guard, ...] = ()
    place: Place | None = field(default=None, compare=False)
