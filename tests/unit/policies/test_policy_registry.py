# SPDX-License-Identifier: Apache-2.0
"""Policies by name."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import ConfigurationError
from penstock.plan import FixedPolicy, ThresholdPolicy, make_policy, policy_names, policy_options
from penstock.records import Allocation


def test_every_name_gives_a_policy_of_that_name() -> None:
    """Each known name builds a policy that calls itself so, without any options."""
    assert policy_names() == ("fixed", "schedule", "threshold")
    for name in policy_names():
        assert make_policy(name).name == name


def test_options_reach_the_policy() -> None:
    """Options as a settings file writes them become the policy's values."""
    assert make_policy("threshold", upper=0.8, lower=0.3, every_seconds="5s") == ThresholdPolicy(0.8, 0.3, 5.0)
    fixed = make_policy("fixed", executors=2, cpu_share=0.7, every_seconds=20)
    assert isinstance(fixed, FixedPolicy)
    assert (fixed.allocation, fixed.every_seconds) == (Allocation(2, 0.7), 20.0)


def test_options_of_a_policy_are_listed() -> None:
    """The options of a policy can be asked for."""
    assert policy_options("threshold") == ("upper", "lower", "every_seconds")


@pytest.mark.parametrize(
    ("name", "options", "field", "words"),
    [
        ("mead2", {}, "policy", "known: fixed, schedule, threshold"),
        ("", {}, "policy", "known: fixed, schedule, threshold"),
        ("threshold", {"uper": 0.7}, "uper", "known: upper, lower, every_seconds"),
        ("threshold", {"upper": "high"}, "upper", "not a number"),
        ("threshold", {"upper": True}, "upper", "not a number"),
        ("threshold", {"upper": 1.5}, "upper", "outside"),
        ("threshold", {"every_seconds": "soon"}, "every_seconds", "duration"),
        ("fixed", {"executors": 1.5}, "executors", "whole number"),
        ("fixed", {"executors": True}, "executors", "whole number"),
        ("fixed", {"cpu_share": 0.5}, "executors", "beside cpu_share"),
        ("fixed", {"executors": 1, "cpu_share": "all"}, "cpu_share", "not a number"),
    ],
)
def test_unknown_names_and_bad_values_are_told(name: str, options: dict[str, Any], field: str, words: str) -> None:
    """An unknown policy or option lists the known ones; a bad value names its field."""
    with pytest.raises(ConfigurationError, match=words) as caught:
        make_policy(name, **options)
    assert caught.value.field == field
