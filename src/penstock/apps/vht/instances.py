# SPDX-License-Identifier: Apache-2.0
"""Instances as lines: ``7 03 99 45 ...``, a class of one digit, then attributes of two digits each.

All lines have the same length, so a batch of them is one array of bytes and is read without touching a line by itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.apps.vht.tree import Values


def read_instances(lines: Any, attributes: int, classes: int) -> tuple[NDArray[np.int64], Values]:
    """Return the classes and the attributes of well-formed lines, an Arrow array of strings; others are left out."""
    width = 1 + 3 * attributes
    fitting = lines.cast(pa.string()).filter(pc.equal(pc.binary_length(lines), width))
    start = fitting.offset
    offsets = np.frombuffer(fitting.buffers()[1], dtype=np.int32)[start : start + len(fitting) + 1]
    if not len(fitting):
        return np.empty(0, dtype=np.int64), np.empty((0, attributes), dtype=np.uint8)
    text = np.frombuffer(fitting.buffers()[2], dtype=np.uint8)[offsets[0] : offsets[-1]].reshape(-1, width)
    digits = text - ord("0")  # what is no digit becomes 10 or more
    spaces = text[:, 1::3]
    is_good = (spaces == ord(" ")).all(axis=1) & (digits[:, 0] < classes)
    is_good &= (digits[:, 2::3] < 10).all(axis=1) & (digits[:, 3::3] < 10).all(axis=1)
    digits = digits[is_good]
    return digits[:, 0].astype(np.int64), digits[:, 2::3] * 10 + digits[:, 3::3]
