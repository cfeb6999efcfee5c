# SPDX-License-Identifier: Apache-2.0
"""A power of the number of executors, less what the network's delay costs.

    MST = alpha n^beta - gamma ND_max                                       (Arkian et al., Gesscale, ICCCN 2021, Eq. 1)

alpha is the throughput of one executor, beta how well the engine goes parallel, ND_max the largest delay between the
nodes. With the CPU share s one executor does alpha s^q: q = 1 until samples of several shares say how much of its work
the share slows. With one share for all samples the published form is left as it is.

Calibration is progressive, as in Gesscale (Eqs. 2 and 3): alpha from one configuration (beta = 1, gamma = 0); from
two, also gamma where their delays differ, else beta (with one number of executors: q); from three or more, all that
the samples tell apart. Relative errors count, large ones less (soft L1), and samples fade with their age.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from scipy.optimize import least_squares

from penstock.errors import ConfigurationError
from penstock.latency_map import LONGEST_ROUND_TRIP_SECONDS
from penstock.performance.throughput.curve_model import CurveModel, Flags
from penstock.performance.throughput.sample_table import SampleTable
from penstock.ports import FloatArray
from penstock.records import Allocation

OUTLIER = 0.15
"""Relative errors above this count less and less."""
_LEAST_RATIO = 1e-3
"""A prediction below this part of a measurement is as wrong as one at it, so that logarithms stay finite."""


@dataclass(frozen=True, eq=False)
class PowerLawModel(CurveModel):
    """Gesscale's model.

    Attributes
    ----------
    delay_of
        Gives the largest network delay between an allocation's nodes, in seconds; 0 where it has one node. None: delays
        are left out. A function of a module, so that the model can be pickled.
    """

    name: ClassVar[str] = "power-law"
    parameter_names: ClassVar[tuple[str, ...]] = ("alpha", "beta", "gamma", "share_exponent")
    ends_at_one_size: ClassVar[bool] = False  # Gesscale, Eq. 2: proportional, so that a first step up can be planned

    delay_of: Callable[[Allocation], float] | None = None
    half_life_seconds: float | None = field(default=86_400.0, kw_only=True)

    def delay_for(self, allocation: Allocation) -> float:
        """What `delay_of` says."""
        return delay_in_seconds(self.delay_of, allocation)

    @property
    def calibration_state(self) -> str:
        """Which parameters samples have set, and which keep their defaults (Gesscale, Section IV-C)."""
        return self.state_of(("alpha", "gamma", "beta"))

    def size_count(self, table: SampleTable) -> int:
        """Configurations differ in executors, speed or delay."""
        return table.configurations

    def curve(self, values: FloatArray, executors: FloatArray, speed: FloatArray, delay: FloatArray) -> FloatArray:
        """Eq. 1, and nothing instead of a negative throughput."""
        alpha, beta, gamma, exponent = values
        rates: FloatArray = np.maximum(alpha * speed**exponent * executors**beta - gamma * delay, 0.0)
        return rates

    def log_gradient(
        self, values: FloatArray, executors: FloatArray, speed: FloatArray, delay: FloatArray
    ) -> FloatArray:
        """By alpha, beta, gamma and the exponent of the share."""
        alpha, beta, _, exponent = values
        gain = alpha * speed**exponent * executors**beta
        rates = self.curve(values, executors, speed, delay)
        terms = np.column_stack((gain / alpha, gain * np.log(executors), -delay, gain * np.log(speed)))
        return terms / np.where(rates > 0.0, rates, np.inf)[:, None]

    def proportional(self, rate_per_executor: float) -> FloatArray:
        """Eq. 2."""
        return np.array([rate_per_executor, 1.0, 0.0, 1.0])

    def calibrated(self, table: SampleTable) -> tuple[FloatArray, Flags]:
        """What the number of configurations allows."""
        free = self._free(table)
        unit = float(np.max(table.rate))
        rate, delay_unit = table.rate / unit, float(np.max(table.delay)) or 1.0
        root = np.sqrt(table.weight)
        values = self.proportional(float(np.median(rate / table.capacity)))

        def with_free(chosen: FloatArray) -> FloatArray:
            merged = values.copy()
            merged[free] = chosen
            return merged

        def misses(chosen: FloatArray) -> FloatArray:
            alpha, beta, gamma, exponent = with_free(chosen)
            gain = alpha * table.speed**exponent * table.executors**beta
            ratio = np.maximum((gain - gamma * table.delay / delay_unit) / rate, _LEAST_RATIO)
            found: FloatArray = root * np.log(ratio)  # unlike a ratio less 1, twice counts as much as half
            return found

        def slopes(chosen: FloatArray) -> FloatArray:
            alpha, beta, gamma, exponent = with_free(chosen)
            of_one = table.speed**exponent * table.executors**beta
            gain, delay = alpha * of_one, table.delay / delay_unit
            rates = gain - gamma * delay
            terms = np.column_stack((of_one, gain * np.log(table.executors), -delay, gain * np.log(table.speed)))
            moves = root / np.where(rates > _LEAST_RATIO * rate, rates, np.inf)  # what is cut off does not move
            found: FloatArray = (terms * moves[:, None])[:, free]
            return found

        start = np.array([values[0], 0.8, 0.01, 0.8])[free]
        start[0] = float(np.median(rate / (table.speed * table.executors ** (0.8 if free[1] else 1.0))))
        # Neither more executors nor a larger share does more than in proportion.
        highest = np.array([np.inf, 1.0, np.inf, 1.0])[free]
        solved = least_squares(
            misses,
            start,
            jac=slopes,
            bounds=(0.0, highest),
            loss="soft_l1",
            f_scale=OUTLIER,
            x_scale="jac",
            xtol=1e-12,
            ftol=1e-12,
        )
        values = with_free(solved.x)
        values[1:] = np.where(values[1:] > 1e-9, values[1:], 0.0)
        values *= np.array([unit, 1.0, unit / delay_unit, 1.0])
        return values, free

    def _free(self, table: SampleTable) -> Flags:
        several_executors, several_speeds = (bool(np.ptp(column) > 1e-9) for column in (table.executors, table.speed))
        # Gesscale: gamma before beta
        order = [(2, table.several_delays), (1, several_executors), (3, several_speeds)]
        return free_parameters(table, 4, order)


@dataclass(frozen=True, eq=False)
class ProportionalModel(PowerLawModel):
    """Gesscale's model before it knows more than one measurement (Eq. 2): so much for each executor, wherever it is."""

    name: ClassVar[str] = "proportional"

    @property
    def calibration_state(self) -> str:
        """Its one parameter."""
        return self.state_of(("alpha",))

    def _free(self, table: SampleTable) -> Flags:
        return free_parameters(table, 4, [])


def free_parameters(table: SampleTable, count: int, order: Sequence[tuple[int, bool]]) -> Flags:
    """Which parameters the samples can set: as many as there are configurations, and no more.

    The first always; then, in the order given, each whose place is marked as seen.
    """
    free = np.zeros(count, dtype=np.bool_)
    free[0] = True
    for place, is_seen in order:
        if is_seen and free.sum() < table.configurations:
            free[place] = True
    return free


def delay_in_seconds(delay_of: Callable[[Allocation], float] | None, allocation: Allocation) -> float:
    """What a model's `delay_of` says of an allocation; 0 where there is none.

    A single executor may have one: it is as far away as it is from the driver.
    """
    if delay_of is None:
        return 0.0
    delay = delay_of(allocation)
    if not 0.0 <= delay <= LONGEST_ROUND_TRIP_SECONDS:
        raise ConfigurationError(
            f"delay_of: {delay!r} for {allocation} is no delay; give seconds from 0 (one node) to "
            f"{LONGEST_ROUND_TRIP_SECONDS:,.0f}",
            field="delay_of",
        )
    return delay
