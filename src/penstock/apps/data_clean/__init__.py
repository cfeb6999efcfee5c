# SPDX-License-Identifier: Apache-2.0
"""Data clean: the accesses that succeeded, from web access logs."""

from penstock.apps.data_clean.query import check_options, data_clean

__all__ = ["check_options", "data_clean"]
