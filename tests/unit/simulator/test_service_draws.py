# SPDX-License-Identifier: Apache-2.0
"""Service times: their moments, and that a record's draw depends on seed, stream and number alone."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from penstock.errors import ConfigurationError
from penstock.markov import PH
from penstock.simulator import (
    Deterministic,
    Gamma,
    Hyper2,
    LogNormal,
    PhaseType,
    Samples,
    Service,
    erlang,
    exponential,
)
from penstock.simulator.draws import IndexedDraws, uniforms

SERVICES: list[tuple[Service, float, float]] = [
    (exponential(0.02), 0.02, 1.0),
    (erlang(2, 0.02), 0.02, 0.5),
    (erlang(7, 0.02), 0.02, 1 / 7),
    (Gamma(0.02, 0.3), 0.02, 0.3),
    (Hyper2(0.02, 4.0), 0.02, 4.0),
    (LogNormal(0.02, 0.8), 0.02, 0.8),
    (
        PhaseType(PH.coxian([100.0, 20.0], [0.3])),
        PH.coxian([100.0, 20.0], [0.3]).mean,
        PH.coxian([100.0, 20.0], [0.3]).scv,
    ),
    (Samples([0.01, 0.02, 0.06]), 0.03, 14 / 27),
]


@pytest.mark.parametrize(("service", "mean", "scv"), SERVICES, ids=lambda s: type(s).__name__)
def test_draws_have_the_declared_moments(service: Service, mean: float, scv: float) -> None:
    """Mean and squared coefficient of variation of many draws are the declared ones, within five standard errors."""
    n = 200_000
    draws = service.draw(np.random.default_rng(5), n)
    wanted = scv
    assert service.mean == pytest.approx(mean, rel=1e-12)
    assert service.scv == pytest.approx(wanted, rel=1e-12)
    assert (draws >= 0).all()
    assert draws.mean() == pytest.approx(mean, rel=5 * np.sqrt(wanted / n))
    # The standard error of the SCV from the draws' own fourth moment.
    centred = (draws / mean - 1.0) ** 2
    assert centred.mean() == pytest.approx(wanted, abs=5 * centred.std() / np.sqrt(n))


def test_deterministic_work_is_always_the_same() -> None:
    """A deterministic service draws its mean, and uses no random numbers."""
    assert Deterministic(0.5).draw(np.random.default_rng(0), 3).tolist() == [0.5, 0.5, 0.5]
    assert Deterministic(0.5).scv == 0.0


@pytest.mark.parametrize("cuts", [[0, 40_000], [0, 1, 2, 16_384, 16_385, 40_000], list(range(0, 40_001, 625))])
def test_a_record_draws_the_same_however_it_is_asked(cuts: list[int]) -> None:
    """Numbers by index are the same in one piece and in many, over the edges of the blocks."""
    whole = IndexedDraws(exponential(1.0).draw, 9, "parser/work").between(0, 40_000)
    draws = IndexedDraws(exponential(1.0).draw, 9, "parser/work")
    parts = [draws.between(a, b) for a, b in pairwise(cuts)]
    assert np.array_equal(np.concatenate(parts), whole)
    assert draws.between(7, 7).size == 0


def test_seeds_and_streams_are_apart() -> None:
    """Another seed or another stream gives other, uncorrelated numbers."""
    n = 20_000
    one = uniforms(1, "a").between(0, n)
    for other in (uniforms(2, "a"), uniforms(1, "b")):
        assert abs(np.corrcoef(one, other.between(0, n))[0, 1]) < 5 / np.sqrt(n)


@pytest.mark.parametrize("seed", [-1, 1 << 64])
def test_a_seed_outside_its_range_is_refused(seed: int) -> None:
    """Seeds are whole numbers of 64 bits; the error says so."""
    with pytest.raises(ConfigurationError, match="seed"):
        uniforms(seed, "a")


@pytest.mark.parametrize(
    "make",
    [
        lambda: exponential(0.0),
        lambda: exponential(float("nan")),
        lambda: erlang(0, 1.0),
        lambda: Hyper2(1.0, 1.0),
        lambda: LogNormal(1.0, 0.0),
        lambda: Samples([]),
        lambda: Samples([1.0, -1.0]),
        lambda: Samples([0.0, 0.0]),
    ],
)
def test_impossible_services_are_refused(make: object) -> None:
    """What is no distribution of work raises ConfigurationError that names the field."""
    with pytest.raises(ConfigurationError) as caught:
        make()  # type: ignore[operator]
    assert caught.value.field
