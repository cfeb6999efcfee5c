# SPDX-License-Identifier: Apache-2.0
"""The end of an operator that nobody asked for, and whether it makes sense to start it again."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.adaptors.spark.failure_words import Prospect, prospect_of
from penstock.units import without_numbers


@dataclass(frozen=True, slots=True)
class Death:
    """Where and why an operator died.

    Examples
    --------
    >>> died = Death(3, "ValueError: no line")
    >>> died.why_no_restart(None)
    >>> died.why_no_restart(died)
    'the same failure at the same batch as before'
    """

    batch: int
    """The batch that it was doing, or would have done next."""
    words: str
    """What failed, in a line."""
    is_explained: bool = True
    """Whether the operator itself said what failed; a process that was killed could not."""

    def why_no_restart(self, before: Death | None) -> str | None:
        """Why another start would fail too; None: it may succeed.

        `before` is the death before this one. An error of the records or of the function comes again at the same batch,
        one of the surroundings may do so as well: they are away for longer than a start takes.
        """
        prospect = prospect_of(self.words)
        if prospect is Prospect.LASTING:
            return "Spark cannot run this query"
        if prospect is Prospect.PASSING or not self.is_explained or before is None or not self._is_like(before):
            return None
        return "the same failure at the same batch as before"

    def _is_like(self, other: Death) -> bool:
        # Numbers of tasks, stages and ports differ from one time to the next.
        return self.batch == other.batch and without_numbers(self.words) == without_numbers(other.words)
