# SPDX-License-Identifier: Apache-2.0
"""How the status of an action may change, each change with its cause."""

from __future__ import annotations

from penstock.records import OutcomeStatus

LEGAL: dict[OutcomeStatus, dict[OutcomeStatus, str]] = {
    OutcomeStatus.PENDING: {
        OutcomeStatus.DONE: "what was asked for is observed",
        OutcomeStatus.FAILED: "the outside refused it, or it did not show before the deadline",
        OutcomeStatus.SUPERSEDED: "a newer action replaced it before it was observed",
    },
    OutcomeStatus.DONE: {},
    OutcomeStatus.FAILED: {},
    OutcomeStatus.SUPERSEDED: {},
}


def check_transition(before: OutcomeStatus, after: OutcomeStatus) -> None:
    """Refuse a change of status that cannot happen."""
    if after not in LEGAL[before]:
        raise ValueError(f"an action cannot go from {before} to {after}")
