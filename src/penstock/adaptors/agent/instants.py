# SPDX-License-Identifier: Apache-2.0
"""Many instants as few bytes: the first one, and the gaps between them as whole microseconds."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.adaptors.agent.wire import MOST_COUNTED, MOST_INSTANTS, Instants, MalformedMessageError
from penstock.ports import FloatArray

_UNIT_SECONDS = 1e-6
_WIDTHS: dict[int, np.dtype[np.unsignedinteger[Any]]] = {2: np.dtype("<u2"), 4: np.dtype("<u4")}


def packed(times: FloatArray, *, is_exact: bool, most: int = MOST_INSTANTS) -> Instants | None:
    """Instants as they are sent; of more than `most` a sample, evenly by their places, which is not exact any more.

    None: there are more than may be counted.
    """
    count = len(times)
    if count > MOST_COUNTED:
        return None
    if count == 0:
        return Instants(0, 0.0, b"", 2, _UNIT_SECONDS, is_exact)
    sent = times
    if count > most:
        sent, is_exact = times[_places(count, most)], False
    span = float(sent[-1] - sent[0])
    # Rounded from the first, not from gap to gap, so that rounding does not add up.
    unit = max(_UNIT_SECONDS, span / np.iinfo(np.uint32).max)
    steps = np.diff(np.rint((sent - sent[0]) / unit))
    width = 2 if steps.size == 0 or steps.max() <= np.iinfo(np.uint16).max else 4
    return Instants(count, float(sent[0]), steps.astype(_WIDTHS[width]).tobytes(), width, unit, is_exact)


def unpacked(instants: Instants) -> FloatArray:
    """The instants; those that were left out lie evenly between their neighbours.

    Raises
    ------
    MalformedMessageError
        They contradict themselves.
    """
    count, width = instants.count, instants.width
    if count == 0:
        return np.empty(0)
    if width not in _WIDTHS or len(instants.gaps) % width:
        raise MalformedMessageError(f"instants: {len(instants.gaps)} bytes are not gaps of {width} bytes")
    if not (np.isfinite(instants.first) and 0.0 < instants.unit_seconds <= 1.0):
        raise MalformedMessageError("instants: the first one and the unit have to be numbers")
    steps = np.frombuffer(instants.gaps, _WIDTHS[width]).astype(np.float64)
    sent = instants.first + np.concatenate(([0.0], np.cumsum(steps))) * instants.unit_seconds
    if len(sent) == count:
        return sent
    if len(sent) > count or len(sent) < 2:
        raise MalformedMessageError(f"instants: {len(sent)} of {count} were sent")
    return np.interp(np.arange(count), _places(count, len(sent)), sent)


def _places(count: int, most: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Places in a list of `count`, evenly, first and last among them; both sides compute the same."""
    return np.arange(most, dtype=np.intp) * (count - 1) // (most - 1)
