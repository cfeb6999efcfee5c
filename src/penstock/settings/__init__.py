# SPDX-License-Identifier: Apache-2.0
"""What a user may set, declared once: types, defaults, descriptions; docs/reference/settings.md comes from here.

One file describes a pipeline, to run on Spark, to simulate and to plan for.

A settings file is YAML; a wrong one shows all its mistakes at once, each with its path, and nothing is started.
"""

from penstock.settings.broker import BrokerSettings
from penstock.settings.demand import MicroBatchSettings, ServiceSettings
from penstock.settings.fields import Part, Seconds
from penstock.settings.files import read_settings
from penstock.settings.geo import GeoSettings
from penstock.settings.inputs import InputSettings
from penstock.settings.nodes import NodesSettings
from penstock.settings.objectives import (
    Bound,
    PathBound,
    make_objective,
    objective_settings,
    objectives_of,
    objectives_text,
    tightest,
)
from penstock.settings.parts import (
    ArrivalsSettings,
    ClusterSettings,
    GuardSettings,
    OperatorSettings,
    PolicySettings,
    RestartSettings,
)
from penstock.settings.pipeline import RunSettings, load_settings, mode_of, parse_settings, read_guards, run_faults
from penstock.settings.prices import PriceSettings, kept_cost_bases, read_prices
from penstock.settings.secret_values import WITH_SECRETS
from penstock.settings.sizes import ResizeSettings, SizeSettings

__all__ = [
    "WITH_SECRETS",
    "ArrivalsSettings",
    "Bound",
    "BrokerSettings",
    "ClusterSettings",
    "GeoSettings",
    "GuardSettings",
    "InputSettings",
    "MicroBatchSettings",
    "NodesSettings",
    "OperatorSettings",
    "Part",
    "PathBound",
    "PolicySettings",
    "PriceSettings",
    "ResizeSettings",
    "RestartSettings",
    "RunSettings",
    "Seconds",
    "ServiceSettings",
    "SizeSettings",
    "kept_cost_bases",
    "load_settings",
    "make_objective",
    "mode_of",
    "objective_settings",
    "objectives_of",
    "objectives_text",
    "parse_settings",
    "read_guards",
    "read_prices",
    "read_settings",
    "run_faults",
    "tightest",
]
