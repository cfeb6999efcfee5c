# SPDX-License-Identifier: Apache-2.0
"""Durations, sizes and rates as people write them."""

import doctest

import pytest

import penstock.units
from penstock.errors import ConfigurationError
from penstock.units import format_count, format_seconds, parse_bytes, parse_rate, parse_seconds


def test_examples_in_the_docstrings_hold() -> None:
    """Every example in the module's docstrings gives what it says."""
    result = doctest.testmod(penstock.units)
    assert result.attempted >= 5
    assert result.failed == 0


@pytest.mark.parametrize("text", ["", "2 parsecs", "-3s", "nan", "inf", "s", "1s2"])
def test_a_wrong_duration_names_the_field(text: str) -> None:
    """A duration that cannot be read is refused with the field's name."""
    with pytest.raises(ConfigurationError, match=r"guards\.settle") as fault:
        parse_seconds(text, "guards.settle")
    assert fault.value.field == "guards.settle"


def test_booleans_are_no_quantities() -> None:
    """YAML's `on` is not one second."""
    with pytest.raises(ConfigurationError):
        parse_seconds(True)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_numbers_outside_reason_are_refused(value: float) -> None:
    """NaN, infinity and negative numbers are refused by all three."""
    for parse in (parse_seconds, parse_bytes, parse_rate):
        with pytest.raises(ConfigurationError):
            parse(value)


def test_unknown_is_shown_as_a_dash() -> None:
    """A missing value is never shown as zero."""
    assert format_seconds(None) == format_count(None) == "-"


def test_counts_keep_three_digits() -> None:
    """Large counts are shortened."""
    assert [format_count(n) for n in (0, 999, 9999, 12_345, 1_234_567, 2.5e9)] == [
        "0", "999", "9999", "12.3k", "1.23M", "2.5G",
    ]  # fmt: skip
