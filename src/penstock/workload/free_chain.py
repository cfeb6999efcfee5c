# SPDX-License-Identifier: Apache-2.0
"""Chains in which each state emits one time, with every mean time and transition free: for times that alternate.

========  ==============================================================================================
Symbol    Meaning
========  ==============================================================================================
mu        mean time in each state
P         state after one arrival to state after the next
pi        stationary vector of P
r         phases of each state, in a row and equal; D0 has as many rows as all states together have phases
========  ==============================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.markov.queue_gradient import stationary_rows
from penstock.workload.least_squares import onto_constraints
from penstock.workload.targets import M2_TOLERANCE, M3_TOLERANCE, Targets

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]
Chains = Callable[[FloatArray], tuple[FloatArray, FloatArray]]

_DIFFERENCE = 1e-6
_PULL = 0.003
"""How strongly, per unit of a logarithm, free parameters are held where they started."""


@dataclass(frozen=True, eq=False)
class FreeChain:
    """A chain in which every mean time and transition is a parameter. Absent transitions stay absent.

    Parameters are log mu, then the log of each transition's odds against the likeliest of its row.
    """

    mask: BoolArray
    anchors: IntArray
    phases: IntArray

    @classmethod
    def like(cls, p: FloatArray, phases: IntArray) -> FreeChain:
        """Return the chain with the transitions of `p`."""
        return cls(p > 0, np.argmax(p, axis=1), phases)

    def _others(self) -> BoolArray:
        others = self.mask.copy()
        others[np.arange(len(others)), self.anchors] = False
        return others

    def parameters(self, mu: FloatArray, p: FloatArray) -> FloatArray:
        """Return the parameters of a chain of this kind."""
        others = self._others()
        odds = p / p[np.arange(len(p)), self.anchors][:, None]
        return np.concatenate([np.log(mu), np.log(np.maximum(odds[others], 1e-12))])

    def chains(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mu and P for each row of parameters. The mean is 1."""
        n = len(self.mask)
        odds = np.zeros((len(theta), n, n))
        odds[:, self._others()] = np.exp(theta[:, n:])
        odds[:, np.arange(n), self.anchors] = 1.0
        p = odds / odds.sum(axis=2, keepdims=True)
        return unit_mean(np.exp(theta[:, :n]), p), p

    def on_moments(self, theta: FloatArray, targets: Targets) -> FloatArray:
        """Return parameters with other mean times that match the targets' second and third moment."""
        n = len(self.mask)
        _, p = self.chains(theta)
        pi = stationary_rows(p - np.eye(n))
        second, third = moment_factors(self.phases)

        def constraints(logs: FloatArray) -> tuple[FloatArray, FloatArray]:
            mu = np.exp(logs)
            e1, e2, e3 = (pi * factor * mu**k for k, factor in ((1, 1.0), (2, second), (3, third)))
            s1, s2, s3 = (e.sum(axis=1) for e in (e1, e2, e3))
            values = np.stack([np.log(s2 / s1**2 / targets.m2), np.log(s3 / s1**3 / targets.m3)], axis=1)
            slopes = np.stack(
                [
                    2.0 * (e2 / s2[:, None] - e1 / s1[:, None]),
                    3.0 * (e3 / s3[:, None] - e1 / s1[:, None]),
                ],
                axis=1,
            )
            return values, slopes

        moved = theta.copy()
        moved[:, :n] = onto_constraints(theta[:, :n], constraints)
        return moved

    def bounds(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return bounds around a starting point."""
        return theta - 6.0, theta + 6.0


@dataclass(frozen=True, eq=False)
class Chain:
    """A chain as found: mean times, transitions, and phases of each state."""

    mu: FloatArray
    p: FloatArray
    phases: IntArray


def moment_factors(phases: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return E[X^2] / E[X]^2 and E[X^3] / E[X]^3 for sums of this many equal exponential times.

    Examples
    --------
    >>> [values.tolist() for values in moment_factors(np.array([1, 2]))]
    [[2.0, 1.5], [6.0, 3.0]]
    """
    second: FloatArray = 1.0 + 1.0 / phases
    return second, second * (1.0 + 2.0 / phases)


def parts_needed(m2: float, m3: float, slack: float = 0.03) -> int:
    """Return how many phases long times need for a third moment this small, with mean 1.

    Of states with r phases each, m3 / m2^2 is at least (r + 2) / (r + 1) (by Cauchy and Schwarz); `slack` of it may be
    missing: moments within a hundredth of the window's make up for it.

    Examples
    --------
    >>> parts_needed(5.0, 40.0), parts_needed(5.0, 35.0)
    (1, 2)
    """
    r = 1
    while (r + 2.0) / (r + 1.0) * (1.0 - slack) > m3 / m2**2 and r < 8:
        r += 1
    return r


def rates_of(mu: FloatArray, p: FloatArray, phases: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return D0 and D1 of a stack of chains."""
    if np.all(phases == 1):
        return -np.eye(mu.shape[1]) / mu[:, :, None], p / mu[:, :, None]
    last = np.cumsum(phases) - 1
    first = last - phases + 1
    owner = np.repeat(np.arange(phases.size), phases)
    rate = (phases / mu)[:, owner]
    order = owner.size
    d0 = -np.eye(order) * rate[:, :, None]
    inner = np.setdiff1d(np.arange(order), last)
    d0[:, inner, inner + 1] = rate[:, inner]
    d1 = np.zeros_like(d0)
    d1[:, last[:, None], first[None, :]] = p * rate[:, last, None]
    return d0, d1


def evaluate_chain(
    theta: FloatArray, chains: Chains, phases: IntArray, targets: Targets, pull: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the weighted residuals of one chain against the targets (without queues), and their derivatives.

    Parameters
    ----------
    theta
        One row.
    chains
        Returns mu and P for rows of parameters.
    phases
        The number of phases of each state.
    pull
        Where the parameters are held, softly. ``None``: nowhere.
    """
    size = theta.shape[1]
    shifted = theta + _DIFFERENCE * np.concatenate([np.zeros((1, size)), np.eye(size)])
    mu, p = chains(shifted)
    values = _descriptors(mu, p, phases, targets)
    slopes = (values[1:] - values[0]).T / _DIFFERENCE
    residuals = values[0]
    if pull is not None:
        residuals = np.concatenate([residuals, _PULL * (theta[0] - pull)])
        slopes = np.concatenate([slopes, _PULL * np.eye(size)])
    return residuals[None], np.where(np.isfinite(slopes), slopes, 0.0)[None]


def _descriptors(mu: FloatArray, p: FloatArray, phases: IntArray, targets: Targets) -> FloatArray:
    pi = stationary_rows(p - np.eye(mu.shape[1]))
    square = mu * mu
    second, third = moment_factors(phases)
    m2, m3 = (pi * square * second).sum(axis=1), (pi * square * mu * third).sum(axis=1)
    joint = _covariances(mu, p, pi, targets)
    scv = m2 - 1.0
    with np.errstate(invalid="ignore", divide="ignore"):
        idi = scv[:, None] + 2.0 * joint @ targets.idi_map.T
        return np.concatenate(
            [
                np.log(m2 / targets.m2)[:, None] / M2_TOLERANCE,
                np.log(m3 / targets.m3)[:, None] / M3_TOLERANCE,
                (joint / scv[:, None] - targets.acf) * targets.acf_weights,
                np.log(idi / targets.idi) * targets.idi_weights,
            ],
            axis=1,
        )


def _covariances(mu: FloatArray, p: FloatArray, pi: FloatArray, targets: Targets) -> FloatArray:
    """Return E[X_0 X_k] - 1 along the grid of lags, whose steps are powers of two."""
    off = mu - 1.0
    left = (pi * off)[:, None, :]
    column = off[:, :, None]
    result = np.empty((len(mu), targets.lags.size))
    power, size, reached = p, 1, 0
    for i, lag in enumerate(targets.lags.tolist()):
        while size < lag - reached:
            power, size = power @ power, 2 * size
        column = power @ column
        reached = lag
        result[:, i] = (left @ column)[:, 0, 0]
    return result


def unit_mean(mu: FloatArray, p: FloatArray) -> FloatArray:
    """Return the mean times scaled so that the mean over the stationary vector of P is 1."""
    pi = stationary_rows(p - np.eye(mu.shape[1]))
    unit: FloatArray = mu / (pi * mu).sum(axis=1, keepdims=True)
    return unit
