# SPDX-License-Identifier: Apache-2.0
"""Exponentials of D(z) = D0 + z D1 for many z and times: what depends on the arrivals alone is found once and kept.

Where D(z) has a well-conditioned basis of eigenvectors, exp(D(z) t) is a sum over them for any t. Processes with equal
stages in a row have none. Their phases are made to go faster or slower by at most a hundred-thousandth each, all by
different shares, and a basis is there again: every matrix is that close to one that has one (Davies, "Approximate
diagonalization", SIAM Journal on Matrix Analysis and Applications 29, 2007). What is solved then is a MAP still, of the
same rate. Should even that not do, exponentials are summed.
"""

from __future__ import annotations

from math import gcd

import numpy as np
import numpy.typing as npt

from penstock.markov import MAP
from penstock.markov.conditions import FloatArray, IntArray

ComplexArray = npt.NDArray[np.complex128]

_NORM = 0.35
"""Largest norm the series of the exponential is used for; its 9th-order remainder is then below 1e-9."""

_WORST_CONDITION = 1e7
"""Condition of eigenvectors beyond which exponentials are summed instead: 1e-9 is then their error."""

_PARTED = 1e-5
"""By how much phases are made faster or slower where equal ones leave no basis of eigenvectors."""

_PROBES = np.exp(1j * np.geomspace(0.003, 3.0, 7))
"""Where eigenvectors are tried first: angles that no process has a reason to be special at."""

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
    D0, D1
        As used: those of the process, or with phases parted.
    is_dear
        Whether exponentials must be summed all the same.
    """

    def __init__(self, arrivals: MAP) -> None:
        self.arrivals = arrivals
        self.D0, self.D1 = arrivals.D0, arrivals.D1
        self.is_dear = False
        if not _Eigen(self.D0, self.D1, _PROBES).good.all():
            parted = _parted(arrivals)
            self.is_dear = not _Eigen(parted.D0, parted.D1, _PROBES).good.all()
            if not self.is_dear:
                self.D0, self.D1 = parted.D0, parted.D1
        self.rates = self.D1.sum(axis=1)
        self.Q = self.D0 + self.D1
        self._circle: dict[tuple[int, int], int] = {}
        self._on_circle: _Eigen | None = None
        self._inside: dict[tuple[int, float], _Eigen] = {}
        self._growth = np.empty((0, 3))

    def on_circle(self, half: int, parts: int, times: FloatArray) -> ComplexArray:
        """Give `[frequency, time, i, j]` at the angles 2 pi q / parts, q = 0 ... half - 1, |z| = 1."""
        keys = [(q // gcd(q, parts), parts // gcd(q, parts)) for q in range(half)]
        new = [key for key in keys if key not in self._circle]
        if new:
            for key in new:
                self._circle[key] = len(self._circle)
            angle = 2 * np.pi * np.array([q / of for q, of in new])
            found = _Eigen(self.D0, self.D1, np.exp(1j * angle))
            self._on_circle = found if self._on_circle is None else self._on_circle.joined(found)
        assert self._on_circle is not None
        return self._on_circle.exponentials(np.array([self._circle[key] for key in keys]), times)

    def inside(self, half: int, parts: float, fade: float, times: FloatArray) -> ComplexArray:
        """Give the same on a smaller circle, log |z| = -fade."""
        key = (half, parts)
        if fade == 0.0:
            return self.on_circle(half, int(parts), times)
        if key not in self._inside:
            self._inside[key] = _Eigen(self.D0, self.D1, np.exp(2j * np.pi * np.arange(half) / parts - fade))
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


def _parted(arrivals: MAP) -> MAP:
    """Make every phase faster or slower by a share of its own, the whole as fast as before."""
    # Multiples of the golden ratio, modulo 1, are apart from each other however many there are.
    share = np.mod(np.arange(1, arrivals.order + 1) * (np.sqrt(5.0) - 1.0) / 2.0, 1.0)
    faster = (1.0 + _PARTED * (2.0 * share - 1.0))[:, None]
    return MAP(arrivals.D0 * faster, arrivals.D1 * faster).with_rate(arrivals.rate)


class _Eigen:
    """D(z) at some z, by eigenvectors where they are well conditioned, else as they are."""

    def __init__(self, D0: FloatArray, D1: FloatArray, z: ComplexArray) -> None:
        self.D = D0 + z[:, None, None] * D1
        self.values, self.vectors = np.linalg.eig(self.D)
        try:
            self.inverse = np.linalg.inv(self.vectors)
        except np.linalg.LinAlgError:
            # One of them has no inverse at all: all are summed, which is slower and always right.
            self.inverse, self.good = self.vectors, np.zeros(len(z), dtype=bool)
            return
        size = np.linalg.norm(self.vectors, axis=(1, 2)) * np.linalg.norm(self.inverse, axis=(1, 2))
        self.good = size < _WORST_CONDITION * len(D0)

    def joined(self, other: _Eigen) -> _Eigen:
        """Give both, this one's first."""
        both = object.__new__(_Eigen)
        for name in ("D", "values", "vectors", "inverse", "good"):
            setattr(both, name, np.concatenate([getattr(self, name), getattr(other, name)]))
        return both

    def exponentials(self, places: IntArray, times: FloatArray) -> ComplexArray:
        """Give `[z, time, i, j]` for the z numbered `places`."""
        good = np.flatnonzero(self.good[places])
        bad = np.flatnonzero(~self.good[places])
        m = self.D.shape[-1]
        result = np.empty((len(places), len(times), m, m), dtype=complex)
        if good.size:
            here = places[good]
            found = self._by_vectors(here, np.exp(self.values[here][:, None] * times[:, None]))
            if not bad.size:
                return found
            result[good] = found
        summed: dict[float, npt.NDArray[np.inexact]] = {}
        for time in np.sort(times).tolist():
            # Twice a time that is there already costs one product.
            known = summed.get(time / 2)
            if known is None:
                summed[time] = exponentials(self.D[places[bad]], np.full(bad.size, time))
            else:
                summed[time] = known @ known
        for k, time in enumerate(times.tolist()):
            result[bad, k] = summed[time]
        return result

    def _by_vectors(self, here: IntArray, powers: ComplexArray) -> ComplexArray:
        m = self.D.shape[-1]
        if m > _LARGEST_SUMMED:
            return np.asarray((self.vectors[here][:, None] * powers[:, :, None, :]) @ self.inverse[here][:, None])
        # exp(D t) = sum over a of e^(value_a t) times a matrix of rank one: one product for all times.
        ranks = self.vectors[here].transpose(0, 2, 1)[:, :, :, None] * self.inverse[here][:, :, None, :]
        whole = powers @ ranks.reshape(len(here), m, m * m)
        return np.asarray(whole.reshape(len(here), powers.shape[1], m, m))
