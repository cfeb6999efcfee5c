# SPDX-License-Identifier: Apache-2.0
"""Counts publisher confirms. The broker confirms delivery tags one by one or up to one, in any order."""

from __future__ import annotations


class Confirms:
    """Which delivery tags (1, 2, 3, ...) are settled."""

    def __init__(self) -> None:
        self.settled_below = 0
        """All tags up to this one are settled."""
        self._beyond: set[int] = set()

    @property
    def settled(self) -> int:
        """How many tags are settled."""
        return self.settled_below + len(self._beyond)

    def settle(self, tag: int, *, multiple: bool) -> int:
        """Settle a tag, or all tags up to it. Return how many of them were not settled before.

        Examples
        --------
        >>> confirms = Confirms()
        >>> confirms.settle(2, multiple=False), confirms.settle(3, multiple=True), confirms.settle(3, multiple=True)
        (1, 2, 0)
        """
        before = self.settled
        if multiple:
            self.settled_below = max(self.settled_below, tag)
            self._beyond = {other for other in self._beyond if other > self.settled_below}
        elif tag > self.settled_below:
            self._beyond.add(tag)
        while self.settled_below + 1 in self._beyond:
            self.settled_below += 1
            self._beyond.remove(self.settled_below)
        return self.settled - before

    def is_settled(self, tag: int) -> bool:
        """Whether this tag is settled."""
        return tag <= self.settled_below or tag in self._beyond
