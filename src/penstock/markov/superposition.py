# SPDX-License-Identifier: Apache-2.0
"""Several independent arrival processes seen as one stream."""

from __future__ import annotations

from functools import reduce

import numpy as np

from penstock.errors import InvalidProcessError
from penstock.markov.arrival_process import MAP
from penstock.markov.conditions import FloatArray


def superpose(*processes: MAP) -> MAP:
    """Give the process of all arrivals of independent `processes`; its order is the product of theirs.

    D0 and D1 are Kronecker sums (Neuts, "A versatile Markovian point process", 1979).

    Examples
    --------
    >>> superpose(MAP.poisson(2), MAP.poisson(3)).to_json()
    {'D0': [[-5.0]], 'D1': [[5.0]]}
    """
    if not processes:
        raise InvalidProcessError("superposition needs at least one process")
    return reduce(_pair, processes)


def _pair(one: MAP, other: MAP) -> MAP:
    return MAP(_kronecker_sum(one.D0, other.D0), _kronecker_sum(one.D1, other.D1))


def _kronecker_sum(A: FloatArray, B: FloatArray) -> FloatArray:
    total: FloatArray = np.kron(A, np.eye(len(B))) + np.kron(np.eye(len(A)), B)
    return total
