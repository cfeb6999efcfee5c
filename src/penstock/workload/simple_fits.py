# SPDX-License-Identifier: Apache-2.0
"""Fits windows that need no search: Poisson, independent times, constant times, and short times following long ones.

Each fit is in closed form. The window's standard errors decide whether it is of such a kind. The queue decides whether
the fit is good, as for every other fit.
"""

from __future__ import annotations

import math

import numpy as np

from penstock.errors import InvalidProcessError
from penstock.markov import MAP, PH, fit_mean_scv, fit_three_moments, map2_feasible, nearest_map2
from penstock.workload.moments import TraceDescription

_STANDARD_ERRORS = 4.0
_MOST_EXCESS_CORRELATION = 1.3
"""How far the wanted correlation may exceed perfect alternation (1) for perfect alternation to be used."""


def is_correlated(trace: TraceDescription) -> bool:
    """Return whether the times depend on each other by more than chance."""
    if not trace.lags.size:
        return False
    z = trace.acf_at_lags / np.maximum(trace.acf_errors, 1e-3 / math.sqrt(trace.n))
    near = z[trace.lags <= 100]
    # Dispersion that grows with the number of intervals shows dependence too weak for any single lag. For k intervals
    # the window has n / k independent sums, whose variance is off by at least sqrt(2 k / n).
    doubt = np.maximum(trace.idi_errors, trace.idi * np.sqrt(3.0 * trace.idi_counts / trace.n))
    growth = (trace.idi - trace.scv) / np.sqrt(doubt**2 + trace.scv_error**2)
    return bool(
        np.any(np.abs(near[:4]) > _STANDARD_ERRORS)
        or np.mean(near**2) > 3.0
        or np.max(np.abs(growth), initial=0.0) > _STANDARD_ERRORS
    )


def is_exponential(trace: TraceDescription) -> bool:
    """Return whether the times look exponential, as those of a Poisson process do."""
    if trace.skewness is None or trace.skewness_error is None:
        return False
    floor = 3.0 / math.sqrt(trace.n)
    return (
        abs(trace.scv - 1.0) <= 3.0 * max(trace.scv_error, floor)
        and abs(trace.skewness - 2.0) <= 3.0 * max(trace.skewness_error, 3.0 * floor)
        and trace.zero_share < 0.01
    )


def is_negative(trace: TraceDescription) -> bool:
    """Return whether short times follow long ones, which makes long runs of times more regular."""
    if not trace.lags.size:
        return False
    first = float(trace.acf_at_lags[0] / max(trace.acf_errors[0], 1e-12))
    longer = trace.idi[(trace.idi_counts >= 8) & (trace.idi_counts <= 200)]
    return bool(first < -_STANDARD_ERRORS and np.all(longer < 1.05 * trace.scv))


def renewal_fits(trace: TraceDescription, max_states: int) -> list[tuple[str, MAP, tuple[str, ...]]]:
    """Return processes of independent times of mean 1 for the window, each with its name and what had to be moved."""
    c2, m2, m3 = trace.scv, trace.m2 / trace.mean**2, trace.m3 / trace.mean**3
    if trace.is_constant or c2 < 1.0 / max_states:
        least = 1.0 / max_states
        note = f"SCV {c2:.3g} is below the minimum of {max_states} states: {least:.3g} is used instead"
        return [("erlang", MAP.renewal(PH.erlang(max_states, mean=1.0)), (note,))]
    found = []
    try:
        three = fit_three_moments(1.0, m2, m3, max_phases=max(2, max_states))
    except InvalidProcessError as error:
        found_notes: tuple[str, ...] = (f"three moments could not be matched: {error}",)
    else:
        found.append((f"renewal, {three.family}", MAP.renewal(three.distribution), three.moved))
        found_notes = ()
    two = fit_mean_scv(1.0, c2, max_phases=max_states)
    found.append((f"renewal, two moments, {two.family}", MAP.renewal(two.distribution), (*two.moved, *found_notes)))
    return [(name, process, moved) for name, process, moved in found if process.order <= max_states]


def negative_fits(trace: TraceDescription, max_states: int) -> list[tuple[str, MAP, tuple[str, ...]]]:
    """Return processes of mean 1 in which long and short times alternate.

    First the MAP of two phases nearest to the moments and the first autocorrelation. If that falls short, alternating
    phases whose times are sums of k exponential times: the larger k, the stronger the correlation can be.
    """
    m2, m3 = trace.m2 / trace.mean**2, trace.m3 / trace.mean**3
    rho, c2 = float(trace.acf[0]), trace.scv
    found = []
    half = m2 / 2.0 - 1.0
    if c2 >= 0.5 and abs(half) > 1e-6:
        two = nearest_map2(1.0, m2, m3, rho * c2 / half)
        found.append(("two phases", two.process, two.moved))
        region = map2_feasible(1.0, m2)
        if region.m3_low <= m3 and two.moved:
            # The third moment limits gamma: its own bound gives the strongest correlation of two phases.
            wider = nearest_map2(1.0, m2, region.m3_low * 1.05, rho * c2 / half)
            found.append(("two phases, third moment given up", wider.process, wider.moved))
    for k in range(2, max_states // 2 + 1):
        process = _alternating(c2, m3, rho, k)
        if process is not None:
            found.append((f"alternating, {k} stages", process, ()))
            if len(found) >= 5:
                break
    return found


def _alternating(c2: float, m3: float, rho: float, k: int) -> MAP | None:
    """Return 2 k phases of mean 1 with this SCV and first autocorrelation, or a little short of it.

    The third moment is as close as possible. ``None`` if k stages are far from enough.
    """
    spread = (1.0 + c2) / (1.0 + 1.0 / k) - 1.0  # variance of the phases' mean times
    if spread <= 0:
        return None
    if rho * c2 / spread < -_MOST_EXCESS_CORRELATION:
        return None
    gamma = max(rho * c2 / spread, -1.0)
    third = (1.0 + 1.0 / k) * (1.0 + 2.0 / k)
    # Two mean times with variance v and skewness s lie at shares p, q with s = (q - p) / sqrt(p q); gamma needs
    # min(p, q) / max(p, q) >= -gamma.
    skew = (m3 / third - 1.0 - 3.0 * spread) / spread**1.5
    p = 0.5 * (1.0 - skew / math.sqrt(4.0 + skew * skew))
    least = max(-gamma / (1.0 - gamma), spread / (1.0 + spread) + 1e-9) if skew < 0 else -gamma / (1.0 - gamma)
    least = min(least, 0.5)
    p = min(max(p, least), 1.0 - least)
    q = 1.0 - p
    low, high = 1.0 - math.sqrt(spread * p / q), 1.0 + math.sqrt(spread * q / p)
    if low <= 0:
        return None
    chain = gamma * np.eye(2) + (1.0 - gamma) * np.array([[q, p], [q, p]])
    chain = np.maximum(chain, 0.0)
    chain /= chain.sum(axis=1, keepdims=True)
    means = np.array([low, high])
    hidden = k * (np.diag(np.ones(k - 1), 1) - np.eye(k))
    leave = np.zeros((k, k))
    leave[-1, 0] = k
    return MAP(np.kron(np.diag(1.0 / means), hidden), np.kron(chain / means[:, None], leave))
