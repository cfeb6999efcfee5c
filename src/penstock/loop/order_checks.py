# SPDX-License-Identifier: Apache-2.0
"""What an order must be like before it is written down."""

from __future__ import annotations

from penstock.errors import ConfigurationError, SteeringError
from penstock.records import Allocation, Limits
from penstock.steering import PolicyChoice


def check_size(operator: str, size: Allocation, limits: Limits) -> None:
    """Refuse a size that the limits of the settings do not allow."""
    if limits.allows(size) and size.executors <= limits.room:
        return
    shares = ", ".join(f"{share:g}" for share in limits.cpu_shares)
    raise ConfigurationError(
        f"size: {operator} may have {limits.min_executors} to {limits.room} executors with a cpu_share of {shares}, "
        f"not {size.executors} x {size.cpu_share:g}; choose among these, or change the limits of the settings",
        field="size",
    )


def check_buildable(choice: PolicyChoice, instead: str) -> None:
    """Refuse a policy that cannot be built by its name; `instead` says what to do."""
    if choice.is_object:
        raise SteeringError(f"policy: {choice.name} is an object of your own, which cannot be built again; {instead}")


def one_line(text: str, most: int) -> str:
    """A text of one line that a log and a terminal can show."""
    return "".join(c if c.isprintable() else " " for c in text).strip()[:most]
