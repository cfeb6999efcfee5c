# SPDX-License-Identifier: Apache-2.0
"""How many records a MAP brings in a given time, with the phases before and after, for many times at once.

==========  =========================================================================================
Symbol      Meaning
==========  =========================================================================================
D(z)        D0 + z D1
N(t)        arrivals in a time t
P_n(t)      matrix with entries P(N(t) = n, phase j at t | phase i at 0)
chi(s), v   largest eigenvalue of D(e^s) and its positive right eigenvector
==========  =========================================================================================

The generating function is sum_n z^n P_n(t) = exp(D(z) t) (Neuts 1979). It is inverted on the circle |z| = 1 by a
discrete Fourier transform over a window of counts outside which the mass is at most a stated bound, by Chernoff:
exp(D(e^s) t) 1 <= exp(D(e^s) t) v / min v = e^(chi(s) t) v / min v, so P(N(t) >= x) <= e^(chi(s) t - s x) max v / min v
for every s > 0, and likewise below with s < 0. While the window has no more counts than frequencies, the answer is
exact up to rounding. A wider window is sampled at steps of 2, 4, 8 ... counts, as a density: only low frequencies
are used, damped by a Gaussian where the counts themselves are sharper than the steps. That leaves the mean as it is
and adds a variance, which is reported. Steps are powers of two so that times share frequencies, and with them one
eigendecomposition of D(z).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.markov.conditions import FloatArray, IntArray

_EDGE = 0.03
"""What is left of the transform at the highest frequency used: small enough that the density does not ring."""

_NORM = 0.35
"""Largest norm the series of the exponential is used for; its 9th-order remainder is then below 1e-9."""

_WORST_CONDITION = 1e6
"""Condition of eigenvectors beyond which exponentials are summed instead."""


@dataclass(frozen=True, eq=False)
class Counts:
    """The counts of several times: `mass[k, s, i, j]` of count `at[k, s]` (N > 0), `none[k]` of no arrival."""

    at: FloatArray
    mass: FloatArray
    none: FloatArray
    exact: npt.NDArray[np.bool_]
    added_variance: FloatArray


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


def windows(D0: FloatArray, D1: FloatArray, times: FloatArray, outside: float) -> tuple[FloatArray, FloatArray]:
    """Give, for each time, counts that N(t) stays between but for a probability `outside` on each side."""
    logarithm = -np.log(outside)
    busiest = float(D1.sum(axis=1).max())
    smallest = 0.1 * np.sqrt(2 * logarithm / (busiest * float(times.max()) + 1.0))
    s = np.geomspace(min(smallest, 1.0), 3.0, 28)
    s = np.concatenate([s, -s])
    values, vectors = np.linalg.eig(D0 + np.exp(s)[:, None, None] * D1)
    top = np.argmax(values.real, axis=1)
    chi = np.take_along_axis(values.real, top[:, None], axis=1)[:, 0]
    v = np.abs(np.take_along_axis(vectors.real, top[:, None, None], axis=2)[:, :, 0])
    spread = np.log(v.max(axis=1) / np.maximum(v.min(axis=1), 1e-300))
    bounds = (chi[:, None] * times + (spread + logarithm)[:, None]) / s[:, None]
    low, high = bounds[s < 0].max(axis=0), bounds[s > 0].min(axis=0)
    return np.floor(np.maximum(low, 0.0)), np.ceil(high) + 1.0


def count_matrices(D0: FloatArray, D1: FloatArray, times: FloatArray, frequencies: int, outside: float) -> Counts:
    """Give the distribution of N(t) with the phases, for all `times`, on `frequencies` samples each."""
    order, K, M = len(D0), len(times), frequencies
    half = M // 2 + 1
    low, high = windows(D0, D1, times, outside)
    level = np.maximum(0, np.ceil(np.log2((high - low) / M))).astype(int)
    step = 2.0**level
    none = np.asarray(exponentials(np.broadcast_to(D0, (K, order, order)), times), dtype=float)
    mass = np.empty((K, M, order, order))
    added = np.zeros(K)
    # In units of the finest spacing every frequency is a whole number: levels share those they have in common.
    deepest = int(level.max())
    wanted = {each: np.arange(half) << (deepest - each) for each in np.unique(level).tolist()}
    distinct = np.unique(np.concatenate(list(wanted.values())))
    spectrum = _Spectrum(D0, D1, 2 * np.pi * distinct / (M * 2.0**deepest))
    for each, places in wanted.items():
        chosen = np.flatnonzero(level == each)
        theta = 2 * np.pi * np.arange(half) / (M * 2.0**each)
        transform = spectrum.transforms(np.searchsorted(distinct, places), times[chosen]) - none[chosen, None]
        if each > 0:
            edge = np.abs(transform[:, -1]).sum(axis=-1).max(axis=-1)
            added[chosen] = 2 * np.log(np.maximum(edge / _EDGE, 1.0)) / theta[-1] ** 2
        # numpy's forward transform has e^(-i...): the density is the inverse of the conjugate.
        damping = np.exp(1j * theta * low[chosen, None] - added[chosen, None] * theta**2 / 2)
        np.conjugate(transform, out=transform)
        transform *= damping[:, :, None, None]
        mass[chosen] = np.fft.irfft(transform, n=M, axis=1)
    at = low[:, None] + step[:, None] * np.arange(M)
    return Counts(at, mass, none, level == 0, added)


class _Spectrum:
    """exp(D(e^(i theta)) t) at some frequencies: by eigenvectors where they are well conditioned, else by series."""

    def __init__(self, D0: FloatArray, D1: FloatArray, theta: FloatArray) -> None:
        self._D = D0 + np.exp(1j * theta)[:, None, None] * D1
        self._values, self._vectors = np.linalg.eig(self._D)
        try:
            self._inverse = np.linalg.inv(self._vectors)
        except np.linalg.LinAlgError:
            # One of them has no inverse at all: all are summed, which is slower and always right.
            self._good = np.zeros(len(theta), dtype=bool)
            return
        size = np.linalg.norm(self._vectors, axis=(1, 2)) * np.linalg.norm(self._inverse, axis=(1, 2))
        self._good = size < _WORST_CONDITION

    def transforms(self, places: IntArray, times: FloatArray) -> npt.NDArray[np.complex128]:
        """Give the exponentials `[time, frequency, i, j]` at the frequencies numbered `places`."""
        good = np.flatnonzero(self._good[places])
        bad = np.flatnonzero(~self._good[places])
        shape = self._D.shape[1:]
        result = np.empty((len(times), len(places), *shape), dtype=complex)
        if good.size:
            here = places[good]
            powers = np.exp(self._values[here][None] * times[:, None, None])
            product = (self._vectors[here][None] * powers[:, :, None, :]) @ self._inverse[here][None]
            if not bad.size:
                return np.asarray(product)
            result[:, good] = product
        stacked = np.repeat(self._D[places[bad]][None], len(times), axis=0).reshape(-1, *shape)
        summed = exponentials(stacked, np.repeat(times, bad.size))
        result[:, bad] = summed.reshape(len(times), bad.size, *shape)
        return result


def expected_counts(D0: FloatArray, D1: FloatArray, times: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Give E[N(t)] and the integral of E[N(u)] over u in (0, t), from each phase at 0, for all times.

    Both are blocks of one exponential (Van Loan, "Computing integrals involving the matrix exponential", IEEE
    Transactions on Automatic Control 23, 1978), with time in units of t so that no block depends on the unit.
    """
    order = len(D0)
    rates = D1.sum(axis=1)
    block = np.zeros((len(times), order + 2, order + 2))
    block[:, :order, :order] = (D0 + D1) * times[:, None, None]
    block[:, :order, order] = rates / rates.max()
    block[:, order, order + 1] = 1.0
    result = np.asarray(exponentials(block, np.ones(len(times))), dtype=float)
    counts = rates.max() * times[:, None] * result[:, :order, order]
    return counts, rates.max() * times[:, None] ** 2 * result[:, :order, order + 1]
