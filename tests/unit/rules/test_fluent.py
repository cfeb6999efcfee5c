# SPDX-License-Identifier: Apache-2.0
"""Rules in Python: what chains build, and the error that each misuse gets at its line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from penstock.errors import ConfigurationError, RuleError
from penstock.rules import (
    check_operators,
    every_operator,
    hours,
    metric,
    minutes,
    percent,
    rule,
    rules,
    seconds,
    time,
    times,
)
from penstock.rules.nodes import (
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

LONG = metric("queue_length") > 300


def test_the_example_builds_the_rules_it_reads_as() -> None:
    """A chain becomes plain data: operator, action, triggers and guard times."""
    calm = [
        rule("queue too long").scale_out("matcher").by(2).but_never_above(8)
            .when(metric("queue_length") > 300).for_at_least(seconds(30)).with_no_scale_out_since(minutes(5)),
        rule("queue empty").scale_in("matcher").by(1)
            .when(metric("queue_length") < 1).for_at_least(minutes(1)).with_no_scale_out_since(minutes(5)),
    ]  # fmt: skip
    assert rules(calm) == (
        Rule(
            "queue too long",
            "matcher",
            Scale(Direction.OUT, Quantity(2), Quantity(8)),
            (MetricTrigger("queue_length", Comparison.ABOVE, 300, 30),),
            (Guard(Direction.OUT, 300),),
        ),
        Rule(
            "queue empty",
            "matcher",
            Scale(Direction.IN, Quantity(1)),
            (MetricTrigger("queue_length", Comparison.BELOW, 1, 60),),
            (Guard(Direction.OUT, 300),),
        ),
    )


def test_factors_limits_shares_and_bounds() -> None:
    """`times` is relative, `percent` a share; both hold for amounts and limits."""
    doubled = rule("a").scale_out(every_operator).by(times(2)).but_never_above(times(4)).when(LONG)
    raised = rule("b").scale_up("m").by(percent(20)).but_never_above(percent(100)).when(LONG)
    lowered = rule("c").scale_down("m").by(0.1).but_never_below(0.4).when(LONG)
    bounds = [rule("d").keep("m").at_least(3), rule("e").keep("m").at_most(percent(50)).when(time.on_weekends())]
    found = rules(doubled, raised, [lowered, *bounds])
    assert found[0].operator == "*"
    assert [one.action for one in found] == [
        Scale(Direction.OUT, Quantity(2, is_relative=True), Quantity(4, is_relative=True)),
        Scale(Direction.UP, Quantity(0.2), Quantity(1.0)),
        Scale(Direction.DOWN, Quantity(0.1), Quantity(0.4)),
        Keep(Side.LEAST, executors=3),
        Keep(Side.MOST, cpu_share=0.5),
    ]


def test_statistics_and_forecasts_of_metrics() -> None:
    """A trigger takes a statistic over its time, or a forecast, or both; an older name becomes the new one."""
    (found,) = rules(
        rule("a").scale_in("m").by(1)
        .when(metric("queue_length").p90 > 300).for_at_least(seconds(30))
        .when(metric("arrival_rate").mean.in_(minutes(2)) < 5).for_at_least(hours(1))
        .when(metric("latency_p95").percentile(99.9) < 2).for_at_least(seconds(9))
        .when(metric("utilisation") < percent(60))
    )  # fmt: skip
    assert found.triggers == (
        MetricTrigger("queue_length", Comparison.ABOVE, 300, 30, "p90"),
        MetricTrigger("arrival_rate", Comparison.BELOW, 5, 3600, "mean", 120),
        MetricTrigger("latency_p95", Comparison.BELOW, 2, 9, "p99.9"),
        MetricTrigger("cpu_utilisation", Comparison.BELOW, 0.6),
    )


def test_both_conditions_with_an_ampersand() -> None:
    """`&` gives two triggers; a time behind `when` holds for both, a condition may bring its own."""
    both = rule("a").scale_in("m").by(1).when(LONG & (metric("arrival_rate") > 300)).for_at_least(seconds(5))
    own = rule("b").scale_in("m").by(1).when(LONG.for_at_least(seconds(7)) & (metric("cpu_used") < 1))
    assert [trigger.for_seconds for one in rules(both, own) for trigger in one.triggers] == [5, 5, 7, 0]  # type: ignore[union-attr]


def test_the_time_of_day_is_a_trigger() -> None:
    """Periods, weekdays and zones; `unless`, `outside` and ~ turn a period round."""
    office = time.between("08:00", "18:00").on_weekdays().in_zone("Europe/Zurich")
    (found,) = rules(
        rule("a").scale_in("m").by(1).when(office).unless(time.between("22:00", "06:00"))
        .when(time.outside("12:00", "24:00")).when(~time.on("sunday", "friday"))
    )  # fmt: skip
    weekdays = ("monday", "tuesday", "wednesday", "thursday", "friday")
    assert found.triggers == (
        TimeTrigger(480, 1080, weekdays, "Europe/Zurich"),
        TimeTrigger(1320, 360, is_outside=True),
        TimeTrigger(720, 0, is_outside=True),
        TimeTrigger(days=("friday", "sunday"), is_outside=True),
    )


def test_each_step_is_a_new_object_and_nothing_changes_behind_it() -> None:
    """A beginning can be used twice, and cannot be changed."""
    begun = rule("a").scale_in("m").by(1)
    one, other = begun.when(LONG), begun.when(metric("cpu_used") < 1)
    assert rules(one)[0].triggers != rules(other)[0].triggers
    with pytest.raises(FrozenInstanceError):
        one.name = "b"  # type: ignore[misc]


def test_a_rule_prints_as_text_and_shows_as_python() -> None:
    """`print` gives the text form, `repr` the Python that builds it, `explain` plain words."""
    one = rule("a").scale_in("m").by(1).when(LONG).for_at_least(seconds(30))
    assert str(one) == 'rule "a":\n  scale-in m by 1\n  when queue_length above 300 for 30 seconds'
    assert repr(one) == ('rule("a").scale_in("m").by(1).when(metric("queue_length") > 300).for_at_least(seconds(30))')
    assert one.explain() == (
        "Takes 1 executor from m, down to 1, when queue_length has been above 300 records for 30 seconds."
    )
    assert repr(LONG & LONG) == '(metric("queue_length") > 300) & (metric("queue_length") > 300)'
    assert "unfinished" in repr(rule("a").scale_in("m"))


SCALE_IN = rule("a").scale_in("m").by(1)

MISUSES: list[tuple[Callable[[], Any], str]] = [
    (lambda: LONG and LONG, r"`and`, `or`, `not` and `if` do not work; use \.when\(\.\.\.\) again"),
    (lambda: LONG or LONG, "use .when"),
    (lambda: not LONG, "use .when"),
    (lambda: bool(LONG), "all triggers have to hold"),
    (lambda: 1 < metric("queue_length") < 5, "all triggers have to hold"),
    (lambda: LONG | LONG, "no `or`: write one rule for each"),
    (lambda: ~LONG, "write < in place of >"),
    (lambda: LONG & 3, "put each comparison into brackets"),
    (lambda: 3 & LONG, "put each comparison into brackets"),
    (lambda: metric("queue_length") > 3 & metric("cpu_used") < 5, "put each comparison into brackets"),
    (lambda: metric("queue_length") & LONG, "put each comparison into brackets"),
    (lambda: metric("queue_length") / 2 > 3, "computes nothing"),
    (lambda: bool(metric("queue_length")), "compare it with > or <"),
    (lambda: metric("queue_length") >= 3, "write > in place of >="),
    (lambda: metric("queue_length") <= 3, "write < in place of <="),
    (lambda: metric("queue_length") == 3, "compared with > or <"),
    (lambda: metric("queue_length") != 3, "compared with > or <"),
    (lambda: metric("queue_lenght"), r"unknown metric 'queue_lenght'; did you mean queue_length\? `penstock metrics`"),
    (lambda: metric("queue_length") > percent(5), "counted in records, so a percentage says nothing"),
    (lambda: metric("cpu_utilisation") > 60, r"fraction between 0 and 1; write 60% \(percent\(60\)"),
    (lambda: metric("queue_length") > -1, "from 0 on"),
    (lambda: metric("queue_length") > "3", "'3' is not a number"),  # type: ignore[operator]
    (lambda: metric("queue_length").p101, "unknown statistic 'p101'"),
    (lambda: metric("queue_length").average, "use mean, max, min or a percentile"),
    (lambda: metric("queue_length").mean.max, "it has a statistic already"),
    (lambda: metric("queue_length").in_(3), r"write seconds\(30\)"),  # type: ignore[arg-type]
    (lambda: metric("queue_length").in_(seconds(0)), "more than 0 seconds"),
    (lambda: minutes("3"), "is not a number"),  # type: ignore[arg-type]
    (lambda: rule(""), "no name for a rule"),
    (lambda: rule("a\nb"), "one line of text"),
    (lambda: rule("a").when(LONG), r"say what it does, such as \.scale_out"),  # type: ignore[attr-defined]
    (lambda: rule("a").scale_out("m").when(LONG), r"say by how much"),  # type: ignore[attr-defined]
    (lambda: rule("a").scale_out("m").by(2).when(LONG), r"needs a limit; .*\.but_never_above\(8\)"),
    (lambda: rule("a").scale_out("m").by(times(0.5)), "the factor x0.5 is not above 1"),
    (lambda: rule("a").scale_out("m").by(times(1)), "the factor x1 is not above 1"),
    (lambda: rule("a").scale_out("m").by(0.5), "whole number from 1 on"),
    (lambda: rule("a").scale_out("m").by(percent(5)), "a percentage is a CPU share"),
    (lambda: rule("a").scale_up("m").by(20), r"such as 20% \(percent\(20\) in Python\)"),
    (lambda: rule("a").scale_out("m").by(2).but_never_below(1), "limited with `never above`"),
    (lambda: rule("a").scale_out("m").by(2).but_never_above(times(0.5)), "below the original size"),
    (lambda: SCALE_IN.but_never_below(1).but_never_below(2), "it has a limit already"),
    (lambda: SCALE_IN.when(True), "True is no condition"),  # type: ignore[arg-type]
    (lambda: SCALE_IN.for_at_least(seconds(3)), r"belongs behind \.when"),
    (lambda: SCALE_IN.when(LONG).for_at_least(3), r"3 is not a time; write seconds\(30\)"),  # type: ignore[arg-type]
    (lambda: SCALE_IN.when(LONG.for_at_least(seconds(3))).for_at_least(seconds(3)), "it says already for how long"),
    (lambda: SCALE_IN.when(time.on_weekends()).for_at_least(seconds(3)), "lasts as long as it says"),
    (lambda: SCALE_IN.when(metric("cpu_used").mean > 1).when(LONG), "needs the time over which it is taken"),
    (lambda: SCALE_IN.unless(LONG), "`unless` takes a time"),  # type: ignore[arg-type]
    (lambda: SCALE_IN.when(LONG).with_no_scale_in_since(seconds(0)), "lasts more than 0"),
    (
        lambda: SCALE_IN.when(LONG).with_no_scale_in_since(seconds(1)).with_no_scale_in_since(seconds(2)),
        "the guard time after scale-in stands twice",
    ),
    (lambda: rule("a").keep("m").at_least(3).with_no_scale_in_since(seconds(1)), "knows no guard times"),
    (lambda: rule("a").keep("m").at_least(1.5), "whole number"),
    (lambda: rule("a").keep("m").at_least(3).but_never_above(4), "a bound is a limit already"),
    (lambda: time.between("8", "18:00"), "write it like 08:00"),
    (lambda: time.between("08:00", "24:01"), "up to 24:00"),
    (lambda: time.on("mon"), r"did you mean monday\?"),
    (lambda: time.on(*[]), "say which days"),
    (lambda: time.on_weekends().in_zone("Europe/Zurch"), r"did you mean Europe/Zurich"),
    (lambda: bool(SCALE_IN), "put rules into a list"),
    (lambda: rules("calm"), "is no rule"),  # type: ignore[arg-type]
    (lambda: rules([3]), "is no rule"),  # type: ignore[list-item]
]  # fmt: skip


@pytest.mark.parametrize(("misuse", "fix"), MISUSES, ids=[f"{i}: {fix[:30]}" for i, (_, fix) in enumerate(MISUSES)])
def test_misuse_names_the_fix_at_its_line(misuse: Callable[[], Any], fix: str) -> None:
    """Each misuse raises at once, with the fix and the line of the code that did it."""
    with pytest.raises(RuleError, match=fix) as caught:
        misuse()
    first = inspect.getsourcelines(misuse)[1]
    assert caught.value.source == __file__
    assert first <= (caught.value.line or 0) <= first + 2


@pytest.mark.parametrize(
    ("unfinished", "fix"),
    [
        (rule("begun"), "say what it does"),
        (rule("begun").scale_out("m"), "say by how much"),
        (rule("begun").keep("m"), "say the bound"),
        (rule("begun").scale_out("m").by(2), "needs a limit"),
        (rule("begun").scale_in("m").by(2), "the rule has no trigger"),
        (rule("begun").scale_in("m").by(2).when(metric("cpu_used").mean > 1), "needs the time over which"),
    ],
)
def test_an_unfinished_chain_is_refused_where_it_is_used(unfinished: Any, fix: str) -> None:
    """Given to a policy or printed, it names the rule, what is missing, and the line where the rule begins."""
    for use in (rules, lambda one: rules([one]), str):
        with pytest.raises(RuleError, match=f'the rule "begun" is not finished.*{fix}') as caught:
            use(unfinished)
        assert caught.value.source == __file__
        assert (
            "begun"
            in inspect.getsource(inspect.getmodule(inspect.currentframe())).splitlines()[  # type: ignore[arg-type]
                (caught.value.line or 0) - 1
            ]
        )


def test_two_rules_of_one_name_are_refused() -> None:
    """The name is how decisions and reports call a rule."""
    with pytest.raises(ConfigurationError, match=r'a rule before is called "a" as well'):
        rules(SCALE_IN.when(LONG), SCALE_IN.when(LONG))


def test_an_unknown_operator_is_named_with_the_rule_that_has_it() -> None:
    """Once the pipeline is known, every rule with a wrong operator is listed with its line and the nearest name."""
    found = rules(SCALE_IN.when(LONG), rule("b").scale_in("matchr").by(1).when(LONG), rule("c").keep("*").at_least(1))
    with pytest.raises(RuleError) as caught:
        check_operators(found, ["parser", "matcher"])
    assert len(caught.value.faults) == 2
    assert "did you mean matcher?" in caught.value.faults[1]
    assert f"{__file__}, line" in caught.value.faults[1]
    check_operators(found, ["m", "matchr"])
