# SPDX-License-Identifier: Apache-2.0
"""Rules of every kind, as the three forms can write them."""

from __future__ import annotations

from hypothesis import strategies as st

from penstock.metrics import METRICS
from penstock.rules.nodes import (
    WEEKDAYS,
    Comparison,
    Direction,
    Guard,
    Keep,
    MetricTrigger,
    Quantity,
    Rule,
    Scale,
    Side,
    TimeTrigger,
)

_LETTERS = st.characters(categories=("L", "N", "P", "S", "M"), include_characters=" ")
_PRINTABLE = st.text(_LETTERS, min_size=1, max_size=12).filter(lambda text: text.isprintable() and text.strip())
_NAMES = st.sampled_from(
    ["matcher", "*", "by", "when", "x2", "p90", "mean", "3rd", "a b", 'say "hi"', "back\\slash", "yes"]
)
OPERATORS = st.one_of(_NAMES, _PRINTABLE)
_FRACTIONS = st.floats(0.0, 1.0, exclude_min=True)
_POSITIVE = st.one_of(st.integers(1, 10_000).map(float), st.floats(1e-9, 1e12))


def times_ahead() -> st.SearchStrategy[float]:
    """Lengths of time above 0."""
    return st.one_of(st.sampled_from([0.5, 1.0, 30.0, 60.0, 90.0, 3600.0, 5400.0]), st.floats(1e-6, 1e9))


@st.composite
def scales(draw: st.DrawFn) -> Scale:
    """What a rule can do."""
    direction = draw(st.sampled_from(Direction))
    counts = st.integers(1, 10**6).map(float) if direction.is_horizontal else _FRACTIONS
    factors = st.floats(1.0, 1e6, exclude_min=True).map(lambda value: Quantity(value, is_relative=True))
    amount = draw(st.one_of(counts.map(Quantity), factors))
    multiples = st.floats(1.0 if direction.is_growth else 1e-6, 1e6).map(
        lambda value: Quantity(value, is_relative=True)
    )
    limits = st.one_of(counts.map(Quantity), multiples)
    limit = draw(limits if direction is Direction.OUT else st.none() | limits)
    return Scale(direction, amount, limit)


def keeps() -> st.SearchStrategy[Keep]:
    """What a rule can bound."""
    sides = st.sampled_from(Side)
    return st.one_of(
        st.builds(Keep, sides, executors=st.integers(1, 10**6)), st.builds(Keep, sides, cpu_share=_FRACTIONS)
    )


@st.composite
def metric_triggers(draw: st.DrawFn, metrics: tuple[str, ...] = tuple(METRICS)) -> MetricTrigger:
    """Triggers on metrics."""
    metric = draw(st.sampled_from(metrics))
    value = draw(st.floats(0.0, 1.0) if METRICS[metric].unit == "fraction" else st.just(0.0) | _POSITIVE)
    percentiles = st.sampled_from(["p50", "p90", "p99.9", "p0.5"])
    statistic = draw(st.one_of(st.none(), st.sampled_from(["mean", "max", "min"]), percentiles))
    lasts = draw(times_ahead() if statistic else st.just(0.0) | times_ahead())
    return MetricTrigger(
        metric, draw(st.sampled_from(Comparison)), value, lasts, statistic, draw(st.none() | times_ahead())
    )


@st.composite
def time_triggers(draw: st.DrawFn) -> TimeTrigger:
    """Triggers on the time of day."""
    days = draw(st.sets(st.sampled_from(WEEKDAYS), max_size=6))
    minutes = st.integers(0, 24 * 60 - 1)
    zone = draw(st.sampled_from(["UTC", "Europe/Zurich", "America/Argentina/Buenos_Aires", "Etc/GMT+5"]))
    start, end = draw(minutes), draw(minutes)
    if draw(st.booleans()):
        start = end = 0
    return TimeTrigger(start, end, tuple(day for day in WEEKDAYS if day in days), zone, draw(st.booleans()))


@st.composite
def rules(draw: st.DrawFn, names: st.SearchStrategy[str] = _PRINTABLE) -> Rule:
    """Rules of every kind."""
    action = draw(st.one_of(scales(), keeps()))
    triggers = st.one_of(metric_triggers(), time_triggers())
    is_bound = isinstance(action, Keep)
    directions = draw(st.lists(st.sampled_from(Direction), unique=True, max_size=0 if is_bound else 4))
    return Rule(
        draw(names),
        draw(OPERATORS),
        action,
        tuple(draw(st.lists(triggers, min_size=0 if is_bound else 1, max_size=3))),
        tuple(Guard(direction, draw(times_ahead())) for direction in directions),
    )


def policies() -> st.SearchStrategy[list[Rule]]:
    """Rules with names of their own."""
    return st.lists(rules(), max_size=3, unique_by=lambda rule: rule.name)
