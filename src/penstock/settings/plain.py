# SPDX-License-Identifier: Apache-2.0
"""Operators in the plain data of a settings file, as far as they can be read.

What does not fit together is looked for here, so that it shows beside the mistakes of single fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.topology import ARRIVALS


def plain_operators(data: object) -> list[tuple[int, Mapping[str, Any]]]:
    """The operators with their numbers in the file."""
    operators = data.get("operators") if isinstance(data, Mapping) else None
    if not isinstance(operators, (list, tuple)):
        return []
    return [(i, operator) for i, operator in enumerate(operators) if isinstance(operator, Mapping)]


def plain_inputs(operator: Mapping[str, Any]) -> list[tuple[str, Any]] | None:
    """What an operator reads from, each with the part that it takes; None where that cannot be read."""
    value = operator.get("input", ARRIVALS)
    entries = value if isinstance(value, (list, tuple)) else [value]
    pairs = [(e.get("from"), e.get("selectivity", 1.0)) if isinstance(e, Mapping) else (e, 1.0) for e in entries]
    return [(str(name), part) for name, part in pairs] if all(isinstance(name, str) for name, _ in pairs) else None
