# SPDX-License-Identifier: Apache-2.0
"""Rules that scale operators, written in Python, as text or as YAML; building one runs nothing.

::

    from penstock.rules import rule, metric, minutes, seconds

    calm = [
        rule("queue too long").scale_out("matcher").by(2).but_never_above(8)
            .when(metric("queue_length") > 300).for_at_least(seconds(30)).with_no_scale_out_since(minutes(5)),
        rule("queue empty").scale_in("matcher").by(1)
            .when(metric("queue_length") < 1).for_at_least(minutes(1)).with_no_scale_out_since(minutes(5)),
    ]
"""

from __future__ import annotations

from penstock.errors import RuleError
from penstock.rules.amounts import hours, minutes, percent, seconds, times
from penstock.rules.checks import check_operators
from penstock.rules.collected import rules
from penstock.rules.conditions import metric
from penstock.rules.fluent import every_operator, rule
from penstock.rules.nodes import Rule
from penstock.rules.reading import read_rules
from penstock.rules.time_conditions import time

__all__ = [
    "Rule",
    "RuleError",
    "check_operators",
    "every_operator",
    "hours",
    "metric",
    "minutes",
    "percent",
    "read_rules",
    "rule",
    "rules",
    "seconds",
    "time",
    "times",
]
