# SPDX-License-Identifier: Apache-2.0
"""Long or many traces in numbers, window by window, as a Spark job: how bursty each is, and when.

``windows`` says what is computed of a window and needs no Spark; ``job`` computes it for all of them at once.
"""

from penstock.apps.characterize.windows import COLUMNS, WindowSettings, characterize_gaps, describe_window, plan_windows

__all__ = ["COLUMNS", "WindowSettings", "characterize_gaps", "describe_window", "plan_windows"]
