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
eigendecomposition of D(z), which `micro_batch_spectra` keeps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.markov.conditions import FloatArray, IntArray
from penstock.performance.queueing.micro_batch_spectra import ComplexArray, Spectra, exponentials

_EDGE = 0.03
"""What is left of the transform at the highest frequency used: small enough that the density does not ring."""

_NESTED_EDGE = 1e-8
"""The same where a window is cut off: what rings there would be taken for records."""

_FADE = 11.5
"""Counts beyond a nested window are taken in with e^(-11.5) = 1e-5."""

_CLOSE = 8.0
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
    added_variance: FloatArray
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
    level = np.maximum(0, np.ceil(np.log2((high - low) / M))).astype(int)
    expected, area = expected_counts(spectra, times)
    several = (level > 0) & (expected.min(axis=1) - low < _CLOSE * 2.0**level)
    none = _exponentials_of(spectra.D0, times)
    parts = {}
    if not several.all():
        one = ~several
        parts[False] = _one_window(spectra, times[one], M, low=low[one], level=level[one], none=none[one])
    if several.any():
        parts[True] = _nested_windows(spectra, times[several], M, high=high[several], none=none[several])
    if len(parts) == 1:
        ((at, mass, added),) = parts.values()
    else:
        samples = max(part[0].shape[1] for part in parts.values())
        at, mass, added = np.ones((K, samples)), np.zeros((K, samples, *none.shape[1:])), np.zeros(K)
        for which, part in parts.items():
            chosen, count = np.flatnonzero(several == which), part[0].shape[1]
            at[chosen, :count], mass[chosen, :count], added[chosen] = part
    # What phase follows is known exactly: the counts are made to add up to it.
    some = _exponentials_of(spectra.Q, times) - none
    found = mass.sum(axis=1)
    near = (found > 1e-9) & (np.abs(some - found) < 0.5 * found)
    mass *= np.where(near, some / np.where(near, found, 1.0), 1.0)[:, None]
    return Counts(at, mass, none, level == 0, added, expected, area)


def _one_window(
    spectra: Spectra, times: FloatArray, M: int, *, low: FloatArray, level: IntArray, none: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Invert over one window for each time, sampled at steps of 2^level: counts, masses, variance added."""
    half = M // 2 + 1
    mass = np.empty((len(times), M, *none.shape[1:]))
    added = np.zeros(len(times))
    for each in np.unique(level).tolist():
        chosen = np.flatnonzero(level == each)
        theta = 2 * np.pi * np.arange(half) / (M * 2.0**each)
        transform = spectra.on_circle(half, M << each, times[chosen])
        transform -= none[chosen]
        if each > 0:
            added[chosen] = _damping(transform[-1], theta[-1], _EDGE)
        # numpy's forward transform has e^(-i...): the density is the inverse of the conjugate.
        factor = np.exp(1j * theta[:, None] * low[chosen] - added[chosen] * theta[:, None] ** 2 / 2)
        np.conjugate(transform, out=transform)
        transform *= factor[:, :, None, None]
        mass[chosen] = np.fft.irfft(transform, n=M, axis=0).swapaxes(0, 1)
    return low[:, None] + 2.0 ** level[:, None] * np.arange(M), mass, added


def _nested_windows(
    spectra: Spectra, times: FloatArray, M: int, *, high: FloatArray, none: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Invert over windows of M, 4 M, 16 M ... counts, all from 0, each used where the one before ends.

    For processes that bring few records mostly and very many at times. A window shorter than the counts is kept free
    of those beyond it by a circle |z| = r < 1, which takes them in only with r^(window) (Abate and Whitt, "Numerical
    inversion of probability generating functions", Operations Research Letters 12, 1992).
    """
    half = M // 2 + 1
    levels = int(np.ceil(np.log2(float(high.max()) / (0.85 * M)) / 2)) + 1
    ats, masses, shares = [], [], []
    added = np.zeros((levels, len(times)))
    counts = np.arange(float(M))
    for each in range(levels):
        step = 4.0**each
        theta = 2 * np.pi * np.arange(half) / (M * step)
        fade = 0.0 if each == levels - 1 else _FADE / (M * step)
        transform = np.conj(spectra.inside(half, M * step, fade, times) - none)
        if each > 0:
            added[each] = _damping(transform[-1], theta[-1], _NESTED_EDGE)
            transform *= np.exp(-added[each] * theta[:, None] ** 2 / 2)[:, :, None, None]
        share = _window_share(step * counts, step, M, is_last=each == levels - 1)
        used = np.flatnonzero(share)
        mass = np.fft.irfft(transform, n=M, axis=0)[used]
        mass *= (share * np.exp(fade * step * counts))[used, None, None, None]
        ats.append(step * used)
        masses.append(mass)
        shares.append(step)
    at = np.concatenate(ats)
    # A Gaussian of variance v takes a share w(n) to w + v w'' / 2: what the shares then add up to is divided out.
    total = np.ones((len(at), len(times)))
    for each, step in enumerate(shares):
        width = step / 4
        around = [_window_share(at + shift, step, M, is_last=each == levels - 1) for shift in (-width, 0.0, width)]
        total += np.multiply.outer(around[0] - 2 * around[1] + around[2], added[each] / 2) / width**2
    whole = np.concatenate(masses)
    whole /= total[:, :, None, None]
    return np.broadcast_to(at, (len(times), len(at))), whole.swapaxes(0, 1), added[-1]


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


def _damping(edge: ComplexArray, highest: float, left: float) -> FloatArray:
    """Give the variance of a Gaussian that leaves no more than `left` of the transform at the highest frequency."""
    size = np.abs(edge).sum(axis=-1).max(axis=-1)
    return np.asarray(2 * np.log(np.maximum(size / left, 1.0)) / highest**2)


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
