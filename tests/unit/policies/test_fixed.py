# SPDX-License-Identifier: Apache-2.0
"""The fixed policy."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigurationError
from penstock.policies.fixed import FixedPolicy
from penstock.records import Allocation, Quality
from penstock.testing import a_request


def test_holds_at_its_allocation_whatever_is_measured() -> None:
    """With its allocation in force it holds, also under full load, and says why."""
    decision = FixedPolicy(Allocation(2, 1.0)).plan(a_request(current=Allocation(2, 1.0), utilisation=1.0))
    assert decision.verb == "hold"
    assert "fixed at 2 executors x 100% CPU" in decision.reason


def test_goes_to_its_allocation_from_another() -> None:
    """With something else in force it wants its own, whatever the data are, and says what is there."""
    decision = FixedPolicy(Allocation(2, 1.0)).plan(a_request(current=Allocation(1, 0.4), quality=Quality.WARMING_UP))
    assert decision.target == Allocation(2, 1.0)
    assert "1 executor x 40% CPU" in decision.reason


def test_without_an_allocation_it_keeps_what_is_there() -> None:
    """Without an allocation it holds at the current one."""
    decision = FixedPolicy().plan(a_request(current=Allocation(2, 0.7)))
    assert decision.target == Allocation(2, 0.7)
    assert "what the operator has" in decision.reason


@pytest.mark.parametrize(
    ("allocation", "every_seconds", "field"),
    [
        (Allocation(0), 10.0, "executors"),
        (Allocation(1, 0.0), 10.0, "cpu_share"),
        (Allocation(1, 1.5), 10.0, "cpu_share"),
        (Allocation(1, float("nan")), 10.0, "cpu_share"),
        (Allocation(1), 0.0, "every_seconds"),
        (Allocation(1), float("nan"), "every_seconds"),
    ],
)
def test_bad_values_are_refused_by_name(allocation: Allocation, every_seconds: float, field: str) -> None:
    """A value that makes no sense raises an error that names its field."""
    with pytest.raises(ConfigurationError, match=field) as caught:
        FixedPolicy(allocation, every_seconds=every_seconds)
    assert caught.value.field == field
