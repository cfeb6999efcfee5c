# SPDX-License-Identifier: Apache-2.0
"""What a fit found, and how sure it is: parameters, their covariance, and the spread of a new measurement.

Everything is in relative terms. Measurements of throughput scatter in proportion to their size, so with r the
logarithm of a measurement over its prediction,

    variance of r for a new measurement = noise^2 (1 + g' C g) + structure^2

where g is the gradient of the logarithm of the prediction by the parameters, and C their covariance per unit of noise.
A fit that minimises sum(v r^2) with weights v, J the gradients at the samples, has (the sandwich of White 1980)

    C = M^-1 (J' V^2 J) M^-1,  M = J' V J,  V = diag(v).

``structure`` is what the form itself may be wrong by, in proportion to how far (in logarithms) a size is beyond those
that were sampled, and likewise (in seconds) a network delay. Leaving out the largest sampled size shows it: whatever
the form misses that size by, beyond what noise explains, it is expected to miss larger ones by at the same rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from penstock.ports import FloatArray
from penstock.records import ThroughputPrediction

PRIOR_SPREAD = 0.10
"""The relative spread of repeated measurements that is assumed while there are too few to see it.

Imai et al. (Fig. 11) report up to 6.9 % mean absolute error of repeats around their own mean, about 8.6 % as a
standard deviation."""
PRIOR_FREEDOM = 2.0
"""With how many degrees of freedom; observed ones replace them."""
LEAST_SPREAD = 0.005
"""No measurement is taken to be better than this, even where repeats happen to agree."""
EXTRAPOLATION_SPREAD = 0.05
"""Relative error of a fully calibrated form for each factor of e beyond the sampled capacities."""
REDUCED_SPREAD = 0.5
"""The same while there are fewer sizes than the form has parameters. On logarithmic scales a throughput rises with a
slope between 0 and 1, so that a guess of either is off by at most 1 per factor of e."""
DELAY_SPREAD = 1.0
"""Relative error of a form that was calibrated with several delays, for each second of delay beyond those."""
UNKNOWN_DELAY_SPREAD = 3.0
"""The same while all samples had one delay. A fall by two thirds was measured at 200 ms, which is 5.6 a second
(experiments/gesscale-law)."""
WIDEST = 20.0
"""Logarithmic half-widths end here, so that bounds stay finite."""


@dataclass(frozen=True, eq=False, slots=True)
class Calibration:
    """A fitted curve.

    Attributes
    ----------
    values
        The parameters.
    covariance
        Their covariance per unit of noise variance.
    noise
        Relative standard deviation of a measurement around the curve.
    freedom
        Degrees of freedom that `noise` was estimated with.
    smallest, largest
        Range of the capacities that were sampled.
    limit
        The capacity at which the curve ends; None: it has no such end.
    is_reduced
        Whether there were fewer sizes than the form has parameters.
    structure
        Relative error of the form itself for each factor of e beyond the sampled capacities.
    is_free
        Which of the parameters were fitted; the others keep their defaults.
    nearest, farthest
        Range of the network delays that were sampled, in seconds.
    delay_structure
        Relative error of the form itself for each second of delay beyond these.
    """

    values: FloatArray
    covariance: FloatArray
    noise: float
    freedom: float
    smallest: float
    largest: float
    limit: float | None = None
    is_reduced: bool = False
    structure: float = EXTRAPOLATION_SPREAD
    is_free: tuple[bool, ...] = ()
    nearest: float = 0.0
    farthest: float = 0.0
    delay_structure: float = 0.0

    def half_width(self, gradient: FloatArray, capacity: float, delay: float, coverage: float) -> float:
        """Half the width of the interval for a new measurement, on a logarithmic scale."""
        beyond = max(0.0, math.log(capacity / self.largest), math.log(self.smallest / capacity))
        farther = max(0.0, delay - self.farthest, self.nearest - delay)
        form = (self.structure * beyond) ** 2 + (self.delay_structure * farther) ** 2
        spread = math.sqrt(self.noise_variance(gradient) + form)
        return min(WIDEST, spread * t_quantile(coverage, self.freedom))

    def noise_variance(self, gradient: FloatArray) -> float:
        """Variance of a new measurement, on a logarithmic scale, if the form is right."""
        return self.noise**2 * (1.0 + max(0.0, float(gradient @ self.covariance @ gradient)))


def covariance_of(gradients: FloatArray, weights: FloatArray) -> FloatArray:
    """C of the module's formula; parameters that the samples say nothing about have no variance."""
    scale = np.sqrt((gradients**2 * weights[:, None]).sum(axis=0))
    scale = np.where(scale > 0.0, scale, 1.0)
    scaled = gradients / scale
    inverse = np.linalg.pinv(scaled.T @ (weights[:, None] * scaled), rcond=1e-10, hermitian=True)
    found: FloatArray = inverse @ (scaled.T @ ((weights**2)[:, None] * scaled)) @ inverse / np.outer(scale, scale)
    return found


def noise_of(residuals: FloatArray, weights: FloatArray, used: float, count: float) -> tuple[float, float]:
    """Relative standard deviation of a measurement, and its degrees of freedom.

    Parameters
    ----------
    residuals, weights
        Logarithms of measurement over prediction, and what each sample counts.
    used
        How many parameters the fit has taken up.
    count
        How many equally weighted samples these are.
    """
    seen = max(0.0, count - used)
    assumed = max(0.0, PRIOR_FREEDOM - seen)
    mean_square = float(np.average(residuals**2, weights=weights))
    square_sum = mean_square * count + assumed * PRIOR_SPREAD**2
    return max(LEAST_SPREAD, math.sqrt(square_sum / (seen + assumed))), seen + assumed


def t_quantile(coverage: float, freedom: float) -> float:
    """How many standard deviations around the middle of Student's distribution hold this probability."""
    return float(special.stdtrit(freedom, 0.5 + coverage / 2.0))


def around(mid: float, half_width: float, coverage: float) -> ThroughputPrediction:
    """The prediction with an interval that is symmetric on a logarithmic scale."""
    return ThroughputPrediction(mid, mid * math.exp(-half_width), mid * math.exp(half_width), coverage)
