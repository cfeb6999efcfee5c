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

_NESTED_EDGE = 1e-8
"""The same where a window is cut off: what rings there would be taken for records."""

_FADE = 11.5
"""Counts beyond a nested window are taken in with e^(-11.5) = 1e-5."""

_CLOSE = 8.0
"""Steps within which the fewest records expected must not lie from the window's start, else windows are nested."""

_NORM = 0.35
"""Largest norm the series of the exponential is used for; its 9th-order remainder is then below 1e-9."""

_WORST_CONDITION = 1e5
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
    """Give the distribution of N(t) with the phases, for all `times`, on `frequencies` samples a window."""
    K, M = len(times), frequencies
    low, high = windows(D0, D1, times, outside)
    level = np.maximum(0, np.ceil(np.log2((high - low) / M))).astype(int)
    least = expected_counts(D0, D1, times)[0].min(axis=1)
    several = (level > 0) & (least - low < _CLOSE * 2.0**level)
    parts = {}
    if not several.all():
        parts[False] = _one_window(D0, D1, times[~several], M, low=low[~several], level=level[~several])
    if several.any():
        parts[True] = _nested_windows(D0, D1, times[several], M, high[several])
    samples = max(part.at.shape[1] for part in parts.values())
    whole = Counts(
        np.ones((K, samples)), np.zeros((K, samples, *D0.shape)), np.empty((K, *D0.shape)), level == 0, np.zeros(K)
    )
    for which, part in parts.items():
        chosen, count = np.flatnonzero(several == which), part.at.shape[1]
        whole.at[chosen, :count], whole.mass[chosen, :count] = part.at, part.mass
        whole.none[chosen], whole.added_variance[chosen] = part.none, part.added_variance
    # What phase follows is known exactly: the counts are made to add up to it.
    some = np.asarray(exponentials(np.broadcast_to(D0 + D1, whole.none.shape), times), dtype=float) - whole.none
    found = whole.mass.sum(axis=1)
    near = (found > 1e-9) & (np.abs(some - found) < 0.5 * found)
    whole.mass[...] *= np.where(near, some / np.where(near, found, 1.0), 1.0)[:, None]
    return whole


def _one_window(
    D0: FloatArray, D1: FloatArray, times: FloatArray, M: int, *, low: FloatArray, level: IntArray
) -> Counts:
    """Invert over one window for each time, sampled at steps of 2^level."""
    half = M // 2 + 1
    none = _no_arrival(D0, times)
    mass = np.empty((len(times), M, *D0.shape))
    added = np.zeros(len(times))
    # In units of the finest spacing every frequency is a whole number: levels share those they have in common.
    deepest = int(level.max())
    wanted = {each: np.arange(half) << (deepest - each) for each in np.unique(level).tolist()}
    distinct = np.unique(np.concatenate(list(wanted.values())))
    spectrum = _Spectrum(D0, D1, np.exp(2j * np.pi * distinct / (M * 2.0**deepest)))
    for each, places in wanted.items():
        chosen = np.flatnonzero(level == each)
        theta = 2 * np.pi * np.arange(half) / (M * 2.0**each)
        transform = spectrum.transforms(np.searchsorted(distinct, places), times[chosen]) - none[chosen, None]
        if each > 0:
            added[chosen] = _damping(transform[:, -1], theta[-1], _EDGE)
        # numpy's forward transform has e^(-i...): the density is the inverse of the conjugate.
        factor = np.exp(1j * theta * low[chosen, None] - added[chosen, None] * theta**2 / 2)
        np.conjugate(transform, out=transform)
        transform *= factor[:, :, None, None]
        mass[chosen] = np.fft.irfft(transform, n=M, axis=1)
    at = low[:, None] + 2.0 ** level[:, None] * np.arange(M)
    return Counts(at, mass, none, level == 0, added)


