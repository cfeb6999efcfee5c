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
eigendecomposition of D(z), which `spectra` keeps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.markov.conditions import FloatArray, IntArray
from penstock.performance.queueing.micro_batch.spectra import ComplexArray, Spectra, exponentials

_EDGE = 1e-8
"""What is left of the transform at the highest frequency used: small enough that the density does not ring."""

_NESTED_EDGE = 1e-8
"""The same where a window is cut off: what rings there would be taken for records."""

_FADE = 11.5
"""Counts beyond a nested window are taken in with e^(-11.5) = 1e-5."""

_CLOSE = 16.0
"""Steps within which the fewest records expected must not lie from the window's start, else windows are nested."""


@dataclass(frozen=True, eq=False)
class Counts:
    """The counts of several times: `mass[k, s, i, j]` of count `at[k, s]` (N > 0), `none[k]` of no arrival.

    `expected[k, i]` and `area[k, i]`: E[N(t)] and the integral of E[N(u)] over (0, t), from phase i at 0.
    """

    at: FloatArray
    mass: FloatArray
    none: FloatArray
    exact: npt.NDArray[np.bool_]
    moved: FloatArray
    expected: FloatArray
    area: FloatArray


def windows(spectra: Spectra, times: FloatArray, outside: float) -> tuple[FloatArray, FloatArray]:
    """Give, for each time, counts that N(t) stays between but for a probability `outside` on each side."""
    logarithm = -np.log(outside)
    busiest = float(spectra.rates.max())
    s, chi, spread = spectra.growth(0.1 * np.sqrt(2 * logarithm / (busiest * float(times.max()) + 1.0)))
    bounds = (chi[:, None] * times + (spread + logarithm)[:, None]) / s[:, None]
    low, high = bounds[s < 0].max(axis=0), bounds[s > 0].min(axis=0)
    return np.floor(np.maximum(low, 0.0)), np.ceil(high) + 1.0


def count_matrices(spectra: Spectra, times: FloatArray, frequencies: int, outside: float) -> Counts:
    """Give the distribution of N(t) with the phases, for all `times`, on `frequencies` samples a window."""
    K, M = len(times), frequencies
    low, high = windows(spectra, times, outside)
    expected, area = expected_counts(spectra, times)
    level, several = _levels(low, high, expected, M)
    none = _exponentials_of(spectra.D0, times)
    parts = {}
    if not several.all():
        one = ~several
        parts[False] = _one_window(spectra, times[one], M, low=low[one], level=level[one], none=none[one])
    if several.any():
        parts[True] = _nested_windows(spectra, times[several], M, high=high[several], none=none[several])
    if len(parts) == 1:
        ((at, mass),) = parts.values()
    else:
        samples = max(part[0].shape[1] for part in parts.values())
        at, mass = np.ones((K, samples)), np.zeros((K, samples, *none.shape[1:]))
        for which, part in parts.items():
            chosen, count = np.flatnonzero(several == which), part[0].shape[1]
            at[chosen, :count], mass[chosen, :count] = part
    at = np.where(level[:, None] > 0, np.maximum(at, 1.0), at)
    moved = _correct(at, mass, _exponentials_of(spectra.Q, times) - none, expected, level > 0)
    return Counts(at, mass, none, level == 0, moved, expected, area)


def _correct(
    at: FloatArray, mass: FloatArray, some: FloatArray, expected: FloatArray, coarse: npt.NDArray[np.bool_]
) -> FloatArray:
    """Make masses add up to what is known exactly, and say by what share of the mean count that moved them.

    The phase that follows: masses from i to j are multiplied by one factor. The mean count from every phase, where it
    was sampled coarsely: a mass at n from i to j is multiplied by 1 + b_i (n - mean_ij), which leaves the phases.
    """
    K, M, m, _ = mass.shape
    # Powers of counts in units of the largest.
    unit = at.max(axis=1)
    n = at / unit[:, None]
    powers = np.stack([np.ones_like(n), n, n**2], axis=1)
    found, first, second = np.moveaxis(np.matmul(powers, mass.reshape(K, M, m * m)).reshape(K, 3, m, m), 1, 0)
    near = (found > 1e-9) & (np.abs(some - found) < 0.5 * found)
    factor = np.where(near, some / np.where(near, found, 1.0), 1.0)
    found, first, second = found * factor, first * factor, second * factor
    usable = (found > 1e-12) & coarse[:, None, None]
    mean = np.where(usable, first / np.where(usable, found, 1.0), 0.0)
    spread = np.where(usable, np.maximum(second - mean * first, 0.0), 0.0).sum(axis=2)
    lacking = expected / unit[:, None] - first.sum(axis=2)
    tilt = np.where(spread > 0, lacking / np.where(spread > 0, spread, 1.0), 0.0)[:, :, None] * usable * factor
    level = factor - tilt * mean
    for k in range(K):  # one time's masses fit a cache
        mass[k] *= n[k, :, None, None] * tilt[k] + level[k] if coarse[k] else factor[k]
    return np.where(coarse, np.abs(lacking * unit[:, None] / expected).max(axis=1), 0.0)


