# SPDX-License-Identifier: Apache-2.0
"""The conditions that matrices and vectors must meet to describe a stochastic process, each with its own message.

Every tolerance is relative to the row it is applied to, so that rates per microsecond and rates per hour are
judged alike. What is broken by rounding alone is mended exactly: an entry that is negative by less than the
tolerance becomes zero, and a diagonal becomes minus the sum of the rest of its row (the algorithms in `ctmc`
rely on that).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.errors import InvalidProcessError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

TOLERANCE = 1e-9
"""How far, relative to the largest entry of its row, a row sum or a sign may be off by rounding."""


def as_vector(name: str, values: npt.ArrayLike) -> FloatArray:
    """Give a fresh one-dimensional array of finite numbers, or say which entry of `name` is not one."""
    return _finite(name, values, 1, "a non-empty vector of numbers")


def as_square(name: str, values: npt.ArrayLike) -> FloatArray:
    """Give a fresh square matrix of finite numbers, or say what about `name` is not."""
    matrix = _finite(name, values, 2, "a square matrix of numbers")
    if matrix.shape[0] != matrix.shape[1]:
        raise InvalidProcessError(f"{name} has shape {matrix.shape[0]} x {matrix.shape[1]}: it must be square")
    return matrix


def require_positive(name: str, value: float) -> float:
    """Give `value` as a float if it is positive and finite."""
    number = float(value)
    if not np.isfinite(number) or number <= 0:
        raise InvalidProcessError(f"{name} = {number:g} must be positive and finite")
    return number


def require_probability(name: str, value: float) -> float:
    """Give `value` as a float if it lies between 0 and 1."""
    number = float(value)
    if not 0.0 <= number <= 1.0:
        raise InvalidProcessError(f"{name} = {number:g} must be a probability between 0 and 1")
    return number


def distribution(name: str, values: npt.ArrayLike, tolerance: float = TOLERANCE) -> FloatArray:
    """Give a probability vector that sums to one exactly, or name the entry or the sum that is wrong."""
    vector = as_vector(name, values)
    _mend_negative(name, vector, np.max(np.abs(vector)), tolerance)
    total = float(vector.sum())
    if abs(total - 1.0) > tolerance * max(1, vector.size):
        raise InvalidProcessError(
            f"{name} sums to {total:.12g}: the probabilities must sum to 1 (relative tolerance {tolerance:g})"
        )
    return vector / total


def rates_off_diagonal(name: str, matrix: FloatArray, scale: FloatArray, tolerance: float = TOLERANCE) -> None:
    """Mend or refuse negative entries off the diagonal of `matrix`; `scale` is the size of each row."""
    off = matrix.copy()
    np.fill_diagonal(off, 0.0)
    _mend_negative(name, off, scale[:, None], tolerance, what="a rate between phases")
    diagonal = matrix.diagonal().copy()
    matrix[...] = off
    np.fill_diagonal(matrix, diagonal)


def rates_everywhere(name: str, matrix: FloatArray, scale: FloatArray, tolerance: float = TOLERANCE) -> None:
    """Mend or refuse negative entries anywhere in `matrix`; `scale` is the size of each row."""
    _mend_negative(name, matrix, scale[:, None], tolerance, what="a rate of arrivals")


def negative_diagonal(name: str, matrix: FloatArray) -> None:
    """Refuse a phase that is never left: each diagonal entry of `matrix` must be negative."""
    wrong = np.flatnonzero(matrix.diagonal() >= 0)
    if wrong.size:
        i = int(wrong[0])
        raise InvalidProcessError(
            f"{name}[{i}, {i}] = {matrix[i, i]:.12g} must be negative: minus the rate at which phase {i} is left"
        )


def zero_row_sums(what: str, sums: FloatArray, scale: FloatArray, tolerance: float = TOLERANCE) -> None:
    """Refuse a row of `what` whose sum differs from zero by more than rounding."""
    wrong = np.flatnonzero(np.abs(sums) > tolerance * scale)
    if wrong.size:
        i = int(wrong[0])
        raise InvalidProcessError(
            f"row {i} of {what} sums to {sums[i]:.6g}: it must sum to 0 "
            f"(relative tolerance {tolerance:g} of the row's largest rate {scale[i]:.6g})"
        )


def frozen(array: FloatArray) -> FloatArray:
    """Give the array, now read-only."""
    array.setflags(write=False)
    return array


def field(document: Any, name: str, what: str) -> Any:
    """Give one entry of a JSON object, or say that it is missing."""
    if not isinstance(document, Mapping):
        raise InvalidProcessError(f"{what} is an object, this is {type(document).__name__}")
    if name not in document:
        raise InvalidProcessError(f"{what} needs the entry {name!r}; found: {', '.join(map(str, document)) or 'none'}")
    return document[name]


def listed(states: Sequence[int] | IntArray, limit: int = 8) -> str:
    """Write the numbers of phases for a message, not more than `limit` of them."""
    shown = ", ".join(str(int(state)) for state in states[:limit])
    return f"[{shown}, ... {len(states)} in all]" if len(states) > limit else f"[{shown}]"


def _finite(name: str, values: npt.ArrayLike, dimensions: int, wanted: str) -> FloatArray:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidProcessError(f"{name} must be {wanted}: {error}") from error
    if array.ndim != dimensions or array.size == 0:
        raise InvalidProcessError(f"{name} must be {wanted}; this has {array.ndim} dimensions and {array.size} entries")
    wrong = np.argwhere(~np.isfinite(array))
    if len(wrong):
        index = tuple(int(i) for i in wrong[0])
        raise InvalidProcessError(f"{name}[{', '.join(map(str, index))}] = {array[index]} must be finite")
    return array


def _mend_negative(
    name: str, array: FloatArray, scale: FloatArray | float, tolerance: float, what: str = "a probability"
) -> None:
    wrong = np.argwhere(array < -tolerance * scale)
    if len(wrong):
        index = tuple(int(i) for i in wrong[0])
        raise InvalidProcessError(
            f"{name}[{', '.join(map(str, index))}] = {array[index]:.12g} must not be negative: it is {what}"
        )
    np.maximum(array, 0.0, out=array)