def _nested_windows(D0: FloatArray, D1: FloatArray, times: FloatArray, M: int, high: FloatArray) -> Counts:
    """Invert over windows of M, 4 M, 16 M ... counts, all from 0, each used where the one before ends.

    For processes that bring few records mostly and very many at times. A window shorter than the counts is kept free
    of those beyond it by a circle |z| = r < 1, which takes them in only with r^(window) (Abate and Whitt, "Numerical
    inversion of probability generating functions", Operations Research Letters 12, 1992).
    """
    half = M // 2 + 1
    levels = int(np.ceil(np.log2(float(high.max()) / (0.85 * M)) / 2)) + 1
    none = _no_arrival(D0, times)
    ats, masses, shares = [], [], []
    added = np.zeros((levels, len(times)))
    counts = np.arange(float(M))
    for each in range(levels):
        step = 4.0**each
        theta = 2 * np.pi * np.arange(half) / (M * step)
        fade = 0.0 if each == levels - 1 else _FADE / (M * step)
        spectrum = _Spectrum(D0, D1, np.exp(1j * theta - fade))
        transform = np.conj(spectrum.transforms(np.arange(half), times) - none[:, None])
        if each > 0:
            added[each] = _damping(transform[:, -1], theta[-1], _NESTED_EDGE)
            transform *= np.exp(-added[each][:, None] * theta**2 / 2)[:, :, None, None]
        mass = np.fft.irfft(transform, n=M, axis=1) * np.exp(fade * step * counts)[:, None, None]
        share = _window_share(step * counts, step, M, is_last=each == levels - 1)
        used = np.flatnonzero(share)
        ats.append(step * used)
        masses.append((mass * share[:, None, None])[:, used])
        shares.append(step)
    at = np.concatenate(ats)
    # A Gaussian of variance v takes a share w(n) to w + v w'' / 2: what the shares then add up to is divided out.
    total = np.ones((len(times), len(at)))
    for each, step in enumerate(shares):
        width = step / 4
        around = [_window_share(at + shift, step, M, is_last=each == levels - 1) for shift in (-width, 0.0, width)]
        total += added[each][:, None] / 2 * (around[0] - 2 * around[1] + around[2]) / width**2
    whole = np.concatenate(masses, axis=1) / total[:, :, None, None]
    at = np.broadcast_to(at, (len(times), len(at)))
    return Counts(at, whole, none, np.zeros(len(times), dtype=bool), added[-1])


def _window_share(n: FloatArray, step: float, M: int, *, is_last: bool) -> FloatArray:
    """Give how much of the counts n a nested window of M steps stands for.

    From a half to three quarters of a window the next one takes over, smoothly. What the Gaussian spreads below 0
    comes back at the window's end, which is left unused.
    """
    place = n / step
    share = (place < 7 * M // 8).astype(float)
    if not is_last:
        share *= 1.0 - _rise((place - M / 2) / (M / 4))
    if step > 1:
        share *= _rise((place - M / 8) / (M / 16))
    return np.asarray(share)


def _rise(x: FloatArray) -> FloatArray:
    """Go from 0 to 1 over (0, 1), with three smooth derivatives."""
    y = np.clip(x, 0.0, 1.0)
    return np.asarray(y**4 * (35 - 84 * y + 70 * y**2 - 20 * y**3))


def _damping(edge: npt.NDArray[np.complex128], highest: float, left: float) -> FloatArray:
    """Give the variance of a Gaussian that leaves no more than `left` of the transform at the highest frequency."""
    size = np.abs(edge).sum(axis=-1).max(axis=-1)
    return np.asarray(2 * np.log(np.maximum(size / left, 1.0)) / highest**2)


def _no_arrival(D0: FloatArray, times: FloatArray) -> FloatArray:
    return np.asarray(exponentials(np.broadcast_to(D0, (len(times), *D0.shape)), times), dtype=float)


class _Spectrum:
    """exp(D(z) t) at some z: by eigenvectors where they are well conditioned, else by series."""

    def __init__(self, D0: FloatArray, D1: FloatArray, z: npt.NDArray[np.complex128]) -> None:
        self._D = D0 + z[:, None, None] * D1
        self._values, self._vectors = np.linalg.eig(self._D)
        try:
            self._inverse = np.linalg.inv(self._vectors)
        except np.linalg.LinAlgError:
            # One of them has no inverse at all: all are summed, which is slower and always right.
            self._good = np.zeros(len(z), dtype=bool)
            return
        size = np.linalg.norm(self._vectors, axis=(1, 2)) * np.linalg.norm(self._inverse, axis=(1, 2))
        self._good = size < _WORST_CONDITION

    @property
    def is_good(self) -> bool:
        """Whether most exponentials come from eigenvectors."""
        return bool(np.mean(self._good) > 0.5)

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
        summed: dict[float, npt.NDArray[np.inexact]] = {}
        for time in np.sort(times).tolist():
            # Twice a time that is there already costs one product.
            known = summed.get(time / 2)
            if known is None:
                summed[time] = exponentials(self._D[places[bad]], np.full(bad.size, time))
            else:
                summed[time] = known @ known
        for k, time in enumerate(times.tolist()):
            result[k, bad] = summed[time]
        return result


def is_defective(D0: FloatArray, D1: FloatArray) -> bool:
    """Whether eigenvectors of D(z) are of little use, so that exponentials must be summed."""
    # Angles that no process has a reason to be special at.
    return not _Spectrum(D0, D1, np.exp(1j * np.geomspace(0.003, 3.0, 7))).is_good


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
