# SPDX-License-Identifier: Apache-2.0
"""Speed of light: records pass through a chain of processing units that do nothing with them. It needs network."""

from penstock.apps.sol.query import check_options, sol

__all__ = ["check_options", "sol"]
