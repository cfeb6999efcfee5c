# SPDX-License-Identifier: Apache-2.0
"""Forecasts of a series of readings, each with its live error, used only while they beat "as now".

==================  ==============================================================================================
Module              What it computes
==================  ==============================================================================================
contract            the answer (`Forecast`) and what a method has to offer (`Method`)
forecaster          one series: readings in, forecasts out
grading             what each method's forecasts for one horizon were worth, and which method answers
padding             how much to add so that a forecast is seldom too low
readings            the newest readings of a series; `EvenReadings` makes them from values at any times
period              whether a series repeats itself, and after how many readings
signature           a series that repeats itself: what it was at the same phase
autoregression      a weighted sum of the readings before
markov_chain        where a chain of levels goes from the last two
==================  ==============================================================================================
"""

from penstock.workload.forecast.contract import AS_NOW, METHODS, Forecast
from penstock.workload.forecast.forecaster import Forecaster
from penstock.workload.forecast.grading import MethodError
from penstock.workload.forecast.readings import EvenReadings

__all__ = ["AS_NOW", "METHODS", "EvenReadings", "Forecast", "Forecaster", "MethodError"]
