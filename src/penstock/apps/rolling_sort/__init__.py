# SPDX-License-Identifier: Apache-2.0
"""Rolling sort: records gather in ring buffers, which are sorted every few seconds. It needs memory."""

from penstock.apps.rolling_sort.query import SORTED_SCHEMA, check_options, rolling_sort

__all__ = ["SORTED_SCHEMA", "check_options", "rolling_sort"]
