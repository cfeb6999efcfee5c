# SPDX-License-Identifier: Apache-2.0
"""The command line: `penstock demo | run | explain | report | doctor | fit | trace | characterize`."""

from penstock.cli.main import main

__all__ = ["main"]
