# SPDX-License-Identifier: Apache-2.0
"""Rules as decisions name them, in the words in which they are written."""

from __future__ import annotations

from penstock.rules.nodes import Rule
from penstock.rules.to_text import action_text, trigger_text


def rule_text(rule: Rule) -> str:
    """A rule by its name, as decisions and amendments call it."""
    return f"rule {rule.name!r}"


def does_text(rule: Rule) -> str:
    """What a rule does."""
    return action_text(rule.operator, rule.action)


def triggers_text(rule: Rule) -> str:
    """When a rule does it."""
    return " ".join(trigger_text(trigger) for trigger in rule.triggers) or "always"
