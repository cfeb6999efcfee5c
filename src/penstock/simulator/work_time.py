# SPDX-License-Identifier: Apache-2.0
"""Work time: the clock a server would have at full share, so that levels that change mid-service are exact.

With the speed s(t), constant between changes, W(t) is the integral of s up to t. Work x begun at t ends when W has
grown by x, whatever the speed does meanwhile. In work time a server never changes its speed, so its recursion needs
no care at control instants; only what enters and leaves is translated. Changes come in the order of time and
everything before the last one has been translated already, so the present piece is all that is kept.
"""

from __future__ import annotations

from typing import overload

import numpy as np

from penstock.ports import FloatArray


class WorkTime:
    """Translates between real time and work time under a speed that changes now and then."""

    def __init__(self, speed: float) -> None:
        self.speed = speed
        self._since = 0.0
        self._work = 0.0

    def set_speed(self, at: float, speed: float) -> None:
        """From `at` on the speed is another; the same speed again changes nothing, not even the rounding."""
        if speed != self.speed:
            self._work, self._since, self.speed = self.work(at), at, speed

    @overload
    def work(self, at: float) -> float: ...
    @overload
    def work(self, at: FloatArray) -> FloatArray: ...
    def work(self, at: float | FloatArray) -> float | FloatArray:
        """Work time at instants after the last change of speed."""
        return self._work + self.speed * (at - self._since)

    def times(self, work: FloatArray) -> FloatArray:
        """When the work time gets there, at the present speed; never before the last change of speed."""
        times = work - self._work
        times /= self.speed
        times += self._since
        return np.maximum(times, self._since, out=times)

    def time(self, work: float) -> float:
        """When the work time gets there, the same number that `times` gives."""
        return max((work - self._work) / self.speed + self._since, self._since)

    def count_until(self, work: FloatArray, until: float) -> int:
        """How many of the rising work times are reached by `until`, to the last bit as `times` says."""
        if not len(work) or self.time(float(work[-1])) <= until:
            return len(work)
        count = int(np.searchsorted(work, self.work(until), side="right"))
        while count < len(work) and self.time(float(work[count])) <= until:
            count += 1
        while count > 0 and self.time(float(work[count - 1])) > until:
            count -= 1
        return count
