# SPDX-License-Identifier: Apache-2.0
"""Durations, sizes and rates as people write them."""

import doctest

import pytest

import penstock.units
from penstock.errors import ConfigurationError
from penstock.units import (
    format_count,
    format_seconds,
    number,
    parse_bytes,
    parse_number,
    parse_rate,
    parse_seconds,
    parse_whole_number,
    positive_seconds,
    whole_number,
)


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


@pytest.mark.parametrize("value", [True, "2", None, [1], float("nan"), float("inf"), 0, 11])
def test_a_number_is_finite_and_in_its_range(value: object) -> None:
    """Text, booleans, NaN, infinity and numbers outside the range are refused with the field and the range."""
    with pytest.raises(ConfigurationError, match=r"^speed: .* is not a number above 0 to 10$") as fault:
        number("speed", value, above=0, most=10)
    assert fault.value.field == "speed"
    assert number("speed", 10, above=0, most=10) == 10.0


@pytest.mark.parametrize("value", [True, "2", 2.0, None, 0])
def test_a_whole_number_is_an_integer(value: object) -> None:
    """Booleans, text and floats are refused, even floats without a fraction."""
    with pytest.raises(ConfigurationError, match=r"^cores: .* is not a whole number from 1$"):
        whole_number("cores", value, least=1)
    assert whole_number("cores", 1, least=1) == 1


@pytest.mark.parametrize("text", ["", "two", "nan", "inf", "1.5", True])
def test_numbers_in_text_are_read_with_the_same_ranges(text: object) -> None:
    """An option's text is refused with the field, the range and, where there is one, an example."""
    with pytest.raises(ConfigurationError, match=r"^share: .* is not a number from 0 to 1; write 0\.5$"):
        parse_number("share", text, least=0, most=1, example="0.5")
    with pytest.raises(ConfigurationError, match=r"^tasks: .* is not a whole number up to 8$"):
        parse_whole_number("tasks", text, most=8)
    with pytest.raises(ConfigurationError, match="is not a whole number up to 8"):
        parse_whole_number("tasks", "9", most=8)


def test_a_positive_duration_is_not_zero() -> None:
    """Zero is refused with the field and an example."""
    with pytest.raises(ConfigurationError, match="service: '0s' must be above 0"):
        positive_seconds("service", "0s")