def is_uneven(spectra: Spectra, time: float, frequencies: int, outside: float) -> bool:
    """Whether counts of that time are few mostly and very many at times, so that windows are nested."""
    times = np.array([time])
    return bool(_levels(*windows(spectra, times, outside), expected_counts(spectra, times)[0], frequencies)[1][0])


def _levels(low: FloatArray, high: FloatArray, expected: FloatArray, M: int) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """Give how often a window's step is doubled, and whether windows must be nested."""
    level = np.maximum(0, np.ceil(np.log2((high - low) / M))).astype(int)
    return level, (level > 0) & (expected.min(axis=1) - low < _CLOSE * 2.0**level)


def _one_window(
    spectra: Spectra, times: FloatArray, M: int, *, low: FloatArray, level: IntArray, none: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Invert over one window for each time, sampled at steps of 2^level: counts and masses."""
    half = M // 2 + 1
    mass = np.empty((len(times), M, *none.shape[1:]))
    for each in np.unique(level).tolist():
        chosen = np.flatnonzero(level == each)
        theta = 2 * np.pi * np.arange(half) / (M * 2.0**each)
        transform = spectra.on_circle(half, M << each, times[chosen])
        transform -= none[chosen]
        if each > 0:
            transform *= _damping(transform[-1], theta, _EDGE)[:, :, None, None]
        # numpy's forward transform has e^(-i...): the density is the inverse of the conjugate.
        factor = np.exp(1j * theta[:, None] * low[chosen])
        np.conjugate(transform, out=transform)
        transform *= factor[:, :, None, None]
        mass[chosen] = np.fft.irfft(transform, n=M, axis=0).swapaxes(0, 1)
    return low[:, None] + 2.0 ** level[:, None] * np.arange(M), mass


def _nested_windows(
    spectra: Spectra, times: FloatArray, M: int, *, high: FloatArray, none: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Invert over windows of M, 4 M, 16 M ... counts, all from 0, each used where the one before ends.

    For processes that bring few records mostly and very many at times. A window shorter than the counts is kept free
    of those beyond it by a circle |z| = r < 1, which takes them in only with r^(window) (Abate and Whitt, "Numerical
    inversion of probability generating functions", Operations Research Letters 12, 1992).
    """
    half = M // 2 + 1
    levels = int(np.ceil(np.log2(float(high.max()) / (0.85 * M)) / 2)) + 1
    counts = np.arange(float(M))
    shares = [_window_share(4.0**each * counts, 4.0**each, M, is_last=each == levels - 1) for each in range(levels)]
    used = [np.flatnonzero(share) for share in shares]
    edges = np.cumsum([0, *(places.size for places in used)])
    at = np.empty(edges[-1])
    whole = np.empty((len(times), edges[-1], *none.shape[1:]))
    for each, (share, places) in enumerate(zip(shares, used, strict=True)):
        step, part = 4.0**each, slice(edges[each], edges[each + 1])
        theta = np.asarray(2 * np.pi * np.arange(half) / (M * step), dtype=float)
        fade = 0.0 if each == levels - 1 else _FADE / (M * step)
        transform = spectra.inside(half, M * step, fade, times)
        transform -= none
        np.conjugate(transform, out=transform)
        if each > 0:
            transform *= _damping(transform[-1], theta, _NESTED_EDGE)[:, :, None, None]
        at[part] = step * places
        factor = (share * np.exp(fade * step * counts))[places]
        mass = np.fft.irfft(transform, n=M, axis=0)
        np.multiply(mass[places].swapaxes(0, 1), factor[:, None, None], out=whole[:, part])
    return np.broadcast_to(at, (len(times), len(at))), whole


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


def _damping(edge: ComplexArray, theta: FloatArray, left: float) -> FloatArray:
    """Give factors `[frequency, time]` that leave no more than `left` of the transform at the highest frequency.

    They fall as e^(-a theta^4), so that moments up to the third stay as they are.
    """
    size = np.abs(edge).sum(axis=-1).max(axis=-1)
    return np.asarray(np.exp(-np.log(np.maximum(size / left, 1.0)) * (theta[:, None] / theta[-1]) ** 4))


def _exponentials_of(matrix: FloatArray, times: FloatArray) -> FloatArray:
    return np.asarray(exponentials(np.broadcast_to(matrix, (len(times), *matrix.shape)), times), dtype=float)


def expected_counts(spectra: Spectra, times: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Give E[N(t)] and the integral of E[N(u)] over u in (0, t), from each phase at 0, for all times.

    Both are blocks of one exponential (Van Loan, "Computing integrals involving the matrix exponential", IEEE
    Transactions on Automatic Control 23, 1978), with time in units of t so that no block depends on the unit.
    """
    order = len(spectra.D0)
    rates = spectra.rates
    block = np.zeros((len(times), order + 2, order + 2))
    block[:, :order, :order] = spectra.Q * times[:, None, None]
    block[:, :order, order] = rates / rates.max()
    block[:, order, order + 1] = 1.0
    result = np.asarray(exponentials(block, np.ones(len(times))), dtype=float)
    counts = rates.max() * times[:, None] * result[:, :order, order]
    return counts, rates.max() * times[:, None] ** 2 * result[:, :order, order + 1]
