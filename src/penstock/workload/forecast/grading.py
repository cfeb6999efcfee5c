# SPDX-License-Identifier: Apache-2.0
"""What each method's forecasts for one horizon were worth, and which method answers.

A forecast is graded when its reading comes, before anything learns from that reading. Of forecasts for many readings
ahead only one in so many is graded: they overlap, so the others would say the same, and cost and memory stay the same
for every horizon. Which one varies, as a fixed step could fall in step with the load.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.workload.forecast.contract import AS_NOW, METHODS
from penstock.workload.forecast.padding import shortfall_padding

RECENT = 128
"""Graded forecasts of which bands and padding are taken."""
_MEMORY, _SHORT_MEMORY = 64, 8
"""After so many graded forecasts an error counts a third, in the errors and in the check that something went wrong."""
_UNDER_WAY = 8
"""Most forecasts of one horizon that wait for their reading."""
_FEWEST = 24
"""Graded forecasts before a method may answer."""
_FEWEST_BLOCKS = 4
_KEEP, _KEEP_SHORT = 1.0 - 1.0 / _MEMORY, 1.0 - 1.0 / _SHORT_MEMORY
_BEGIN, _STAY = 0.95, 1.0
"""A method answers once its error is this part of that of "as now", and for as long as it is that part. Two bounds keep
the answer from going to and fro."""
_SURE = 2.0
"""By how many standard errors a method must be better to begin: with heavy bursts, one lucky forecast weighs much."""
_GONE_WRONG = 1.1
"""A method stops at once if its newest errors are this part of those of "as now"."""
_GOLDEN = 0.6180339887498949
_SURPRISE = 3.0
"""A forecast that is off by so many widths of its band, and by so many usual errors of "as now", met something new."""
_BAND = 0.1
_FEWEST_FOR_BAND = 16
_REVIEWS = 16
"""Graded forecasts from one look at bands and padding to the next."""

Made = tuple[float | None, ...]
"""One forecast of each of `METHODS`, in their order, and what was answered."""


@dataclass(frozen=True, slots=True)
class MethodError:
    """What a method's recent forecasts were worth.

    Attributes
    ----------
    method
        One of `METHODS`.
    error, error_as_now
        Mean absolute error, and that of "as now" over the same readings. None: nothing was graded.
    graded
        How many forecasts were graded in all; recent ones weigh most.
    """

    method: str
    error: float | None
    error_as_now: float | None
    graded: int


class Score:
    """The fading sums of one method's errors, beside those of "as now" over the same readings.

    Parameters
    ----------
    overlap
        So many forecasts in a row overlap. How sure a gain is, is taken from the means of such blocks.
    """

    __slots__ = (
        "as_now", "block", "blocks", "count", "error", "gains", "graded", "left", "overlap", "short_as_now",
        "short_error", "squares",
    )  # fmt: skip

    def __init__(self, overlap: int) -> None:
        self.overlap = overlap
        self.graded = 0
        self.count = self.error = self.as_now = self.short_error = self.short_as_now = 0.0
        self.block, self.left = 0.0, overlap
        self.blocks = self.gains = self.squares = 0.0

    def add(self, error: float, as_now: float) -> None:
        """Take one more absolute error."""
        self.graded += 1
        self.count = _KEEP * self.count + 1.0
        self.error = _KEEP * self.error + error
        self.as_now = _KEEP * self.as_now + as_now
        self.short_error = _KEEP_SHORT * self.short_error + error
        self.short_as_now = _KEEP_SHORT * self.short_as_now + as_now
        self.block += as_now - error
        self.left -= 1
        if not self.left:
            keep = _KEEP**self.overlap
            self.blocks = keep * self.blocks + 1.0
            self.gains = keep * self.gains + self.block
            self.squares = keep * self.squares + self.block * self.block
            self.block, self.left = 0.0, self.overlap

    @property
    def part(self) -> float:
        """The error as a part of that of "as now". 1 where "as now" is never wrong."""
        return self.error / self.as_now if self.as_now > 0.0 else 1.0

    @property
    def is_sure(self) -> bool:
        """Whether the method is better by more than chance."""
        if self.graded < _FEWEST_BLOCKS * self.overlap:
            return False
        mean = self.gains / self.blocks
        variance = max(0.0, self.squares / self.blocks - mean * mean)
        # Faded sums whose weights sum to n hold about as much as 2 n equal weights.
        return mean > _SURE * math.sqrt(variance / (2.0 * self.blocks))

    @property
    def has_gone_wrong(self) -> bool:
        """Whether the newest errors are worse than those of "as now"."""
        return self.short_error > _GONE_WRONG * self.short_as_now


class Grading:
    """The errors of all methods for one horizon.

    Parameters
    ----------
    steps
        The horizon, in readings.
    """

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.every = -(-steps // _UNDER_WAY)
        self.chosen = 0
        """The method with the least recent error, by its place in `METHODS`."""
        self.bands: list[tuple[float, float] | None] = [None] * len(METHODS)
        self.shortfall: float | None = None
        self._under_way: deque[tuple[int, Made]] = deque()
        self._errors: deque[Made] = deque(maxlen=RECENT)
        self._scores = [Score(-(-steps // self.every)) for _ in METHODS]
        self._graded = 0
        self._index = 0
        self._surprised_until = 0
        self._turns = 0
        self._next = 0

    def grade(self, value: float | None) -> None:
        """Go on by one reading, and compare with it what was forecast for it. None: it is missing."""
        self._index += 1
        if not self._under_way or self._under_way[0][0] > self._index:
            return
        _, made = self._under_way.popleft()
        if value is None:
            return
        errors = tuple([None if forecast is None else value - forecast for forecast in made])
        self._errors.append(errors)
        as_now = abs(value - made[0]) if made[0] is not None else 0.0
        for score, error in zip(self._scores, errors, strict=False):
            if error is not None:
                score.add(abs(error), as_now)
        if self._is_surprise(errors[self.chosen]):
            self._surprised_until = self._index + self.steps
        self._graded += 1
        if self._graded % _REVIEWS == 0:
            self._review()
        self._choose()

    @property
    def answering(self) -> int:
        """The method that answers now, by its place in `METHODS`.

        What a method forecasts after a surprise is graded one horizon later. Until then, the answer is "as now".
        """
        return 0 if self._index < self._surprised_until else self.chosen

    def is_turn(self) -> bool:
        """Whether forecasts made after this reading are to be graded: then `make` takes them."""
        return self._index >= self._next

    def make(self, made: Made | None) -> None:
        """Remember forecasts made after this reading. None: nothing could be forecast."""
        if made is not None:
            self._under_way.append((self._index + self.steps, made))
        self._turns += 1
        self._next = self._turns * self.every + int(self._turns * _GOLDEN % 1.0 * self.every)

    def error_of(self, method: int) -> MethodError:
        """Return what a method's recent forecasts were worth, by its place in `METHODS`."""
        score = self._scores[method]
        if not score.graded:
            return MethodError(METHODS[method], None, None, 0)
        return MethodError(METHODS[method], score.error / score.count, score.as_now / score.count, score.graded)

    def _is_surprise(self, error: float | None) -> bool:
        """Whether the chosen method was further off than it ever is, and than "as now" usually is."""
        band, score = self.bands[self.chosen], self._scores[self.chosen]
        if band is None or error is None:
            return False
        return abs(error) > max(_SURPRISE * (band[1] - band[0]), _SURPRISE * score.as_now / score.count)

    def _choose(self) -> None:
        """The method with the least error answers, if that is clearly less than that of "as now"."""
        held = self._scores[self.chosen] if self.chosen else None
        if held is not None and (held.part >= _STAY or held.has_gone_wrong):
            self.chosen, held = 0, None
        most = _BEGIN * (1.0 if held is None else held.part)
        for method, score in enumerate(self._scores):
            if method and score.graded >= _FEWEST and score.part < most and score.is_sure and not score.has_gone_wrong:
                self.chosen, most = method, score.part

    def _review(self) -> None:
        for method in range(len(METHODS)):
            errors = [error for row in self._errors if (error := row[method]) is not None]
            self.bands[method] = _band(errors) if len(errors) >= _FEWEST_FOR_BAND else None
        answered = [error for row in self._errors if (error := row[-1]) is not None]
        self.shortfall = shortfall_padding(answered) if len(answered) >= _FEWEST_FOR_BAND else None


def _band(errors: Sequence[float]) -> tuple[float, float]:
    """Return the errors below and above which one of ten lies."""
    ordered = sorted(errors)
    cut = int(_BAND * len(ordered))
    return ordered[cut], ordered[-1 - cut]


if METHODS[0] != AS_NOW:
    raise AssertionError("all other methods are compared with the first")
