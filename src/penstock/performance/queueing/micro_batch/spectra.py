# SPDX-License-Identifier: Apache-2.0
"""Exponentials of D(z) = D0 + z D1 for many z and times: what depends on the arrivals alone is found once and kept.

Where D(z) has a well-conditioned basis of eigenvectors, exp(D(z) t) is a sum over them for any t. Processes with equal
stages in a row have none. Their phases are made to go faster or slower by at most a thousandth each, all by different
shares, and a basis is there again: every matrix is that close to one that has one (Davies, "Approximate
diagonalization", SIAM Journal on Matrix Analysis and Applications 29, 2007). What is solved then is a MAP still, of the
same rate. Where even that does not do, exponentials are summed at times that double every eight, each from the one of
half its time, and at others interpolated between the nearest four.
"""

from __future__ import annotations

from math import gcd

import numpy as np
import numpy.typing as npt

from penstock.markov import MAP
from penstock.markov.conditions import FloatArray, IntArray

ComplexArray = npt.NDArray[np.complex128]

_NORM = 0.1
"""Largest norm the series of the exponential is used for: its 9th-order remainder is then about what rounding is."""

_WORST_CONDITION = 1e8
"""Largest entry of |V| |V^-1|, V the eigenvectors, beyond which they are not used: it times 1e-16 is what rounding
makes of exponentials, whatever the vectors' lengths."""

_WORST_TRIED = 1e12
"""The same for a process whose exponentials were found right where they were tried: rounding is mostly kinder."""

_ACCEPTED_ERROR = 1e-8
"""Largest error of probabilities where they are tried, beside sums."""

_PARTINGS = (1e-5, 1e-4, 1e-3)
"""By how much phases are made faster or slower where equal ones leave no basis of eigenvectors: the least that does."""

_PROBES = np.exp(1j * np.geomspace(0.003, 3.0, 7))
_PROBED_TIMES = np.array([20.0, 400.0])
"""Where that is tried: angles that no process has a reason to be special at, times of so many records."""

_OCTAVE = 8
"""Times from one to its double for which exponentials are summed."""

_LARGEST_SUMMED = 24
"""States up to which all times of a frequency are one product; more, and its factors no longer fit a cache."""

_HALVINGS = 3.0
"""Values of s for each factor of two."""


def exponentials(matrices: npt.NDArray[np.inexact], times: FloatArray) -> npt.NDArray[np.inexact]:
    """Give exp(A_k t_k), all together, by scaling and squaring with an 8th-order series."""
    order = matrices.shape[-1]
    norms = np.abs(matrices).sum(axis=-1).max(axis=-1) * times
    doublings = np.maximum(0, np.ceil(np.log2(np.maximum(norms, 1e-300) / _NORM))).astype(int)
    sequence = np.argsort(-doublings, kind="stable")
    A = matrices[sequence] * (times[sequence] / 2.0 ** doublings[sequence])[:, None, None]
    eye = np.eye(order)
    A2 = A @ A
    A3 = A2 @ A
    A6 = eye / 720 + A / 5040 + A2 / 40320
    result = eye + A + A2 / 2 + A3 @ (eye / 6 + A / 24 + A2 / 120 + A3 @ A6)
    ordered = doublings[sequence]
    for done in range(int(ordered[0]) if len(ordered) else 0):
        active = int(np.searchsorted(-ordered, -done, side="left"))
        result[:active] = result[:active] @ result[:active]
    back = np.empty_like(sequence)
    back[sequence] = np.arange(len(sequence))
    return np.asarray(result[back])


