# SPDX-License-Identifier: Apache-2.0
"""Grep: how many lines of text a regular expression is found in. It needs CPU, and one counter for all."""

from penstock.apps.grep.query import DEFAULT_PATTERN, check_options, grep

__all__ = ["DEFAULT_PATTERN", "check_options", "grep"]
