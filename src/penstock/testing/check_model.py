# SPDX-License-Identifier: Apache-2.0
"""What every model of throughput must do, checked on any model: ours, and yours.

The suite trains the model on applications of several kinds (proportional, with serial work, with a peak, with a
ceiling, noisy, of one size, of several CPU shares) and looks at what it predicts for many allocations.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Sequence

import numpy as np

from penstock.errors import ConfigurationError, NotReadyError
from penstock.ports import ThroughputModel
from penstock.records import Allocation, ThroughputPrediction, ThroughputSample

_EXECUTORS = (1, 2, 3, 4, 5, 6, 8, 11, 16, 24, 33, 64, 100)
_SHARES = (0.1, 0.4, 0.55, 0.7, 1.0)
_COVERAGES = (0.05, 0.5, 0.8, 0.9, 0.95, 0.999)
_SLACK = 1e-9


def check_model(
    model: ThroughputModel,
    samples: Sequence[Sequence[ThroughputSample]] = (),
    *,
    updates_as_fit: bool = True,
) -> None:
    """Check the promises of `ports.ThroughputModel`.

    Parameters
    ----------
    model
        A model; what it was fitted on does not matter.
    samples
        Further sets of samples to train it on, beside the suite's own.
    updates_as_fit
        Whether the model claims that one more sample makes it what a fit over all samples would; False for a model
        that forgets on its way.

    Raises
    ------
    AssertionError
        A promise is broken; the message says which.
    """
    assert isinstance(model.name, str), "name: reports and settings need a text"
    assert model.name, "name: reports and settings need one"
    _check_refusals(model)
    was_trained = False
    for given in (*_applications(), *samples):
        before = _seen(model)
        try:
            trained = model.fit(given)
        except NotReadyError as fault:
            _check_fault(fault, given)
            continue
        was_trained = True
        assert trained is not model, "fit: must give a new model"
        assert _seen(model) == before, "fit: must not change the model"
        _check_repeated(model, trained, given)
        _check_parameters(trained)
        _check_predictions(trained)
        _check_pickle(trained)
        _check_update(model, trained, given, updates_as_fit=updates_as_fit)
    assert was_trained, "fit: the model was not ready with any of the suite's samples, of up to 8 sizes"


# --- the suite's applications ----------------------------------------------------------------------------------


def _samples(
    rate: Callable[[int, float], float], sizes: Sequence[tuple[int, float]], noise: float, seed: int
) -> tuple[ThroughputSample, ...]:
    random = np.random.default_rng(seed)
    return tuple(
        ThroughputSample(Allocation(executors, share), rate(executors, share) * math.exp(noise * random.normal()), at)
        for at, (executors, share) in enumerate(sizes)
    )


def _applications() -> list[tuple[ThroughputSample, ...]]:
    few = [(size, 1.0) for size in (1, 2, 4, 8)]
    many = [(size, 1.0) for size in (1, 2, 3, 4, 6, 8, 12, 24) for _ in range(2)]
    plane = [(size, share) for size in (1, 2, 4, 8) for share in (0.4, 0.7, 1.0)]
    return [
        _samples(lambda m, s: 1000.0 * m * s, few, 0.0, 1),
        _samples(lambda m, s: 1e4 / (1.0 + 10.0 / (m * s)), many, 0.05, 2),
        _samples(lambda m, s: 1e-3 * m * s / (1.0 + 0.02 * m**2), many, 0.05, 3),
        _samples(lambda m, s: 5e8 * min(m * s, 5.0), many, 0.1, 4),
        _samples(_constant, few, 0.01, 5),
        _samples(lambda m, s: s * 100.0 / m, few, 0.0, 6),
        _samples(lambda m, s: 700.0 * s**0.8 * m**0.7, plane, 0.05, 7),
        _samples(lambda m, s: 300.0 * m * s, [(1, 0.4), (1, 0.7), (1, 1.0)], 0.02, 8),
        _samples(_constant, [(4, 1.0)], 0.0, 9),
        _samples(_constant, [(4, 1.0)] * 5, 0.1, 10),
        _samples(lambda m, s: 1000.0 * m * s, [(1, 1.0), (3, 0.5)], 0.05, 11),
    ]


def _constant(executors: int, share: float) -> float:  # noqa: ARG001
    return 1000.0


# --- the promises ----------------------------------------------------------------------------------------------


def _check_refusals(model: ThroughputModel) -> None:
    try:
        model.fit(())
    except NotReadyError as fault:
        _check_fault(fault, ())
    else:
        raise AssertionError("fit: no samples at all must be NotReadyError")
    for bad in (math.nan, math.inf, -1.0, 0.0):
        try:
            ThroughputSample(Allocation(1), bad)
        except ConfigurationError:
            continue
        raise AssertionError(f"a sample of {bad} records a second was not refused")


def _check_fault(fault: NotReadyError, given: Sequence[ThroughputSample]) -> None:
    assert fault.needed is not None, "NotReadyError: `needed` must say how many samples or sizes it takes"
    assert fault.available is not None, "NotReadyError: `available` must say how many there are"
    assert fault.available < fault.needed, (
        f"NotReadyError with {len(given)} samples: it has {fault.available} and needs {fault.needed}, which is enough"
    )
    assert str(fault.needed) in str(fault), f"NotReadyError: the message must say how many are needed, not {fault}"


def _check_repeated(model: ThroughputModel, trained: ThroughputModel, given: Sequence[ThroughputSample]) -> None:
    seen = _seen(trained)
    assert seen == _seen(model.fit(given)), "fit: the same samples must give the same model"
    next_one = ThroughputSample(Allocation(7), 3.0 * given[-1].records_per_second, float(len(given)))
    assert trained.update(next_one) is not trained, "update: must give a new model"
    assert _seen(trained) == seen, "update: must not change the model"


def _check_parameters(trained: ThroughputModel) -> None:
    for name, value in trained.parameters.items():
        assert math.isfinite(value), f"parameters: {name} is {value}"


def _check_predictions(trained: ThroughputModel) -> None:
    rates = np.empty((len(_EXECUTORS), len(_SHARES)))
    for row, executors in enumerate(_EXECUTORS):
        for column, share in enumerate(_SHARES):
            allocation = Allocation(executors, share)
            rates[row, column] = _check_intervals(trained, allocation)
    slack = 1.0 + _SLACK
    assert np.all(rates[1:] * slack >= rates[:-1]), "predict: more executors must not make a prediction smaller"
    assert np.all(rates[:, 1:] * slack >= rates[:, :-1]), "predict: a larger share must not make a prediction smaller"


def _check_intervals(trained: ThroughputModel, allocation: Allocation) -> float:
    last: ThroughputPrediction | None = None
    for coverage in _COVERAGES:
        found = trained.predict(allocation, coverage)
        numbers = (found.low, found.records_per_second, found.high)
        assert all(map(math.isfinite, numbers)), f"predict: {found} for {allocation} is not finite"
        assert found.low >= 0.0, f"predict: {found} for {allocation} is negative"
        assert found.low <= found.records_per_second <= found.high, f"predict: {found} is not in order"
        assert found.coverage == coverage, f"predict: {found} does not have the coverage that was asked for, {coverage}"
        if last is not None:
            assert found.records_per_second == last.records_per_second, "predict: coverage must not move the prediction"
            is_wider = found.low <= last.low * (1.0 + _SLACK) and found.high * (1.0 + _SLACK) >= last.high
            assert is_wider, f"predict: a larger coverage must not be narrower: {last}, {found}"
        last = found
    return found.records_per_second


def _check_pickle(trained: ThroughputModel) -> None:
    again: ThroughputModel = pickle.loads(pickle.dumps(trained))
    assert _seen(again) == _seen(trained), "pickle: the model must come back as it was"


def _check_update(
    model: ThroughputModel, trained: ThroughputModel, given: Sequence[ThroughputSample], *, updates_as_fit: bool
) -> None:
    if len(given) < 2:
        return
    try:
        grown = model.fit(given[:-1]).update(given[-1])
    except NotReadyError:
        return  # one fewer was not enough for a fit
    if updates_as_fit:  # then its predictions are those of a fit, which are checked
        assert _seen(grown) == _seen(trained), "update: must give what a fit over all samples gives"
    else:
        _check_predictions(grown)


def _seen(model: ThroughputModel) -> tuple[object, ...]:
    """Everything that can be seen of a model, to compare it with another."""
    try:
        answers = [model.predict(Allocation(size, share)) for size in (1, 3, 9, 50) for share in (0.4, 1.0)]
    except NotReadyError:
        answers = []
    return (model.name, dict(model.parameters), answers)
