# SPDX-License-Identifier: Apache-2.0
"""Kronecker product composition (KPC): a large MAP whose moments are products of those of small ones.

=========  ==============================================================================================
Symbol     Meaning
=========  ==============================================================================================
J          number of components
D0         (-1)^(J-1) D0(1) x ... x D0(J), x being the Kronecker product
D1         D1(1) x ... x D1(J)
m_k        moments: m_k = m_k(1) ... m_k(J) / (k!)^(J-1)
c2         squared coefficient of variation: 1 + c2 = 2 (1 + c2(1))/2 ... (1 + c2(J))/2
rho_k      autocorrelation: 1 + c2 rho_k = (1 + c2(1) rho_k(1)) ... (1 + c2(J) rho_k(J))
=========  ==============================================================================================

Casale, Zhang and Smirni, "KPC-Toolbox: best recipes for automatic trace fitting using MAPs", Performance
Evaluation 67, 2010, Sec. 4: M, P and pi of the composed process are the Kronecker products of those of its
components, so every joint moment is the product of theirs over the factorials counted J - 1 times too often.

The sign makes D0 a subgenerator only when every component but one has a diagonal D0: two components with hidden
transitions would multiply into negative rates off the diagonal. `compose` enforces that, naming the components.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from penstock.errors import InvalidProcessError
from penstock.markov.arrival_process import MAP
from penstock.markov.conditions import FloatArray


def compose(*components: MAP) -> MAP:
    """Give the Kronecker composition of `components`, at most one of which may have hidden transitions.

    Raises
    ------
    InvalidProcessError
        If two or more components have a D0 that is not diagonal, or the result would be reducible.

    Examples
    --------
    >>> composed = compose(MAP.poisson(2), MAP.poisson(3))
    >>> composed.rate
    6.0
    """
    _require_components(components)
    hidden = [i for i, part in enumerate(components) if has_hidden_transitions(part)]
    if len(hidden) > 1:
        raise InvalidProcessError(
            f"the components {hidden} have transitions without arrivals (D0 not diagonal): at most one may, "
            "for otherwise the composed D0 has negative rates"
        )
    sign = (-1.0) ** (len(components) - 1)
    return MAP(sign * _product([part.D0 for part in components]), _product([part.D1 for part in components]))


def has_hidden_transitions(process: MAP) -> bool:
    """Say whether D0 is not diagonal."""
    return bool(np.count_nonzero(process.D0 - np.diag(process.D0.diagonal())))


def composed_moments(components: Sequence[MAP], count: int) -> FloatArray:
    """Give the first `count` moments of the composition from those of its components.

    Examples
    --------
    >>> composed_moments([MAP.poisson(1), MAP.poisson(2)], 3).tolist()
    [0.5, 0.5, 0.75]
    """
    _require_components(components)
    return combine_moments([part.moments(count) for part in components])


def composed_scv(components: Sequence[MAP]) -> float:
    """Give the squared coefficient of variation of the composition from those of its components."""
    _require_components(components)
    return combine_scv([part.scv for part in components])


def composed_autocorrelation(components: Sequence[MAP], at: npt.ArrayLike) -> FloatArray:
    """Give rho_k of the composition at each lag of `at` from its components; 1 at lag 0."""
    _require_components(components)
    lags = np.asarray(at)
    values = combine_autocorrelation(
        [part.scv for part in components], [part.autocorrelation(lags.ravel()) for part in components]
    )
    return np.where(lags == 0, 1.0, values.reshape(lags.shape))


def composed_joint_moment(components: Sequence[MAP], powers: Sequence[int], gaps: Sequence[int]) -> float:
    """Give E[X_0^a X_i^b ...] of the composition (see `MAP.joint_moment`) from its components."""
    _require_components(components)
    product = math.prod(part.joint_moment(powers, gaps) for part in components)
    factorials = math.prod(math.factorial(power) for power in powers)
    return product / float(factorials) ** (len(components) - 1)


def composed_bicovariance(
    components: Sequence[MAP], i: npt.ArrayLike, j: npt.ArrayLike, *, centred: bool = True
) -> FloatArray:
    """Give the bicovariance of the composition (see `MAP.bicovariance`) from its components."""
    _require_components(components)
    gap_i, gap_j = np.broadcast_arrays(np.asarray(i), np.asarray(j))
    raw = np.prod([part.bicovariance(gap_i, gap_j, centred=False) for part in components], axis=0)
    if not centred:
        return np.asarray(raw, dtype=np.float64)
    # E[abc] - m (E[ab] + E[bc] + E[ac]) + 2 m^3, the pair moments being m^2 (1 + c2 rho).
    m, c2 = float(composed_moments(components, 1)[0]), composed_scv(components)
    pairs = sum(1.0 + c2 * composed_autocorrelation(components, gap) for gap in (gap_i, gap_j, gap_i + gap_j))
    return np.asarray(raw - m**3 * (pairs - 2.0), dtype=np.float64)


def combine_moments(moments: Sequence[npt.ArrayLike]) -> FloatArray:
    """Give the moments m_1, m_2, ... of a composition; one row of moments per component."""
    rows = np.asarray(moments, dtype=np.float64)
    factorials = np.array([math.factorial(k + 1) for k in range(rows.shape[1])], dtype=np.float64)
    scaled: FloatArray = np.prod(rows / factorials, axis=0) * factorials
    return scaled


def combine_scv(scv: npt.ArrayLike) -> float:
    """Give the SCV of a composition from the SCVs of its components.

    Examples
    --------
    >>> combine_scv([1.0, 3.0])
    3.0
    """
    return float(2.0 * np.prod((1.0 + np.asarray(scv, dtype=np.float64)) / 2.0) - 1.0)


def combine_autocorrelation(scv: npt.ArrayLike, autocorrelation: Sequence[npt.ArrayLike]) -> FloatArray:
    """Give rho_k of a composition for lags of at least 1; one SCV and one row of rho_k per component.

    Examples
    --------
    >>> combine_autocorrelation([3.0, 1.0], [[0.2, 0.1], [0.0, 0.0]]).round(12).tolist()
    [0.2, 0.1]
    """
    c2 = np.asarray(scv, dtype=np.float64)
    rho = np.asarray(autocorrelation, dtype=np.float64)
    # expm1 and log1p keep the product's distance from one when all autocorrelations are small.
    terms = c2[:, None] * rho
    close = bool(np.all(terms > -0.5))
    product = np.expm1(np.log1p(terms).sum(axis=0)) if close else np.prod(1.0 + terms, axis=0) - 1.0
    values: FloatArray = product / combine_scv(c2)
    return values


def _product(matrices: Sequence[FloatArray]) -> FloatArray:
    result: FloatArray = np.ones((1, 1))
    for matrix in matrices:
        result = np.asarray(np.kron(result, matrix), dtype=np.float64)
    return result


def _require_components(components: Sequence[MAP]) -> None:
    if not components:
        raise InvalidProcessError("composition needs at least one component")
