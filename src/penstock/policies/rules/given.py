# SPDX-License-Identifier: Apache-2.0
"""Rules as users give them to a policy: a file, text, or a list as the fluent form makes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.errors import ConfigurationError
from penstock.rules.nodes import Rule


def rules_given(given: Any) -> tuple[Rule, ...]:
    """The rules in what a user gave."""
    if isinstance(given, Rule):
        return (given,)
    if isinstance(given, Iterable) and not isinstance(given, str):
        found = tuple(given)
        if all(isinstance(rule, Rule) for rule in found):
            return found
    raise ConfigurationError(f"rules: {given!r} is none", field="rules")
