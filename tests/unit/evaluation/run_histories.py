# SPDX-License-Identifier: Apache-2.0
"""Histories of runs that never were, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.evaluation.history import RunHistory
from penstock.records import Observation


def a_history(decisions: Sequence[Any] = (), outcomes: Sequence[Any] = (), **seen: Sequence[Observation]) -> RunHistory:
    """What was seen of each operator, by its name."""
    return RunHistory(seen, decisions, (), outcomes, (), None, None)
