# SPDX-License-Identifier: Apache-2.0
"""Measured throughputs of several applications over the same sizes, as the sums that a search over sizes needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.errors import ConfigurationError
from penstock.ports import FloatArray
from penstock.records import ThroughputSample

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class BenchmarkSamples:
    """Samples of every application at every size, normalised by the application's largest sample (Sec. 4.4.1, step 1).

    Arrays have a row for each application and a column for each size.

    Attributes
    ----------
    applications, sizes
        In order; sizes are numbers of executors.
    counts
        How many samples there are.
    throughput
        Their mean.
    time
        The mean of their reciprocals: what the model of processing times is trained on.
    scatter
        The sum of squared distances of samples to their mean.
    """

    applications: tuple[str, ...]
    sizes: IntArray
    counts: FloatArray
    throughput: FloatArray
    time: FloatArray
    scatter: FloatArray

    @classmethod
    def of(cls, samples: Mapping[str, Sequence[ThroughputSample]]) -> BenchmarkSamples:
        """Sum up samples by application and number of executors.

        Raises
        ------
        ConfigurationError
            There is no application, or one was not measured at a size at which another was, or shares differ.
        """
        if not samples:
            raise ConfigurationError("samples: there is no application; give samples of at least one", field="samples")
        faults = [
            f"{name}: samples have several CPU shares; give those of one share"
            for name, of in samples.items()
            if len({sample.allocation.cpu_share for sample in of}) > 1
        ]
        by_size = {
            name: _by_size([(sample.allocation.executors, sample.records_per_second) for sample in of])
            for name, of in samples.items()
        }
        sizes = sorted(set().union(*by_size.values()))
        for name, found in by_size.items():
            missing = [str(size) for size in sizes if size not in found]
            if missing:
                faults.append(f"{name}: no sample with {', '.join(missing)} executors, where another application has")
        if faults:
            raise ConfigurationError.of_all("samples", faults)
        rows = [[_sums(found[size], max(map(max, found.values()))) for size in sizes] for found in by_size.values()]
        counts, throughput, time, scatter = np.moveaxis(np.array(rows, dtype=np.float64), 2, 0)
        return cls(tuple(samples), np.array(sizes, dtype=np.int64), counts, throughput, time, scatter)


def _by_size(pairs: Sequence[tuple[int, float]]) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    for size, throughput in pairs:
        found.setdefault(size, []).append(throughput)
    return found


def _sums(values: Sequence[float], largest: float) -> tuple[float, float, float, float]:
    shares = np.asarray(values) / largest
    return len(shares), shares.mean(), (1.0 / shares).mean(), ((shares - shares.mean()) ** 2).sum()
