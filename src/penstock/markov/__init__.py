# SPDX-License-Identifier: Apache-2.0
"""The mathematics of arrivals: Markov chains, phase-type distributions, Markovian arrival processes.

==================  ==============================================================================================
Module              What it gives
==================  ==============================================================================================
conditions          what makes a matrix a process, each condition with its own message
ctmc                classes, stationary vectors, fundamental and deviation matrices, without cancellation
transient           where an absorbing chain is at many instants, both tails accurate
phase_type          `PH`: moments, distribution, quantiles, samples
moment_bounds       which moments n phases can have
phase_type_fit      `PH` from a mean and SCV, from two or three moments
arrival_process     `MAP`: moments, correlation, counts, thinning, scaling, samples
lags                joint moments, autocorrelation, bicovariance, dispersion of intervals
counting            dispersion and distribution of counts
superposition       several streams as one
map2                `MAP` of two phases from three moments and the decay of the autocorrelation; bounds
kronecker           Kronecker composition, and its closed forms
sampling            draws, exact in distribution
fluid               Markov-modulated fluids: the phase of the first return
map_ph_1            the MAP/PH/1 queue: waiting and sojourn time as absorption times
queue_gradient      means of stacks of MAP/PH/1 queues, and their gradients
==================  ==============================================================================================

Nothing here depends on the unit of time: tolerances are relative. Random draws take a `numpy.random.Generator`.

Examples
--------
>>> import numpy as np
>>> bursty = map2_from_moments(1.0, 5.0, 60.0, 0.9)
>>> stream = superpose(bursty, MAP.poisson(0.5))
>>> round(stream.rate, 9), bool(stream.idc(100.0) > 1)
(1.5, True)
>>> bursty.sample(3, np.random.default_rng(7)).shape
(3,)
"""

from penstock.markov.arrival_process import MAP
from penstock.markov.ctmc import stationary, stationary_of_stochastic
from penstock.markov.kronecker import (
    combine_autocorrelation,
    combine_moments,
    combine_scv,
    compose,
    composed_autocorrelation,
    composed_bicovariance,
    composed_joint_moment,
    composed_moments,
    composed_scv,
)
from penstock.markov.map2 import Map2Fit, Map2Region, map2_feasible, map2_from_moments, nearest_map2
from penstock.markov.moment_bounds import second_moment_bound, third_moment_bounds
from penstock.markov.phase_type import PH
from penstock.markov.phase_type_fit import PhaseTypeFit, fit_mean_scv, fit_three_moments, fit_two_moments
from penstock.markov.sampling import MapSampler
from penstock.markov.superposition import superpose

__all__ = [
    "MAP",
    "PH",
    "Map2Fit",
    "Map2Region",
    "MapSampler",
    "PhaseTypeFit",
    "combine_autocorrelation",
    "combine_moments",
    "combine_scv",
    "compose",
    "composed_autocorrelation",
    "composed_bicovariance",
    "composed_joint_moment",
    "composed_moments",
    "composed_scv",
    "fit_mean_scv",
    "fit_three_moments",
    "fit_two_moments",
    "map2_feasible",
    "map2_from_moments",
    "nearest_map2",
    "second_moment_bound",
    "stationary",
    "stationary_of_stochastic",
    "superpose",
    "third_moment_bounds",
]