class Spectra:
    """The matrices D(z) of one arrival process, decomposed as they are asked for.

    Attributes
    ----------
    arrivals, rate
        The process, and its records per second.
    D0, D1
        As used: those of the process, or with phases parted.
    """

    def __init__(self, arrivals: MAP) -> None:
        self.arrivals, self.rate = arrivals, arrivals.rate
        self.D0, self.D1 = arrivals.D0, arrivals.D1
        tried = (_parted(arrivals, most) if most else arrivals for most in (0.0, *_PARTINGS))
        sound = next((one for one in tried if _is_sound(one)), None)
        self._worst = _WORST_CONDITION if sound is None else _WORST_TRIED
        if sound is not None:
            self.D0, self.D1 = sound.D0, sound.D1
        self.rates = self.D1.sum(axis=1)
        self.Q = self.D0 + self.D1
        self._circle: dict[tuple[int, int], tuple[int, int]] = {}
        self._parts: list[_Eigen] = []
        self._inside: dict[tuple[int, float], _Eigen] = {}
        self._growth = np.empty((0, 3))

    def on_circle(self, half: int, parts: int, times: FloatArray) -> ComplexArray:
        """Give `[frequency, time, i, j]` at the angles 2 pi q / parts, q = 0 ... half - 1, |z| = 1."""
        keys = [(q // gcd(q, parts), parts // gcd(q, parts)) for q in range(half)]
        new = [key for key in keys if key not in self._circle]
        if new:
            for number, key in enumerate(new):
                self._circle[key] = (len(self._parts), number)
            angle = 2 * np.pi * np.array([q / of for q, of in new])
            self._parts.append(_Eigen(self, np.exp(1j * angle), self._worst))
        part, place = np.array([self._circle[key] for key in keys]).T
        if np.all(part == part[0]):
            return self._parts[int(part[0])].exponentials(place, times)
        result: ComplexArray = np.empty((half, len(times), *self.D0.shape), dtype=complex)
        for each in np.unique(part).tolist():
            result[part == each] = self._parts[each].exponentials(place[part == each], times)
        return result

    def inside(self, half: int, parts: float, fade: float, times: FloatArray) -> ComplexArray:
        """Give the same on a smaller circle, log |z| = -fade."""
        key = (half, parts)
        if fade == 0.0:
            return self.on_circle(half, int(parts), times)
        if key not in self._inside:
            self._inside[key] = _Eigen(self, np.exp(2j * np.pi * np.arange(half) / parts - fade), self._worst)
        return self._inside[key].exponentials(np.arange(half), times)

    def growth(self, least: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Give values s of both signs, down to about `least`, with chi(s) and log(max v / min v).

        chi(s) is the largest eigenvalue of D(e^s), v its positive eigenvector.
        """
        count = int(np.ceil(np.log2(3.0 / min(least, 1.0)) * _HALVINGS)) + 1
        have = len(self._growth) // 2
        if count > have:
            s = 3.0 * 2.0 ** (-np.arange(have, count) / _HALVINGS)
            s = np.stack([s, -s], axis=1).ravel()
            values, vectors = np.linalg.eig(self.D0 + np.exp(s)[:, None, None] * self.D1)
            top = np.argmax(values.real, axis=1)
            chi = np.take_along_axis(values.real, top[:, None], axis=1)[:, 0]
            v = np.abs(np.take_along_axis(vectors.real, top[:, None, None], axis=2)[:, :, 0])
            spread = np.log(v.max(axis=1) / np.maximum(v.min(axis=1), 1e-300))
            self._growth = np.concatenate([self._growth, np.stack([s, chi, spread], axis=1)])
        s, chi, spread = self._growth[: 2 * count].T
        return s, chi, spread


def _parted(arrivals: MAP, most: float) -> MAP:
    """Make every phase faster or slower by a share of its own, the whole as fast as before."""
    # Multiples of the golden ratio, modulo 1, are apart from each other however many there are.
    share = np.mod(np.arange(1, arrivals.order + 1) * (np.sqrt(5.0) - 1.0) / 2.0, 1.0)
    faster = (1.0 + most * (2.0 * share - 1.0))[:, None]
    return MAP(arrivals.D0 * faster, arrivals.D1 * faster).with_rate(arrivals.rate)


def _is_sound(arrivals: MAP) -> bool:
    """Whether exponentials by eigenvectors are right, where they are tried."""
    tried = _Eigen(arrivals, _PROBES, _WORST_TRIED)
    return bool(tried.good.all()) and tried.error(_PROBED_TIMES / arrivals.rate) < _ACCEPTED_ERROR


class _Eigen:
    """D(z) at some z, by eigenvectors where they are well conditioned, else by sums that are kept."""

    def __init__(self, process: MAP | Spectra, z: ComplexArray, worst: float) -> None:
        # In units of the time between records, so that nothing depends on the unit of time.
        self._rate = process.rate
        self._D = (process.D0 + z[:, None, None] * process.D1) / self._rate
        self._values, self._vectors = np.linalg.eig(self._D)
        self._summed: dict[tuple[int, int], ComplexArray] = {}
        try:
            self._inverse = np.linalg.inv(self._vectors)
        except np.linalg.LinAlgError:
            # One of them has no inverse at all: all are summed, which is slower and always right.
            self.good = np.zeros(len(z), dtype=bool)
        else:
            size = (np.abs(self._vectors) @ np.abs(self._inverse)).max(axis=(1, 2))
            self.good = size < worst
        self._bad = np.flatnonzero(~self.good)

    def exponentials(self, places: IntArray, times: FloatArray) -> ComplexArray:
        """Give `[z, time, i, j]` for the z numbered `places`."""
        times = times * self._rate
        is_good = self.good[places]
        if is_good.all():
            return self._by_vectors(places, times)
        result = np.empty((len(places), len(times), *self._D.shape[1:]), dtype=complex)
        if is_good.any():
            result[is_good] = self._by_vectors(places[is_good], times)
        result[~is_good] = self._by_sums(np.searchsorted(self._bad, places[~is_good]), times)
        return result

    def error(self, times: FloatArray) -> float:
        """Give the largest difference of exponentials by eigenvectors from sums."""
        every = np.arange(len(self._D))
        known = exponentials(np.repeat(self._D, len(times), axis=0), np.tile(times * self._rate, len(every)))
        return float(np.abs(self.exponentials(every, times).reshape(known.shape) - known).max())

    def _by_sums(self, rows: IntArray, times: FloatArray) -> ComplexArray:
        """Give them for some of the z without good eigenvectors: between the times that are summed at."""
        which, weight = _between(times)
        numbers, place = np.unique(which, return_inverse=True)
        known = np.stack([self._sum(*divmod(number, _OCTAVE))[rows] for number in numbers.tolist()])
        weights = np.zeros((len(times), len(numbers)))
        np.add.at(weights, (np.arange(len(times))[:, None], place.reshape(which.shape)), weight)
        # Weights are real: a product of reals, twice as many, is the quicker one.
        found = (weights @ known.reshape(len(numbers), -1).view(float)).view(complex)
        return np.asarray(found.reshape(len(times), *known.shape[1:]).swapaxes(0, 1))

    def _by_vectors(self, here: IntArray, times: FloatArray) -> ComplexArray:
        m = self._D.shape[-1]
        powers = np.exp(self._values[here][:, None] * times[:, None])
        if m > _LARGEST_SUMMED:
            return np.asarray((self._vectors[here][:, None] * powers[:, :, None, :]) @ self._inverse[here][:, None])
        # exp(D t) = sum over a of e^(value_a t) times a matrix of rank one: one product for all times.
        ranks = self._vectors[here].transpose(0, 2, 1)[:, :, :, None] * self._inverse[here][:, :, None, :]
        whole = powers @ ranks.reshape(len(here), m, m * m)
        return np.asarray(whole.reshape(len(here), len(times), m, m))

    def _sum(self, octave: int, part: int) -> ComplexArray:
        """Give the exponentials at the time 2^octave (1 + part / 8), of all z that have no good eigenvectors."""
        if (octave, part) not in self._summed:
            half = self._summed.get((octave - 1, part))
            if half is not None:
                self._summed[octave, part] = half @ half
            else:
                step = exponentials(self._D[self._bad], np.full(self._bad.size, 2.0**octave / _OCTAVE))
                power = step
                for _ in range(int(np.log2(_OCTAVE))):
                    power = power @ power
                for each in range(_OCTAVE):
                    self._summed[octave, each] = np.asarray(power, dtype=complex)
                    power = power @ step
        return self._summed[octave, part]


def _between(times: FloatArray) -> tuple[IntArray, FloatArray]:
    """Give, for each time, four of the times that exponentials are summed at, by number, and Lagrange's weights."""
    octave = np.floor(np.log2(times))
    first = (octave * _OCTAVE + np.floor((times / 2.0**octave - 1.0) * _OCTAVE)).astype(np.int64) - 1
    which = first[:, None] + np.arange(4)
    at = 2.0 ** (which // _OCTAVE) * (1.0 + (which % _OCTAVE) / _OCTAVE)
    weight = np.ones(which.shape)
    for a in range(4):
        for b in range(4):
            if a != b:
                weight[:, a] *= (times - at[:, b]) / (at[:, a] - at[:, b])
    return which, weight
