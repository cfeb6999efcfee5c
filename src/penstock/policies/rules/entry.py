# SPDX-License-Identifier: Apache-2.0
"""The policy `rules` in the registry, and rules around any other policy."""

from __future__ import annotations

from typing import Any

from penstock.policies.entry import PolicyEntry, options_of
from penstock.policies.rules.around import RulesAround
from penstock.policies.rules.policy import EVERY_LOOK, RulesPolicy
from penstock.policies.rules.rule_book import RuleBook
from penstock.ports import Policy, PolicyContext
from penstock.rules.given import rules_given
from penstock.units import positive_seconds


def with_rules(inner: Policy, given: Any, context: PolicyContext, *, reads_objective: bool) -> Policy:
    """Put rules around a policy.

    Parameters
    ----------
    inner
        What proposes.
    given
        The rules: a file, their text, or a list of them.
    context
        The pipeline.
    reads_objective
        Whether the objective plays a part in what is proposed.

    Raises
    ------
    ConfigurationError
        The rules cannot be read, or do not fit the pipeline.
    """
    book = RuleBook(rules_given(given), context)
    return RulesAround(inner, book, EVERY_LOOK * context.interval_seconds, reads_objective=reads_objective)


def _build(context: PolicyContext, rules: Any = None, every_seconds: str | float | None = None) -> Policy:
    book = RuleBook(() if rules is None else rules_given(rules), context)
    if every_seconds is None:
        return RulesPolicy(book, EVERY_LOOK * context.interval_seconds)
    return RulesPolicy(book, positive_seconds("every_seconds", every_seconds))


ENTRY = PolicyEntry(
    name="rules",
    summary="scales by rules of yours, such as: out while a queue is long, in when it is empty",
    build=_build,
    options=options_of(
        _build,
        {
            "rules": "the rules: a file, their text or a list; without rules nothing ever changes",
            "every_seconds": "how often they are evaluated; default: at every look of the loop",
        },
    ),
)
