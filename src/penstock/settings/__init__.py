# SPDX-License-Identifier: Apache-2.0
"""What a user may set, declared once: types, defaults, descriptions; docs/reference/settings.md comes from here.

A settings file is YAML; a wrong one shows all its mistakes at once, each with its path, and nothing is started.
"""

from penstock.settings.fields import CpuShares, Executors, Name, Seconds
from penstock.settings.files import read_settings
from penstock.settings.objectives import Bound, PathBound, make_objective, objectives_of, objectives_text, tightest
from penstock.settings.parts import (
    WITH_SECRETS,
    ArrivalsSettings,
    BrokerSettings,
    ClusterSettings,
    GuardSettings,
    OperatorSettings,
    PolicySettings,
    RestartSettings,
)
from penstock.settings.run import MEAD_SHARES, RunSettings, load_settings, mode_of, parse_settings
from penstock.settings.sizes import ResizeSettings, SizeSettings

__all__ = [
    "MEAD_SHARES",
    "WITH_SECRETS",
    "ArrivalsSettings",
    "Bound",
    "BrokerSettings",
    "ClusterSettings",
    "CpuShares",
    "Executors",
    "GuardSettings",
    "Name",
    "OperatorSettings",
    "PathBound",
    "PolicySettings",
    "ResizeSettings",
    "RestartSettings",
    "RunSettings",
    "Seconds",
    "SizeSettings",
    "load_settings",
    "make_objective",
    "mode_of",
    "objectives_of",
    "objectives_text",
    "parse_settings",
    "read_settings",
    "tightest",
]
