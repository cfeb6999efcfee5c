# SPDX-License-Identifier: Apache-2.0
"""Applications whose throughput is known, drawn at random: what intervals are graded on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from penstock.ports import ThroughputModel
from penstock.records import Allocation, ThroughputSample

Application: TypeAlias = Callable[[int], float]
Family: TypeAlias = Callable[[np.random.Generator], Application]


def inverse_time(random: np.random.Generator) -> Application:
    """Serial time of up to 15 % of the parallel time, and often some communication."""
    w0, w2, w3 = random.uniform(0.0, 0.15), random.uniform(0.0, 0.004), random.uniform(0.0, 0.0002)
    w2, w3 = w2 * random.integers(2), w3 * random.integers(2)
    return _flat(lambda m: 1e4 / (w0 + 1.0 / m + w2 * m + w3 * m**2))


def polynomial(random: np.random.Generator) -> Application:
    """A base of up to one executor, and communication."""
    w0, w2 = random.uniform(0.0, 1.0), random.uniform(0.0, 0.015)
    return _flat(lambda m: 1e3 * (w0 + m - w2 * m**2))


def power_law(random: np.random.Generator) -> Application:
    """An exponent of 0.6 to 1."""
    beta = random.uniform(0.6, 1.0)
    return lambda m: 1e3 * m**beta


def scalability_law(random: np.random.Generator) -> Application:
    """Contention of up to 15 %, and often some agreement to reach."""
    sigma, kappa = random.uniform(0.0, 0.15), random.uniform(0.0, 0.003) * random.integers(2)
    return _flat(lambda m: 1e3 * m / (1.0 + sigma * (m - 1) + kappa * m * (m - 1)))


FAMILIES: dict[str, Family] = {
    "inverse-time": inverse_time,
    "polynomial": polynomial,
    "power-law": power_law,
    "usl": scalability_law,
}


def of_any_family(random: np.random.Generator) -> Application:
    """One of the four, each as likely."""
    return list(FAMILIES.values())[random.integers(4)](random)


def _flat(rate: Application) -> Application:
    return lambda m: max(rate(size) for size in range(1, m + 1))


def covered(
    model: ThroughputModel,
    family: Family,
    draws: int,
    *,
    trained_on: tuple[int, ...] = (1, 2, 4, 8, 12),
    asked_about: tuple[int, ...] = (3, 5, 6, 10, 16, 24),
    repeats: int = 3,
    noise: float = 0.05,
    coverage: float = 0.9,
    seed: int = 0,
) -> float:
    """The part of new measurements, at sizes that were not trained on, that falls within its interval."""
    random = np.random.default_rng(seed)
    hits = 0
    for _ in range(draws):
        rate = family(random)
        fitted = model.fit(
            [
                ThroughputSample(Allocation(size), rate(size) * float(np.exp(noise * random.normal())))
                for size in trained_on
                for _ in range(repeats)
            ]
        )
        for size in asked_about:
            found = fitted.predict(Allocation(size), coverage)
            hits += found.low <= rate(size) * np.exp(noise * random.normal()) <= found.high
    return hits / (draws * len(asked_about))
