# SPDX-License-Identifier: Apache-2.0
"""Rolling count: how often each word occurred in the last minute, every minute."""

from penstock.apps.rolling_count.query import check_options, rolling_count

__all__ = ["check_options", "rolling_count"]
