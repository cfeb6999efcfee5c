# SPDX-License-Identifier: Apache-2.0
"""Which sizes to measure before throughput is predicted: phase 1 of capacity planning."""

from penstock.performance.sample_sizes.benchmark_samples import BenchmarkSamples
from penstock.performance.sample_sizes.d_optimal import d_optimal_sizes
from penstock.performance.sample_sizes.subset_search import (
    SizeSet,
    SubsetSearch,
    search_all,
    search_at_random,
    search_sizes,
)

__all__ = [
    "BenchmarkSamples",
    "SizeSet",
    "SubsetSearch",
    "d_optimal_sizes",
    "search_all",
    "search_at_random",
    "search_sizes",
]
