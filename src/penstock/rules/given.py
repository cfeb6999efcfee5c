# SPDX-License-Identifier: Apache-2.0
"""Rules as users give them to a policy: a file, a list in a module, text, or a list as the fluent form makes it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from penstock.errors import ConfigurationError, RuleError
from penstock.rules import Rule, read_rules
from penstock.rules.collected import collected
from penstock.rules.text import parse_text

_BEGINS_A_RULE = re.compile(r'\s*(#[^\n]*\n\s*)*rule\s*"')


def rules_given(given: Any) -> tuple[Rule, ...]:
    """The rules in what a user gave.

    Parameters
    ----------
    given
        A file (``calm.rules``, ``calm.yaml``), a list in Python (``my_rules:calm``), text that begins with
        ``rule "name":``, one rule, or a list of rules.

    Raises
    ------
    ConfigurationError
        It is none of these, or some of the rules are wrong; with every mistake.

    Examples
    --------
    >>> rules_given('rule "calm": scale-in matcher by 1 when queue_length below 1 for 1 minute')[0].operator
    'matcher'
    """
    if isinstance(given, str) and _BEGINS_A_RULE.match(given):
        return parse_text(given).without_mistakes("rules")
    if isinstance(given, str | Path):
        if not str(given).strip() or "\n" in str(given):
            raise ConfigurationError(
                'rules: the text begins with no rule; write `rule "name":` first, or give the name of a file',
                field="rules",
            )
        return read_rules(given)
    try:
        return collected(given)
    except RuleError as fault:
        raise fault if fault.line is not None else RuleError(f"rules: {fault.message}") from fault
