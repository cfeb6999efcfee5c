# SPDX-License-Identifier: Apache-2.0
"""The arrival a record carries."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.adaptors.kafka.arrival_header import ARRIVAL_HEADER
from penstock.adaptors.kafka.record_latency import arrival_of
from penstock.errors import ConfigurationError


class FakeMessage:
    """A record with headers."""

    def __init__(self, headers: Any) -> None:
        self._headers = headers

    def headers(self) -> Any:
        """As the client gives them."""
        return self._headers


@pytest.mark.parametrize(
    ("headers", "arrival"),
    [
        (None, None),
        ([], None),
        ([("other", b"7")], None),
        ([(ARRIVAL_HEADER, None)], None),
        ([("other", b"x"), (ARRIVAL_HEADER, b"1767225600123456")], 1767225600.123456),
    ],
)
def test_a_record_tells_its_arrival_or_none(headers: Any, arrival: float | None) -> None:
    """Microseconds in the header are seconds; without the header the arrival is not known."""
    assert arrival_of(FakeMessage(headers)) == arrival  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [b"", b"12.5", b"soon", b"-3"])
def test_a_header_that_is_no_number_is_an_error(value: bytes) -> None:
    """A header of the same name with something else in it is not read as a time."""
    with pytest.raises(ConfigurationError, match=ARRIVAL_HEADER):
        arrival_of(FakeMessage([(ARRIVAL_HEADER, value)]))  # type: ignore[arg-type]
