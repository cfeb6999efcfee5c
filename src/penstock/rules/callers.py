# SPDX-License-Identifier: Apache-2.0
"""Where the user's code stands that calls the language, so that an error names that line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from types import FrameType
from typing import NoReturn

from penstock.errors import RuleError
from penstock.rules.checks import placed
from penstock.rules.nodes import Place

_OURS = ("penstock.rules.", "contextlib")
"""Modules whose frames lie between the user's line and the place of an error."""


def callers_place() -> Place | None:
    """Where the nearest code outside this package stands."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith(_OURS):
        frame = frame.f_back
    if frame is None:
        return None
    line, _, column, _ = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    return Place(line or frame.f_lineno, (column or 0) + 1, frame.f_code.co_filename)


@contextmanager
def at_the_callers_line() -> Iterator[None]:
    """Give a `RuleError` the place of the user's code."""
    try:
        yield
    except RuleError as fault:
        place = callers_place() if fault.line is None else None
        if place is None:
            raise
        raise fault.at(place.line, place.column, place.source) from None


def refusal(message: str) -> RuleError:
    """A `RuleError` at the user's line."""
    return placed(RuleError(message), callers_place())


def refuse(message: str) -> NoReturn:
    """Raise a `RuleError` at the user's line."""
    raise refusal(message)
