# SPDX-License-Identifier: Apache-2.0
"""How many tasks work side by side, for a number of executors (MST prediction, Eq. 1)."""

from __future__ import annotations


def parallelism(executors: int, cores: int, units: int = 1) -> int:
    """The duplication factor d = max(1, floor(m gamma / n)) of Eq. 1: so many tasks read, and so many follow a shuffle.

    Parameters
    ----------
    executors
        m, the machines.
    cores
        gamma, the cores of each.
    units
        n, the processing units that run at the same time. Storm's bolts do. Spark runs the stages of a batch one
        after the other, and each has all cores: n is 1.

    Examples
    --------
    >>> [parallelism(m, 2, 3) for m in (1, 3, 5)]  # Fig. 2 of the paper has 2 and 3 for 3 and 5 machines
    [1, 2, 3]
    """
    return max(1, executors * cores // units)
