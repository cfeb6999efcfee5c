# SPDX-License-Identifier: Apache-2.0
"""The policies of the dynamic scaling framework can be written, and what the checker says of them."""

from __future__ import annotations

import pytest

from penstock.rules.doubts import doubts
from penstock.rules.nodes import Direction, Scale
from penstock.rules.text import parse_text

POLICIES = {
    "5.1": """
        rule "Queue length is above 300 for 30 seconds":
          scale-out simple by 1 never above 2
          when queue_length above 300 for 30 seconds
          unless scale-out within 5 minutes""",
    "5.2": """
        rule "Queue length is above 300 for 30 seconds":
          scale-out simple by 2 never above 3
          when queue_length above 300 for 30 seconds
          unless scale-out within 5 minutes""",
    "5.6": """
        rule "Queue length is above 100 for 5 seconds":
          scale-out simple by 2 never above 3
          when queue_length above 100 for 5 seconds
        rule "Queue length is below 1 for 5 seconds":
          scale-in simple by 2 never below 1
          when queue_length below 1 for 5 seconds
          unless scale-out within 5 minutes""",
    "5.8": """
        rule "CPU utilisation is above 10% for 30 seconds":
          scale-out machine by x4 never above 4
          when cpu_utilisation above 10% for 30 seconds""",
    "5.9": """
        rule "CPU is above 10% for 30 seconds, scale-out by 1":
          scale-out machine by 1 never above 8
          when cpu_utilisation above 10% for 30 seconds
          unless scale-in within 1 minute
        rule "CPU is above 20% for 60 seconds, scale-out by 2":
          scale-out machine by 2 never above 8
          when cpu_utilisation above 20% for 60 seconds
          unless scale-in within 1 minute
        rule "CPU is below 10% for 60 seconds, scale-in by 1":
          scale-in machine by 1
          when cpu_utilisation below 10% for 60 seconds
          unless scale-out within 1 minute""",
}


@pytest.mark.parametrize("number", list(POLICIES))
def test_a_published_policy_has_no_mistake_and_no_doubt(number: str) -> None:
    """Source Codes 5.1 to 5.9 that scale say the same as text, and nothing in them is doubtful."""
    reading = parse_text(POLICIES[number])
    assert reading.mistakes == ()
    assert doubts(reading.rules) == []


def test_the_first_published_example_lacks_its_limit() -> None:
    """Source Code 4.6 doubles without end, which its own Sec. 4.2.2 forbids."""
    reading = parse_text("""
        rule "Queue length is above 1000 for 5 minutes":
          scale-out operator by x2
          when queue_length above 1000 for 5 minutes
        rule "Queue length is below 1 for 5 minutes":
          scale-in operator by x2
          when queue_length below 1 for 5 minutes""")
    (mistake,) = reading.mistakes
    assert "needs a limit" in mistake.message
    (other,) = reading.rules
    assert isinstance(other.action, Scale)
    assert other.action.direction is Direction.IN
