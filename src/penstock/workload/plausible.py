# SPDX-License-Identifier: Apache-2.0
"""Which of a window's processes are right where it matters: with the service times that the operators will have.

Fits are held to the replayed queue at utilisations of 0.5 and 0.8. A process that is right there may still be off by a
factor of two at 0.2, and whoever takes the worst of ten processes takes just that one. So before a worst case is taken,
the window is replayed with the service times in question, and processes that are far off there are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from penstock.errors import ConfigurationError
from penstock.workload.candidates import FittedMap
from penstock.workload.estimate import FittedWorkload
from penstock.workload.moments import check_iats
from penstock.workload.replay_queue import predicted_responses, replay

FloatArray = npt.NDArray[np.float64]

_FULL = 0.95
"""Beyond this utilisation a window is too short to say how long its queue would become."""


def plausible_maps(
    estimate: FittedWorkload,
    iats: npt.ArrayLike,
    service_times: Sequence[float],
    *,
    factor: float = 1.25,
    seed: int = 0,
) -> dict[int, tuple[FittedMap, ...]]:
    """Give, for each window by its length, the processes whose queues are right for some service times.

    Parameters
    ----------
    estimate
        The fits of all windows.
    iats
        The buffer they were made from, oldest first.
    service_times
        Mean service times for which the queues are compared, in the unit of `iats`: those of the operators at the
        shares in question. Those that saturate a window are passed over there.
    factor
        How far off the mean response time may be, up or down, at any of them. Where every process of a window is
        further off, the nearest is given: no window is left without.
    seed
        Of the replay's service times.

    Examples
    --------
    >>> from penstock.workload.estimate import estimate_workload
    >>> buffer = np.random.default_rng(1).exponential(0.1, 8000)
    >>> told = estimate_workload(buffer, shares=(1.0,), best=2)
    >>> [len(maps) for maps in plausible_maps(told, buffer, (0.02, 0.06)).values()]
    [1]
    """
    times = np.array(service_times, dtype=np.float64)
    if not times.size or not (np.isfinite(times).all() and times.min() > 0):
        raise ConfigurationError(
            f"service_times: {times.tolist()} must be times above 0, one at least", field="service_times"
        )
    if not factor > 1.0:
        raise ConfigurationError(f"factor: {factor!r} must be above 1, such as 1.25", field="factor")
    values = check_iats(iats)
    kept = {}
    for window in estimate.windows:
        loads = tuple(float(load) for load in np.unique(times * window.fit.trace.rate) if load < _FULL)
        if not loads:  # every one saturates: there is nothing to tell them apart by
            kept[window.n] = window.fit.maps
            continue
        replayed = replay(values[values.size - window.n :], np.random.default_rng(seed), loads).responses
        off = np.array(
            [float(np.abs(np.log(predicted_responses(m.map, loads) / replayed)).max()) for m in window.fit.maps]
        )
        limit = max(float(np.log(factor)), float(off.min()))
        kept[window.n] = tuple(m for m, far in zip(window.fit.maps, off, strict=True) if far <= limit)
    return kept
