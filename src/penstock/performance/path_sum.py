# SPDX-License-Identifier: Apache-2.0
"""Percentiles of sums of independent times, for many processes at once.

A part's distribution is put on a grid of equal steps and Fourier transformed; a sum is then a product. Grids reach to
2 * 8^k times the bound that matters, k = 0 first; a percentile is read on the smallest grid that it lies on. On one
grid shorter parts give a shorter sum, and a percentile never leaves the band of its grid: so percentiles fall when
parts do, also from grid to grid. The percentile of a single part is its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from penstock.markov.conditions import FloatArray
from penstock.performance.queueing.response import Response
from penstock.performance.queueing.time_distribution import TimeDistribution

_POINTS = 1024
_FIRST_REACH, _ZOOM = 2.0, 8.0
"""Reach of the first grid in bounds, and the factor between two grids."""
_WIDEST, _FINEST = 12, -6
"""Powers of `_ZOOM` between which grids are used."""

Spectrum = npt.NDArray[np.complex128]


class Laws:
    """The distributions of one part of a sum, one for each process; what is not stable never ends."""

    def __init__(self, responses: Sequence[Response]) -> None:
        self.responses = tuple(responses)
        self._spectra: dict[float, Spectrum] = {}

    def spectrum(self, reach: float) -> Spectrum:
        """Fourier transforms of the masses on a grid up to `reach`, a row for each process."""
        if reach not in self._spectra:
            mass = np.zeros((len(self.responses), _POINTS))
            for row, response in zip(mass, self.responses, strict=True):
                if response.is_stable:
                    shares = _shares(response, reach)
                    # What lies between two points is divided among them: means stay.
                    steps = np.diff(shares)
                    row[0] = shares[0]
                    row[:-1] += 0.5 * steps
                    row[1:] += 0.5 * steps
            self._spectra[reach] = np.fft.rfft(mass, 2 * _POINTS, axis=1)
        return self._spectra[reach]

    def rest(self) -> None:
        """Let go of what takes much memory, until something is asked again."""
        self._spectra.clear()
        for response in self.responses:
            if isinstance(response, TimeDistribution):
                response.rest()


def _shares(response: Response, reach: float) -> FloatArray:
    if isinstance(response, TimeDistribution):
        return response.cdf_on_grid(reach / (_POINTS - 1), _POINTS)
    return np.asarray(response.cdf(np.linspace(0.0, reach, _POINTS)))


def sum_percentiles(parts: Sequence[Laws], p: float, bound: float) -> FloatArray:
    """Give the percentile `p` of the sum of all parts for each process; infinite where a part is not stable.

    Examples
    --------
    >>> from penstock.markov import PH
    >>> from penstock.performance.queueing.phase_type_response import PhaseTypeResponse
    >>> half = Laws([PhaseTypeResponse(0.5, PH.exponential(mean=1.0))])
    >>> sum_percentiles([half, half], 0.95, 5.0).round(3).tolist()  # Erlang-2
    [4.744]
    """
    if len(parts) == 1:
        return np.array([response.percentile(p) for response in parts[0].responses])
    return _Sum(parts, p, _FIRST_REACH * bound).percentiles()


class _Sum:
    def __init__(self, parts: Sequence[Laws], p: float, first: float) -> None:
        self.parts, self.p, self.first = parts, p, first
        self._known: dict[int, FloatArray] = {}

    def percentiles(self) -> FloatArray:
        count = len(self.parts[0].responses)
        seconds = np.full(count, np.inf)
        for i in range(count):
            if all(part.responses[i].is_stable for part in self.parts):
                seconds[i] = self._percentile(i)
        return seconds

    def _percentile(self, i: int) -> float:
        k = 0
        while not self._lies_on(k, i):
            if k == _WIDEST:  # 10^11 times the bound: no grid is worth it
                return float(sum(part.responses[i].percentile(self.p) for part in self.parts))
            k += 1
        seconds = self._read(k, i)
        if k > 0:
            return max(seconds, self._reach(k - 1))
        while k > _FINEST and seconds <= self._reach(k - 1):
            k -= 1
            seconds = min(self._read(k, i), self._reach(k))
        return seconds

    def _lies_on(self, k: int, i: int) -> bool:
        return bool(self._shares(k)[i, -1] >= self.p)

    def _read(self, k: int, i: int) -> float:
        """The percentile on grid k, between the points around it; its end where it lies beyond."""
        shares = self._shares(k)[i]
        at = int(np.searchsorted(shares, self.p))
        if at in (0, _POINTS):
            return self._reach(k) * min(at, _POINTS - 1) / (_POINTS - 1)
        part = (self.p - shares[at - 1]) / (shares[at] - shares[at - 1])
        return float(self._reach(k) * (at - 1 + part) / (_POINTS - 1))

    def _reach(self, k: int) -> float:
        return self.first * _ZOOM**k

    def _shares(self, k: int) -> FloatArray:
        """The sum's distribution on grid k, a row for each process."""
        if k not in self._known:
            product = self.parts[0].spectrum(self._reach(k))
            for part in self.parts[1:]:
                product = product * part.spectrum(self._reach(k))
            within = np.cumsum(np.fft.irfft(product, 2 * _POINTS, axis=1)[:, :_POINTS], axis=1)
            # A point carries the mass around it: half of it lies beyond the point.
            within -= 0.5 * np.diff(within, axis=1, prepend=0.0)
            self._known[k] = np.maximum.accumulate(within, axis=1)
        return self._known[k]
