# SPDX-License-Identifier: Apache-2.0
"""The same rows without Spark."""

from __future__ import annotations

from collections.abc import Sequence


def expected_rows(lines: Sequence[str]) -> list[tuple[int, str]]:
    """Return (index, value) of every record, in the order of index."""
    return list(enumerate(lines))
