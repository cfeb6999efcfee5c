# SPDX-License-Identifier: Apache-2.0
"""Unique visitor: how many different visitors each site had, from web access logs."""

from penstock.apps.unique_visitor.query import check_options, unique_visitor

__all__ = ["check_options", "unique_visitor"]
