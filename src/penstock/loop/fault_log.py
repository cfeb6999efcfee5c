# SPDX-License-Identifier: Apache-2.0
"""Writes passes that fail to the log: at once, and what goes on once a minute.

A driver that is away for ten minutes fails six hundred passes. Whoever reads the log at night wants to see when that
began, that it goes on, and when it was over, and beside it what else happened.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

_LOG = logging.getLogger(__name__)

_SAID_AGAIN_SECONDS = 60.0
_NUMBER = re.compile(r"\d+(\.\d+)?")
"""Two faults that differ in their numbers alone ("for 5 s", "for 6 s") are the same one."""


@dataclass
class _Spell:
    """The fault of one operator that goes on."""

    kind: str
    said_at: float
    passes: int = 1


class FaultLog:
    """Takes every pass of every operator, and says what a reader has to know."""

    def __init__(self) -> None:
        self._spells: dict[str, _Spell] = {}

    def failed(self, operator: str, text: str, monotonic: float) -> None:
        """Take a pass that failed: a new fault is said at once, one that goes on once a minute."""
        kind, spell = _NUMBER.sub("#", text), self._spells.get(operator)
        if spell is None or spell.kind != kind:
            self._spells[operator] = _Spell(kind, monotonic, 1 if spell is None else spell.passes + 1)
            _LOG.warning("%s: a pass failed: %s", operator, text)
            return
        spell.passes += 1
        if monotonic - spell.said_at >= _SAID_AGAIN_SECONDS:
            spell.said_at = monotonic
            _LOG.warning("%s: %d passes in a row have failed: %s", operator, spell.passes, text)

    def passed(self, operator: str) -> None:
        """Take a pass that did not fail: where others did before it, it is said that this is over."""
        spell = self._spells.pop(operator, None)
        if spell is not None and spell.passes > 1:
            _LOG.info("%s: passes succeed again, after %d that failed", operator, spell.passes)
