# SPDX-License-Identifier: Apache-2.0
"""Describes long or many traces, window by window, as a Spark job: how bursty each is, and when.

``windows`` computes the description of a window and needs no Spark. ``job`` computes it for all windows at once.
"""

from penstock.apps.characterize.windows import COLUMNS, WindowSettings, characterize_gaps, describe_window, plan_windows

__all__ = ["COLUMNS", "WindowSettings", "characterize_gaps", "describe_window", "plan_windows"]
