# SPDX-License-Identifier: Apache-2.0
"""A short history as one line of text. Unknown values are gaps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rich.text import Text

BLOCKS = "▁▂▃▄▅▆▇█"
ASCII = "_.-=+*%#"


def columns(values: Sequence[float | None], width: int) -> list[float | None]:
    """Return the newest values in at most `width` columns, each the highest of its share, or None if none is known.

    Examples
    --------
    >>> columns([1, 2, 3, None], 2)
    [2, 3]
    """
    if width < 1 or not values:
        return []
    if len(values) <= width:
        return list(values)
    edges = [round(i * len(values) / width) for i in range(width + 1)]
    shares = [[v for v in values[a:b] if v is not None] for a, b in pairwise(edges)]
    return [max(share) if share else None for share in shares]


def sparkline(
    values: Sequence[float | None],
    width: int,
    *,
    style: str = "cyan",
    above: float | None = None,
    top: float | None = None,
    blocks: str = BLOCKS,
) -> Text:
    """Return the history as blocks from zero to the highest value (or `top`). Columns above `above` are red."""
    shown = columns(values, width)
    highest = max((v for v in (*shown, top) if v is not None), default=0.0)
    text = Text()
    for value in shown:
        if value is None:
            text.append(" ")
            continue
        level = 0 if highest <= 0 else min(len(blocks) - 1, int(value / highest * len(blocks)))
        text.append(blocks[max(0, level)], style="red" if above is not None and value > above else style)
    return text
