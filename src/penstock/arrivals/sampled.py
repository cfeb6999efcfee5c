# SPDX-License-Identifier: Apache-2.0
"""Random arrivals at a shape's rate: an exact nonhomogeneous Poisson process with random access.

By time rescaling, the points S_1 < S_2 < ... of a unit-rate Poisson process become a Poisson process of rate
lambda(t) when each is taken back through the cumulative rate: t_i = Lambda^-1(S_i). To reach any S_i without
drawing all before it, the points are split into blocks of equal count B. The length of a block is Gamma(B, 1), drawn
once for all blocks and summed. Given its length, the points inside are a Dirichlet split of it: exponentials scaled to
that length. Together they are exactly the unit-rate process, and each block can be drawn by its number alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from penstock.arrivals.contract import check_range
from penstock.arrivals.shapes import Shape
from penstock.errors import ConfigurationError
from penstock.ports import FloatArray

_RECORDS_PER_BLOCK = 4096


@dataclass(frozen=True)
class Sampled:
    """A Poisson process at the rate of a shape, the same for the same seed.

    The number of records is random too: Poisson distributed about the shape's. 10^9 records need 2 MB of memory.

    Parameters
    ----------
    shape
        The rate over time, and how long it lasts.
    seed
        A whole number from 0. Different releases of numpy may draw different numbers.
    """

    shape: Shape
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 1 << 64:
            raise ConfigurationError(f"seed: {self.seed} is not a whole number from 0 to 2^64 - 1", field="seed")
        if self.total < 1:
            raise ConfigurationError(
                f"seed: no record arrives within {self.duration_seconds:g} s with seed {self.seed}; "
                "give another seed, a higher rate or a longer duration",
                field="seed",
            )

    @property
    def duration_seconds(self) -> float:
        """The shape's duration."""
        return self.shape.duration_seconds

    @cached_property
    def total(self) -> int:
        """The number of records."""
        last = len(self._edges) - 2
        return last * _RECORDS_PER_BLOCK + len(_block_times(self, last))

    def times(self, start: int, stop: int) -> FloatArray:
        """Return when the records `start` to `stop` (not included) arrive."""
        check_range(start, stop, self.total)
        if start == stop:
            return np.empty(0)
        blocks = range(start // _RECORDS_PER_BLOCK, (stop - 1) // _RECORDS_PER_BLOCK + 1)
        parts = [
            _block_times(self, b)[max(0, start - b * _RECORDS_PER_BLOCK) : stop - b * _RECORDS_PER_BLOCK]
            for b in blocks
        ]
        return np.concatenate(parts)

    def count_until(self, t: float) -> int:
        """Return how many records have arrived at `t`."""
        if t < 0:
            return 0
        last = len(self._edges) - 2
        block = int(np.searchsorted(self._edges, self.shape.cumulative(t), side="right")) - 1
        block = min(max(block, 0), last)
        # Rounding may put `t` on the other side of a block's edge: the times decide.
        while block > 0 and _block_times(self, block - 1)[-1] > t:
            block -= 1
        inside = int(np.searchsorted(_block_times(self, block), t, side="right"))
        while inside == _RECORDS_PER_BLOCK and block < last:
            block += 1
            inside = int(np.searchsorted(_block_times(self, block), t, side="right"))
        return block * _RECORDS_PER_BLOCK + inside

    @cached_property
    def _edges(self) -> FloatArray:
        """The starts of the unit-rate process's blocks, up to the one that contains the shape's end."""
        end = self.shape.expected_records
        draw = _generator(self.seed, 0)
        edges = np.zeros(1)
        while edges[-1] <= end:
            lengths = draw.standard_gamma(
                _RECORDS_PER_BLOCK, size=math.ceil((end - edges[-1]) / _RECORDS_PER_BLOCK) + 1
            )
            edges = np.concatenate((edges, edges[-1] + np.cumsum(lengths)))
        return edges[: int(np.searchsorted(edges, end, side="right")) + 1]


def _generator(seed: int, stream: int) -> np.random.Generator:
    """Return an independent random stream for each seed and number: Philox counts under a key."""
    return np.random.Generator(np.random.Philox(key=np.array([seed, stream], dtype=np.uint64)))


@lru_cache(maxsize=8)
def _block_times(process: Sampled, block: int) -> FloatArray:
    """Return the arrival times of one block's records that are before the end."""
    start, end = process._edges[block : block + 2]
    sums = np.cumsum(_generator(process.seed, block + 1).standard_exponential(_RECORDS_PER_BLOCK))
    points = np.minimum(start + sums * ((end - start) / sums[-1]), end)
    points = points[points <= process.shape.expected_records]
    # Points closer than the rounding of the inverse could swap. Times must not fall.
    bounds = process.shape.inverse(np.array([start, end]))
    times: FloatArray = np.clip(np.maximum.accumulate(process.shape.inverse(points)), bounds[0], bounds[1])
    times.setflags(write=False)
    return times
